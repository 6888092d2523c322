/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

#include "nodeagent/container/grant_mark.h"

/*
 * A description of devices: one of the CDI files that the agent writes (nodeagent/cdi/cdi.h,
 * cdi_slot.h). Pure. Only members that the agent writes are known. A file with any other is refused:
 * a container without what that member says could be as wrong as one with another device.
 */

enum { DESCRIPTION_BYTES = 16 << 20 }; /* the agent's own bound */

/* The path of the file that describes the device. Caller frees. */
char *description_path(const char *folder, const struct grant_mark *m);

/* Parses a file. ERR_INVALID: not a description of this vendor's devices, or of another version;
 * ERR_PROTOCOL, ERR_TOO_LARGE: not JSON. *ret is a new reference. */
int description_parse(const char *text, size_t len, const char *vendor, json_t **ret,
                      struct err *e) MUST_CHECK;

/* The edits that every container gets; NULL: none. Borrowed. */
const json_t *description_common(const json_t *description);
/* The edits of a device. ERR_NOT_FOUND: it has none of this name. Borrowed. */
int description_device(const json_t *description, const char *name, const json_t **ret,
                       struct err *e) MUST_CHECK;
/* True where one of its devices, or all containers, get a device file of this path. */
bool description_has_node(const json_t *description, const char *path);
