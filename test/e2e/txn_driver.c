/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives the transaction on a vendor library, for tests that kill it: one process, one change.
 *
 *     txn_driver LIBRARY NVIDIA_SMI STATE_DIR show
 *     txn_driver LIBRARY NVIDIA_SMI STATE_DIR recover UUID
 *     txn_driver LIBRARY NVIDIA_SMI STATE_DIR apply UUID native|mig [PROFILE=COUNT]...
 *     txn_driver LIBRARY NVIDIA_SMI STATE_DIR apply UUID sgpu POLICY TIMESLICE
 * [ALIAS=MIB:PERCENT]... txn_driver LIBRARY NVIDIA_SMI STATE_DIR bind UUID POD POLICY
 * [SLOT=MIB:PERCENT]... txn_driver LIBRARY NVIDIA_SMI STATE_DIR release UUID SLOT
 *
 * A library called libmxsml… is MetaX's, any other NVIDIA's. Without slices, sgpu makes them for
 * pods. Prints one line: the outcome and its message. Exit 0 unless the outcome is Failed or the
 * call wrong.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/num.h"
#include "base/xalloc.h"

#include "nodeagent/change/transaction.h"
#include "nodeagent/gpu/gpu.h"
#include "nodeagent/slots/slot_bind.h"
#include "nodeagent/vendor/metax/mxsml_open.h"
#include "nodeagent/vendor/nvidia/nvml_open.h"

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

/* NAME=MIB:PERCENT, into the same struct that plans have for it. */
static int parse_slice(char *text, struct sgpu_want *ret, struct err *e)
{
    char *equals = strchr(text, '=');
    char *colon = equals ? strchr(equals, ':') : NULL;
    int64_t mib = 0;
    int64_t percent = 0;
    if (!colon)
        return err_set(e, ERR_INVALID, "not NAME=MIB:PERCENT: %s", text);
    *equals = *colon = '\0';
    TRY(num_parse(equals + 1, 0, UINT32_MAX, &mib, e));
    TRY(num_parse(colon + 1, 0, UINT32_MAX, &percent, e));
    (void)snprintf(ret->alias, sizeof(ret->alias), "%s", text);
    ret->quota = (struct sgpu_quota){(unsigned)mib, (unsigned)percent};
    return 0;
}

static int parse_policy(const char *text, int *ret, struct err *e)
{
    for (*ret = 0; api_qos_policy_names[*ret]; (*ret)++)
        if (strcmp(api_qos_policy_names[*ret], text) == 0)
            return 0;
    return err_set(e, ERR_INVALID, "no policy: %s", text);
}

static int parse_sgpu(char **texts, int n, struct sgpu_wants *ret, struct err *e)
{
    int64_t timeslice = 0;
    if (n < 2)
        return err_set(e, ERR_INVALID, "sgpu POLICY TIMESLICE [ALIAS=MIB:PERCENT]...");
    TRY(parse_policy(texts[0], &ret->qos, e));
    TRY(num_parse(texts[1], 0, UINT32_MAX, &timeslice, e));
    ret->timeslice_ms = (unsigned)timeslice;
    ret->dynamic = n == 2;
    for (int i = 2; i < n && ret->n < SGPU_MAX_SLICES; i++)
        TRY(parse_slice(texts[i], &ret->items[ret->n++], e));
    return 0;
}

static int parse_wish(struct gpu *g, const struct args *a, struct card_wish *ret, struct err *e)
{
    auto_gpu_card struct gpu_card card = {0};
    *ret = (struct card_wish){.mode = strcmp(a->rest[1], "mig") == 0    ? GPU_MIG
                                      : strcmp(a->rest[1], "sgpu") == 0 ? GPU_SGPU
                                                                        : GPU_NATIVE};
    if (ret->mode == GPU_NATIVE)
        return 0;
    if (ret->mode == GPU_SGPU)
        return parse_sgpu(a->rest + 2, a->n_rest - 2, &ret->sgpu, e);
    TRY(g->ops->read_card(g, a->rest[0], &card, e));
    return parse_wants(&card.mig, a->rest + 2, a->n_rest - 2, &ret->wants, e);
}

