/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* The objects that a command line names. Pure. */

/* A pod: NAME or pod/NAME, as kubectl takes it, or NAMESPACE/NAME, as the commands print it. The
 * caller frees *ret_ns, which is NULL where the word has none; *ret_name is borrowed from the word.
 * ERR_INVALID. */
int operand_pod(const char *word, char **ret_ns, const char **ret_name, struct err *e) MUST_CHECK;

/* A node: NAME or node/NAME. *ret_name is borrowed. ERR_INVALID. */
int operand_node(const char *word, const char **ret_name, struct err *e) MUST_CHECK;
