/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/select.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/num.h"
#include "base/xalloc.h"

static bool same_letter(char pattern, char c)
{
    return pattern == '?' || tolower((unsigned char)pattern) == tolower((unsigned char)c);
}

/* On a mismatch only the last '*' has to take one letter more: an earlier '*' could not match
 * anything that the last cannot. */
bool select_glob(const char *pattern, const char *text)
{
    const char *star = NULL;
    const char *resume = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            resume = text;
        } else if (*pattern && same_letter(*pattern, *text)) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

/* The API writes four digits of PCI domain, NVML eight: the address after leading zeros is
 * compared. */
static const char *short_bus_id(const char *id)
{
    while (*id == '0')
        id++;
    return id;
}

static bool among_ints(unsigned value, const int64_t *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == (int64_t)value)
            return true;
    return n == 0;
}

static bool among_uuids(const char *uuid, char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], uuid) == 0)
            return true;
    return n == 0;
}

static bool among_bus_ids(const char *id, char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcasecmp(short_bus_id(list[i]), short_bus_id(id)) == 0)
            return true;
    return n == 0;
}

bool select_card(const struct card_selector *sel, const struct resolve_card *card)
{
    return (!sel->vendor || strcmp(sel->vendor, card->vendor) == 0) &&
           (!sel->model || select_glob(sel->model, card->model)) &&
           among_ints(card->index, sel->indices, sel->n_indices) &&
           among_uuids(card->uuid, sel->uuids, sel->n_uuids) &&
           among_bus_ids(card->pci_bus_id, sel->pci_bus_ids, sel->n_pci_bus_ids);
}

/* "0xDDDDVVVV" matches any subsystem, "0xDDDDVVVV:0xSSSSssss" exactly one (mig-parted
 * pkg/types/device.go). */
static bool filter_matches(const char *filter, const struct resolve_card *card)
{
    const char *colon = strchr(filter, ':');
    auto_free char *device = xstrndup(filter, colon ? (size_t)(colon - filter) : strlen(filter));
    uint32_t id;
    uint32_t subsystem;
    if (num_parse_hex32(device, &id, NULL) < 0 || id != card->pci_device_id)
        return false;
    if (!colon)
        return true;
    return num_parse_hex32(colon + 1, &subsystem, NULL) == 0 && subsystem == card->pci_subsystem_id;
}

bool select_config_entry(const struct migconfig_entry *entry, const struct resolve_card *card)
{
    if (!among_ints(card->index, entry->indices, entry->n_indices))
        return false;
    for (size_t i = 0; i < entry->n_filter; i++)
        if (filter_matches(entry->filter[i], card))
            return true;
    return entry->n_filter == 0;
}
