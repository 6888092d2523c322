/* SPDX-License-Identifier: Apache-2.0 */
/* The names of MXSML's return codes, and of the errno values that go with some of them. */
#pragma once

#include <stddef.h>

/* "BusyDevice", "Success" ...; "UNNAMED" for other codes. Static. */
const char *mxsml_code_name(int code);

/* The text of mxSmlGetErrorString for it. Static. */
const char *mxsml_code_text(int code);

/* The code of that name ("BusyDevice"), or -1. */
int mxsml_code_parse(const char *name);

/* The name of the i-th code, "Success" first; NULL after the last. Static. */
const char *mxsml_code_at(size_t i);

/* The errno of that name ("EINVAL") or number, or 0. */
int errno_parse(const char *name);

/* "EINVAL"; NULL for values without a name here. Static. */
const char *errno_name(int value);
