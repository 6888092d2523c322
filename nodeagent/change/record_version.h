/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "base/err.h"

/*
 * The version of a small file that one agent writes and another, perhaps of another release, reads:
 * journals and records of slots (docs/adr/0020-records-across-versions.md). Every such file is a
 * JSON object that begins with {"version":N, so that a reader recognizes a foreign version whatever
 * follows. Files of version 1 may have the version anywhere.
 */
struct record_versions {
    int oldest, newest; /* the versions that are read */
};

/* Checks the beginning of a file. ERR_CONFLICT, reason OtherVersion: the file is of another
 * version; the message says what to do, and only that version or a person may change or remove the
 * file. 0: the version is one that is read, or the file does not begin with one, or is missing.
 * ERR_SYSTEM. */
int record_version_peek(const char *path, const struct record_versions *v,
                        struct err *e) MUST_CHECK;
/* The same check for a file's content. */
int record_version_check(const char *path, const json_t *content, const struct record_versions *v,
                         struct err *e) MUST_CHECK;
/* The text of a file with this content, the version first. Caller frees. */
char *record_version_dump(const json_t *content, int version);
