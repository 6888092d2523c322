/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/commands/host.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/change/card_view.h"

static void drop_reading(struct host *h)
{
    assert(h->inventory.n_cards == 0 || (h->counts && h->cards));
    for (size_t i = 0; i < h->inventory.n_cards; i++)
        card_resolve_counts_free(h->counts[i], h->cards[i].n_partitions);
    free(TAKE(h->counts));
    free(TAKE(h->cards));
    gpu_inventory_done(&h->inventory);
}

int host_read(struct host *h, struct err *e)
{
    struct gpu_inventory fresh = {0};
    TRY(h->gpu->ops->read(h->gpu, &fresh, e));
    drop_reading(h);
    h->inventory = fresh;
    h->cards = xcalloc(fresh.n_cards, sizeof(*h->cards));
    h->counts = xcalloc(fresh.n_cards, sizeof(struct profile_count *));
    for (size_t i = 0; i < fresh.n_cards; i++)
        card_resolve_view(&h->inventory.cards[i], &h->cards[i], &h->counts[i]);
    return 0;
}

/* --- The options of the vendors --- */

static size_t count_options(const struct vendor_backend *b)
{
    size_t n = 0;
    while (b->options && b->options[n].name)
        n++;
    assert(n <= VENDOR_MAX_OPTIONS);
    return n;
}

/* Returns the number of defs after that. */
static size_t add_vendor_options(struct host_flags *f, struct option_def **defs, size_t n)
{
    for (size_t v = 0; vendor_backends[v]; v++) {
        const struct vendor_option *o = vendor_backends[v]->options;
        for (size_t i = 0; i < count_options(vendor_backends[v]); i++)
            *XPUSH(*defs, n) = (struct option_def){.name = o[i].name,
                                                   .env = o[i].env,
                                                   .value = o[i].value,
                                                   .help = o[i].help,
                                                   .text = &f->vendor[v][i]};
    }
    return n;
}

struct option_def *host_options(struct host_flags *f, const struct option_def *own)
{
    struct option_def *defs = NULL;
    size_t n = 0;
    for (; own->name; own++) {
        if (own->text == &f->proc_root)
            n = add_vendor_options(f, &defs, n);
        *XPUSH(defs, n) = *own;
    }
    *XPUSH(defs, n) = (struct option_def){0};
    return defs;
}

/* "--nvml-library or --mxsml-library": the first option of each vendor that has any. */
static char *library_options(void)
{
    char *text = NULL;
    for (size_t i = 0; vendor_backends[i]; i++) {
        if (!vendor_backends[i]->options)
            continue;
        char *longer = xasprintf("%s%s--%s", text ? text : "", text ? " or " : "",
                                 vendor_backends[i]->options[0].name);
        free(text);
        text = longer;
    }
    return text;
}

/* --- Opening --- */

static struct vendor_host vendor_host_of(const struct host_flags *f, size_t vendor,
                                         struct gpu_watch *watch)
{
    struct vendor_host h = {.proc_root = f->proc_root, .sys_root = f->sys_root, .watch = watch};
    assert(vendor < GPU_MAX_VENDORS);
    memcpy(h.values, f->vendor[vendor], sizeof(h.values));
    return h;
}

const char *host_events_library(const struct host_flags *f)
{
    for (size_t i = 0; vendor_backends[i]; i++)
        if (vendor_backends[i]->reports_events)
            return f->vendor[i][0];
    return NULL;
}

static void free_all(struct gpu *const *gpus, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)gpu_free(gpus[i]);
}

int host_gpus(const struct host_flags *f, struct gpu_watch *watch, struct gpu **ret, struct err *e)
{
    struct gpu *gpus[GPU_MAX_VENDORS] = {0};
    size_t n = 0;
    for (; vendor_backends[n]; n++) {
        assert(n < GPU_MAX_VENDORS);
        const struct vendor_host h = vendor_host_of(f, n, watch);
        int rc = vendor_backends[n]->open(&h, &gpus[n], e);
        if (rc < 0) {
            free_all(gpus, n);
            return rc;
        }
    }
    *ret = gpu_all_new(gpus, n);
    return 0;
}

int host_open(const struct host_flags *f, struct host *ret, struct err *e)
{
    auto_host struct host h = {0};
    TRY(host_gpus(f, /* watch= */ NULL, &h.gpu, e));
    int rc = host_read(&h, e);
    if (rc == -(int)ERR_NOT_FOUND && e) {
        auto_free char *options = library_options();
        return err_set(e, ERR_NOT_FOUND, "%s; a library elsewhere is named by %s", err_msg(e),
                       options);
    }
    if (rc < 0)
        return rc;
    *ret = h;
    h = (struct host){0};
    return 0;
}

void host_done(struct host *h)
{
    drop_reading(h);
    h->gpu = gpu_free(h->gpu);
}
