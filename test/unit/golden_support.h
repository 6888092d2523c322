/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Golden files: the text that a test expects, below test/golden/. `make golden` (GOLDEN_REWRITE in
 * the environment) writes what the tests got; the diff is then reviewed like code.
 */

/* Fails the running test unless the file holds exactly this text. path is relative to test/golden.
 * The working directory is the repository's root. */
void golden_check(const char *path, const char *text);
