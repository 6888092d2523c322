/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The function of this name in the library behind this one; NULL: it has none. */
void *next_symbol(const char *name);
