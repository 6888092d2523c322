/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"

/*
 * The last text that was said about each subject (a node), so that an Event is recorded when its
 * text is news and not at every look. It lives as long as the process: the first text about a
 * subject after a start may have been said by the process before. One copy of a text for each
 * subject. Any thread; one mutex.
 */
struct told;

enum told_news {
    TOLD_FIRST, /* nothing was known of the subject */
    TOLD_SAME,
    TOLD_OTHER, /* the text before was another one */
};

struct told *told_new(void);
/* Notes the text as the last one about the subject. Copies both. */
enum told_news told_note(struct told *t, const char *subject, const char *text);
/* The subject is gone, or nothing is to be said about it: its next text is the first. */
void told_forget(struct told *t, const char *subject);
/* NULL allowed; returns NULL. */
struct told *told_free(struct told *t);
AUTO_DEFINE_PTR(told, struct told, told_free)
#define auto_told AUTO_PTR(told)
