/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Text as the value of a label: spaces become dashes, what labels must not hold is dropped, at most
 * 63 bytes, a letter or digit at both ends (GPU feature discovery does the same to product names).
 * NULL when nothing is left. Caller frees. */
char *label_value_from(const char *text);
