/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/auto.h"

/*
 * The last text reported about each subject (a node), so that an Event is recorded once for each
 * new text and not at every reconcile. It lives as long as the process: after a restart, the
 * previous process may have reported the first text already. Keeps one copy of a text for each
 * subject. Any thread; one mutex.
 */
struct told;

enum told_news {
    TOLD_FIRST, /* no text of the subject is known */
    TOLD_SAME,
    TOLD_OTHER, /* the text differs from the one before */
};

struct told *told_new(void);
/* Notes the text as the last one of the subject. Copies both. */
enum told_news told_note(struct told *t, const char *subject, const char *text);
/* Forgets a subject that is gone or about which there is nothing to report: its next text is the
 * first. */
void told_forget(struct told *t, const char *subject);
/* NULL allowed; returns NULL. */
struct told *told_free(struct told *t);
AUTO_DEFINE_PTR(told, struct told, told_free)
#define auto_told AUTO_PTR(told)
