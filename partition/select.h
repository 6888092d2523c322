/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "partition/resolve.h"

/* Which cards a selector means. Pure. */

/* Does everything that the selector gives hold for the card? `count` is not looked at: it limits
 * how many are taken, not which. */
bool select_card(const struct card_selector *sel, const struct resolve_card *card);

/* Is the card meant by this entry of a MIGConfig (PCI ids and indices)? */
bool select_config_entry(const struct migconfig_entry *entry, const struct resolve_card *card);

/* Shell-like match with '*' and '?', ASCII case ignored. Linear in text times pattern. */
bool select_glob(const char *pattern, const char *text);
