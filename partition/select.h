/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "partition/resolve_types.h"

/* Matches cards against selectors. Pure. */

/* True when every given field of the selector matches the card. `count` is ignored: it limits how
 * many cards are taken, not which. */
bool select_card(const struct card_selector *sel, const struct resolve_card *card);

/* True when this entry of a MIGConfig selects the card (PCI ids and indices). */
bool select_config_entry(const struct migconfig_entry *entry, const struct resolve_card *card);

/* Shell-like match with '*' and '?', ASCII case ignored. Linear in text times pattern. */
bool select_glob(const char *pattern, const char *text);
