/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/report/node_summary.h"

#include <stdlib.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/mode/card_mode.h"

enum { TEXT_BYTES = 1000 };

struct tally {
    char *name;
    int64_t count;
};

/* XPUSH writes the count. NOLINTNEXTLINE(readability-non-const-parameter) */
static void tally_add(struct tally **list, size_t *n, const char *name)
{
    for (size_t i = 0; i < *n; i++) {
        if (strcmp((*list)[i].name, name) == 0) {
            (*list)[i].count++;
            return;
        }
    }
    struct tally *t = XPUSH(*list, *n);
    *t = (struct tally){xstrdup(name), 1};
}

/* "14x1g.10gb 7x2g.20gb 1xgpu": joins and frees a tally. */
static char *tally_text(struct tally *list, size_t n, const char *times, const char *separator)
{
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    for (size_t i = 0; i < n; i++) {
        sb_addf(&text, "%s%lld%s%s", i ? separator : "", (long long)list[i].count, times,
                list[i].name);
        free(list[i].name);
    }
    free(list);
    return sb_take(&text);
}

static int by_tally_name(const void *a, const void *b)
{
    return strcmp(((const struct tally *)a)->name, ((const struct tally *)b)->name);
}

void node_summary_build(struct device_status *ret)
{
    struct tally *models = NULL;
    struct tally *layout = NULL;
    size_t n_models = 0;
    size_t n_layout = 0;
    ret->has_summary = true;
    ret->summary.gpus = (int64_t)ret->n_devices;
    for (size_t i = 0; i < ret->n_devices; i++) {
        const struct device_card *c = &ret->devices[i];
        tally_add(&models, &n_models, c->model ? c->model : "unknown");
        if (c->has_fractional)
            tally_add(&layout, &n_layout, "fractional");
        else if (c->mode == API_MODE_NATIVE || !c->n_partitions)
            tally_add(&layout, &n_layout, card_mode_of((enum gpu_mode)c->mode)->summary);
        ret->summary.in_use += c->in_use;
        ret->summary.partitions += (int64_t)c->n_partitions;
        for (size_t k = 0; k < c->n_partitions; k++) {
            tally_add(&layout, &n_layout, c->partitions[k].profile);
            ret->summary.in_use += c->partitions[k].in_use;
        }
    }
    if (n_layout)
        qsort(layout, n_layout, sizeof(*layout), by_tally_name);
    ret->summary.models = tally_text(models, n_models, "x ", ", ");
    ret->summary.layout = tally_text(layout, n_layout, "x", " ");
}
