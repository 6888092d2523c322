/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Folders of a test's own, below $TMPDIR (which hack/run-tests.sh removes, so that a test that was
 * killed leaves nothing either), else below /tmp.
 */

/* A new empty folder. Caller frees the path. Fails the test. */
char *folder_make(void);
/* Removes a folder with all that is in it, however deep; links are not followed. */
void folder_remove(const char *path);

/* For a suite's .init and .fini: one folder for each test, as its working directory. */
void folder_enter(void);
void folder_leave(void);
/* The path of that folder; borrowed until folder_leave. */
const char *folder_path(void);
