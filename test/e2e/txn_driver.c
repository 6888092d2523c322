/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives the transaction on a vendor library, for tests that kill it: one process, one change.
 *
 *     txn_driver LIBRARY NVIDIA_SMI STATE_DIR show
 *     txn_driver LIBRARY NVIDIA_SMI STATE_DIR recover UUID
 *     txn_driver LIBRARY NVIDIA_SMI STATE_DIR apply UUID native|mig [PROFILE=COUNT]...
 *
 * Prints one line: the outcome and its message. Exit 0 unless the outcome is Failed or the call
 * wrong.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/num.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/gpu.h"
#include "nodeagent/transaction.h"

struct args {
    const char *library, *smi, *state_dir, *verb;
    char **rest;
    int n_rest;
};

static int parse_wants(const struct mig_table *t, char **texts, int n, struct mig_wants *ret,
                       struct err *e)
{
    struct mig_request requests[MIG_MAX_WANTS];
    size_t count = 0;
    for (int i = 0; i < n && count < MIG_MAX_WANTS; i++) {
        char *equals = strchr(texts[i], '=');
        int64_t number = 0;
        if (!equals)
            return err_set(e, ERR_INVALID, "not PROFILE=COUNT: %s", texts[i]);
        *equals = '\0';
        TRY(num_parse(equals + 1, 0, 100, &number, e));
        requests[count++] = (struct mig_request){.profile = texts[i], .count = (unsigned)number};
    }
    return mig_resolve(t, requests, count, ret, e);
}

static int parse_wish(struct gpu *g, const struct args *a, struct card_wish *ret, struct err *e)
{
    auto_gpu_card struct gpu_card card = {0};
    *ret = (struct card_wish){.mode = strcmp(a->rest[1], "mig") == 0 ? GPU_MIG : GPU_NATIVE};
    if (ret->mode == GPU_NATIVE)
        return 0;
    TRY(g->ops->read_card(g, a->rest[0], &card, e));
    return parse_wants(&card.mig, a->rest + 2, a->n_rest - 2, &ret->wants, e);
}

static int tell(const struct txn_result *r)
{
    (void)printf("%s %s: %s\n", txn_outcome_name(r->outcome), r->reason, r->message);
    return r->outcome == TXN_FAILED ? 1 : 0;
}

static int show(struct gpu *g, struct err *e)
{
    auto_gpu_inventory struct gpu_inventory inv = {0};
    TRY(g->ops->read(g, &inv, e));
    for (size_t i = 0; i < inv.n_cards; i++) {
        const struct gpu_card *c = &inv.cards[i];
        (void)printf("%s %s %s %s", c->uuid, c->pci_bus_id, c->model,
                     c->mode == GPU_MIG ? "mig" : "native");
        for (unsigned p = 0; p < c->n_partitions; p++)
            (void)printf(" %s@%u",
                         c->mig.profiles[c->state.items[c->partitions[p].instance].profile].name,
                         c->state.items[c->partitions[p].instance].start);
        (void)printf("%s%s\n", c->healthy ? "" : " unhealthy ", c->unhealthy_message);
    }
    return 0;
}

static int run(struct gpu *g, const struct args *a, int *ret_status, struct err *e)
{
    struct txn_deps d = {.gpu = g, .state_dir = a->state_dir, .boot_id = "test"};
    struct txn_result result;
    if (strcmp(a->verb, "show") == 0)
        return show(g, e);
    if (strcmp(a->verb, "recover") == 0 && a->n_rest == 1) {
        txn_recover(&d, a->rest[0], &result);
    } else if (strcmp(a->verb, "apply") == 0 && a->n_rest >= 2) {
        struct card_wish wish;
        TRY(parse_wish(g, a, &wish, e));
        txn_apply(&d, a->rest[0], &wish, TXN_ROLLBACK, &result);
    } else {
        return err_set(e, ERR_INVALID, "show, recover UUID, or apply UUID MODE [PROFILE=COUNT]...");
    }
    *ret_status = tell(&result);
    return 0;
}

static int open_and_run(const struct args *a, int *ret_status, struct err *e)
{
    auto_gpu struct gpu *g = NULL;
    const struct nvml_options o = {.library = a->library, .nvidia_smi = a->smi};
    TRY(gpu_nvml_open(&o, &g, e));
    return run(g, a, ret_status, e);
}

int main(int argc, char **argv)
{
    auto_err struct err e = {0};
    int status = 0;
    json_set_alloc_funcs(xmalloc, free);
    if (argc < 5) {
        (void)fprintf(stderr, "usage: txn_driver LIBRARY NVIDIA_SMI STATE_DIR VERB [ARGS]\n");
        return 2;
    }
    const struct args a = {.library = argv[1],
                           .smi = argv[2],
                           .state_dir = argv[3],
                           .verb = argv[4],
                           .rest = argv + 5,
                           .n_rest = argc - 5};
    if (open_and_run(&a, &status, &e) < 0) {
        (void)fprintf(stderr, "txn_driver: %s\n", err_msg(&e));
        return 2;
    }
    return status;
}