static int parse_grant(char *text, const char *card, int qos, struct bound_slot *ret, struct err *e)
{
    struct sgpu_want as;
    int64_t slot = 0;
    TRY(parse_slice(text, &as, e));
    TRY(num_parse(as.alias, 0, SGPU_MAX_SLOTS - 1, &slot, e));
    *ret = (struct bound_slot){.slot = (unsigned)slot, .quota = as.quota, .qos = qos};
    (void)snprintf(ret->card, sizeof(ret->card), "%s", card);
    return 0;
}

/* Slots of one container, by the pod's name, which is its uid too. */
static int bind_slots(const struct slot_deps *d, const struct args *a, struct err *e)
{
    int qos = 0;
    TRY(parse_policy(a->rest[2], &qos, e));
    size_t n = (size_t)a->n_rest - 3;
    auto_slot_binding struct slot_binding b = {.ns = xstrdup("default"),
                                               .pod = xstrdup(a->rest[1]),
                                               .uid = xstrdup(a->rest[1]),
                                               .container = xstrdup("main"),
                                               .bound = xcalloc(n, sizeof(*b.bound)),
                                               .n = n};
    for (size_t i = 0; i < n; i++)
        TRY(parse_grant(a->rest[3 + i], a->rest[0], qos, &b.bound[i], e));
    return slot_bind(d, &b, e);
}

static int release_slot(const struct slot_deps *d, const struct args *a, struct err *e)
{
    int64_t slot = 0;
    TRY(num_parse(a->rest[1], 0, SGPU_MAX_SLOTS - 1, &slot, e));
    return slot_release(d, (unsigned)slot, a->rest[0], e);
}

/* What fails here is an outcome, as a transaction's is. */
static int run_slots(struct gpu *g, const struct args *a, int *ret_status)
{
    const struct slot_deps d = {.gpu = g, .state_dir = a->state_dir};
    auto_err struct err why = {0};
    bool binds = strcmp(a->verb, "bind") == 0;
    int rc = binds ? bind_slots(&d, a, &why) : release_slot(&d, a, &why);
    *ret_status = rc < 0 ? 1 : 0;
    (void)printf("%s: %s\n", rc < 0 ? "Failed" : binds ? "Bound" : "Released", err_msg(&why));
    return 0;
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
    if ((strcmp(a->verb, "bind") == 0 && a->n_rest >= 4) ||
        (strcmp(a->verb, "release") == 0 && a->n_rest == 2))
        return run_slots(g, a, ret_status);
    if (strcmp(a->verb, "recover") == 0 && a->n_rest == 1) {
        txn_recover(&d, a->rest[0], &result);
    } else if (strcmp(a->verb, "apply") == 0 && a->n_rest >= 2) {
        struct card_wish wish;
        TRY(parse_wish(g, a, &wish, e));
        txn_apply(&d, a->rest[0], &wish, TXN_ROLLBACK, &result);
    } else {
        return err_set(e, ERR_INVALID, "no such verb, or not with these words: %s", a->verb);
    }
    *ret_status = tell(&result);
    return 0;
}

static int open_library(const struct args *a, struct gpu **ret, struct err *e)
{
    const struct nvml_options nvml = {.library = a->library, .nvidia_smi = a->smi};
    const struct mxsml_options mxsml = {.library = a->library};
    return strstr(a->library, "libmxsml") ? gpu_mxsml_open(&mxsml, ret, e)
                                          : gpu_nvml_open(&nvml, ret, e);
}

static int open_and_run(const struct args *a, int *ret_status, struct err *e)
{
    auto_gpu struct gpu *g = NULL;
    TRY(open_library(a, &g, e));
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
