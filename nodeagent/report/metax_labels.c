/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/report/metax_labels.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

#include "api/feature_label.h"

/* "MXC500" belongs to the family MXC. */
static void add_metax_model(struct label_list *l, const struct gpu_card *card)
{
    char family[GPU_NAME_BYTES];
    size_t n = strcspn(card->model, "0123456789");
    (void)snprintf(family, sizeof(family), "%.*s", (int)n, card->model);
    label_put_text(l, FEATURE_METAX, "product", card->model);
    label_put_text(l, FEATURE_METAX, "family", family);
    if (card->memory_mib)
        label_put_of(l, FEATURE_METAX, "memory", "%lluGB",
                     (unsigned long long)card->memory_mib >> 10);
}

void metax_labels_add(struct label_list *l, const struct gpu_labels_input *in,
                      const struct gpu_driver *driver, const struct label_pool *cards)
{
    static const char *const names[] = {"major", "minor", "patch"};
    char parts[3][24];
    (void)in;
    assert(cards->n);
    label_put(l, FEATURE_METAX "installed", "true");
    add_metax_model(l, label_pool_speaker(cards)->of->card);
    label_split_version(driver->version, parts);
    for (size_t i = 0; *driver->version && i < ARRAY_LEN(names); i++)
        label_put_text(l, FEATURE_METAX "driver.", names[i], parts[i]);
}
