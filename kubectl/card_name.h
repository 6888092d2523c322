/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* A card in the words of nvidia-smi, for a terminal: "NVIDIA GPU 0". A vendor whom nobody knows is
 * whatever the Device says (safe_text.h). Caller frees. */
char *card_name(const char *vendor, int64_t index);
