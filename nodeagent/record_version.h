/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "base/err.h"

/*
 * The version of a small file that one agent leaves and another finds, perhaps of another release:
 * journals, records of slots (docs/adr/0020-records-across-versions.md). Every such file is a JSON
 * object that begins with {"version":N, so that a reader knows a file that is not its to judge,
 * whatever follows. Files of version 1 may have the version anywhere.
 */
struct record_versions {
    int oldest, newest; /* that are read */
};

/* The file's beginning. ERR_CONFLICT, reason OtherVersion: the file is of another version, which
 * the message says with what to do; nobody but that version, or a person, may change or remove it.
 * 0: it is of one that is read, does not begin with a version, or is not there. ERR_SYSTEM. */
int record_version_peek(const char *path, const struct record_versions *v,
                        struct err *e) MUST_CHECK;
/* The same for a file's content that was read. */
int record_version_check(const char *path, const json_t *content, const struct record_versions *v,
                         struct err *e) MUST_CHECK;
/* The text of a file with this content: the version stands first. Caller frees. */
char *record_version_dump(const json_t *content, int version);
