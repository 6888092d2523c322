/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "kubectl/card_parts_plan.h"
#include "kubectl/cards_text.h"
#include "kubectl/layout_fix.h"
#include "kubectl/node_plan.h"
#include "kubectl/slice_fix.h"
#include "kubectl/slot_ask.h"
#include "kubectl/status_card.h"
#include "nodeagent/change/card_plan.h"
#include "nodeagent/change/card_view.h"
#include "partition/model.h"
#include "test/fuzz/bytes.h"

/*
 * Input: a card of a Device as whoever has the token of an agent may write it, within the bounds of
 * the schema, and what is wanted of it. kubectl cleave shows any such card, plans a change of it, and
 * looks for the smallest one, with the agent's own planner, which otherwise has cards that a driver
 * showed.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { MAX_PARTS = 40, MAX_USERS = 3, MAX_WANTS = 4, TEXT_BYTES = 1 << 20 };

/* A number of the schema's, mostly a small one. */
static int64_t take_number(struct bytes *b, int64_t most)
{
    static const int64_t large[] = {INT32_MAX, INT32_MAX - 1, 1 << 24, 1 << 16, 32, 33};
    unsigned n = take(b);
    int64_t value = n < 250 ? n % 24 : large[n - 250];
    return value < most ? value : most;
}

/* --- The card --- */

/* Texts of one card. */
struct texts {
    char name[MAX_PARTS][64], place[MAX_PARTS][16];
};

static char uuid[] = "GPU-1", vendor[] = "nvidia", ns[] = "ml", pod[] = "a";
static char small[] = "small-0", nothing[] = "", odd[] = "\x1b[2J\xE2\x80\xAE";

static void take_profile(struct bytes *b, unsigned number, struct mig_profile *p)
{
    *p = (struct mig_profile){.id = number, .memory_mib = (number + 1) * 1024};
    p->slices = take(b) % (MIG_MAX_SLICES + 1);
    p->size = take(b) % 10;
    p->max_count = take(b) % 9;
    (void)snprintf(p->name, sizeof(p->name), "%ug.%ugb", p->slices, number + 1);
    p->n_starts = take(b) % (MIG_MAX_PLACEMENTS + 1);
    unsigned at = take(b) % 3;
    for (unsigned i = 0; i < p->n_starts; i++) {
        p->starts[i] = (uint8_t)at;
        at += 1 + take(b) % 4;
    }
}

/* False: one that is refused where it is read. */
static bool take_table(struct bytes *b, struct mig_table *t)
{
    *t = (struct mig_table){.memory_slices = take(b) % 33, .n_profiles = take(b) % 6};
    for (unsigned i = 0; i < t->n_profiles; i++) {
        take_profile(b, i, &t->profiles[i]);
        if (t->profiles[i].slices > t->slices)
            t->slices = t->profiles[i].slices;
    }
    return mig_table_check(t, NULL) == 0;
}

/* Of the table, cut into compute instances, or one that it does not have. */
static char *take_name(struct bytes *b, const struct mig_table *t, char *room)
{
    unsigned how = take(b);
    const char *name = t->n_profiles ? t->profiles[how % t->n_profiles].name : "3g.40gb";
    if (how >= 250)
        return how == 250 ? NULL : odd;
    if (how >= 160)
        (void)snprintf(room, 64, "%uc.%s", how >= 240 ? 9999 : how % 9, name);
    else
        (void)snprintf(room, 64, "%s", name);
    return room;
}

static struct device_consumer users[] = {{.pid = 7, .namespace = ns, .name = pod},
                                         {.pid = 8, .process = odd},
                                         {.pid = INT64_MAX, .name = pod, .uid = uuid}};

static void take_part(struct bytes *b, const struct mig_table *t, unsigned i, struct texts *texts,
                      struct device_partition *p)
{
    unsigned how = take(b);
    unsigned start = take(b) % 34;
    *p = (struct device_partition){.uuid = uuid, .profile = take_name(b, t, texts->name[i])};
    (void)snprintf(texts->place[i], sizeof(texts->place[i]), "%u:%u", start, take(b) % 34);
    p->placement = how % 16 ? texts->place[i] : nothing;
    p->has_gi_id = how & 1;
    p->gi_id = take_number(b, INT32_MAX);
    p->has_ci_id = how & 2;
    p->ci_id = take_number(b, INT32_MAX);
    p->has_slice = how & 4;
    p->slice = (struct device_slice){.id = take_number(b, INT32_MAX),
                                     .alias = how & 32   ? small
                                              : how & 64 ? NULL
                                                         : odd,
                                     .memory_mib = take_number(b, MIG_MAX_MEMORY_MIB),
                                     .compute_percent = take_number(b, 100),
                                     .foreign = how & 128};
    p->has_vf = !p->has_slice;
    p->vf.memory_mib = p->slice.memory_mib;
    p->in_use = how & 8;
    p->has_unhealthy = how & 16;
    p->in_use_by = users;
    p->n_in_use_by = take(b) % (MAX_USERS + 1);
}

static void take_card(struct bytes *b, const struct mig_table *t, struct texts *texts,
                      struct device_partition *parts, struct device_card *ret)
{
    unsigned how = take(b);
    *ret = (struct device_card){.uuid = uuid, .vendor = take(b) % 4 ? vendor : odd, .model = odd};
    ret->mode = (int)(take(b) % 4);
    ret->has_pending_mode = how & 1;
    ret->pending_mode = (int)(take(b) % 4);
    ret->healthy = how & 14;
    ret->mig_capable = how & 16;
    ret->in_use = how & 32;
    ret->has_sgpu = how & 64;
    ret->sgpu = (struct device_sgpu_state){.memory_mib = take_number(b, MIG_MAX_MEMORY_MIB)};
    ret->has_fractional = how & 128;
    ret->fractional = (struct device_fractional_state){.memory_mib = take_number(b, 1 << 24),
                                                       .compute_percent = 100,
                                                       .max_shares = 4};
    ret->memory_mib = take_number(b, MIG_MAX_MEMORY_MIB);
    ret->in_use_by = users;
    ret->n_in_use_by = take(b) % (MAX_USERS + 1);
    ret->partitions = parts;
    ret->n_partitions = take(b) % (MAX_PARTS + 1);
    for (unsigned i = 0; i < ret->n_partitions; i++)
        take_part(b, t, i, texts, &parts[i]);
}

/* --- What is wanted of it --- */

struct wants {
    char names[MAX_WANTS][64];
    struct profile_count profiles[MAX_WANTS];
    struct device_slice_want slices[MAX_WANTS];
};

static void take_want(struct bytes *b, const struct mig_table *t, struct wants *w,
                      struct device_want *ret)
{
    *ret = (struct device_want){.uuid = uuid, .mode = (int)(take(b) % 4)};
    ret->has_mig = ret->mode == API_MODE_MIG;
    ret->mig.profiles = w->profiles;
    ret->mig.n_profiles = take(b) % (MAX_WANTS + 1);
    ret->has_sgpu = ret->mode == API_MODE_SGPU;
    ret->sgpu = (struct device_sgpu){.slices = w->slices, .n_slices = take(b) % (MAX_WANTS + 1)};
    for (unsigned i = 0; i < MAX_WANTS; i++) {
        char *name = take_name(b, t, w->names[i]);
        w->profiles[i] = (struct profile_count){name ? name : nothing, 1 + take(b) % 8};
        w->slices[i] = (struct device_slice_want){.alias = i ? pod : small,
                                                  .memory_mib = 128 + take_number(b, 1 << 24),
                                                  .compute_percent = take_number(b, 100),
                                                  .count = 1 + take(b) % 4};
    }
}

/* --- What kubectl cleave does with it --- */

static void plan(const struct device_card *from, const struct mig_table *t,
                 const struct device_want *want)
{
    struct card_wish wish;
    struct node_plan node = {.cards = xmalloc(sizeof(*node.cards)), .n_cards = 1};
    auto_free struct gpu_card *card = xmalloc(sizeof(*card));
    auto_free struct card_plan *p = xmalloc(sizeof(*p));
    status_card_read(from, t, card);
    if (card_wish_of(card, want, &wish, NULL) == 0) {
        card_plan(card, &wish, p);
        if (p->verdict != CARD_INFEASIBLE)
            card_parts_compare(card, p, node.cards);
        if (p->verdict == CARD_DRAIN)
            card_parts_users(card, from, p, node.cards);
    }
    gpu_card_done(card);
    node_plan_done(&node);
}

static void show(struct device_card *card, const struct mig_table *t)
{
    auto_device_status struct device_status st = {0};
    auto_sb struct sb text = SB_INIT(TEXT_BYTES);
    const struct node_cards_view v = {.name = "n1", .status = &st};
    if (t)
        model_from_table(odd, t, XPUSH(st.models, st.n_models));
    st.devices = card;
    st.n_devices = 1;
    cards_text(&v, &(struct screen){.columns = 80}, &text);
    auto_json json_t *doc = cards_json(&v);
    assert(doc && !strchr(sb_str(&text), '\x1b'));
    st.devices = NULL; /* the caller's */
    st.n_devices = 0;
}

/* Questions to the planner for one input. */
enum { PLANS = 1000, SLOTS = 3 };

static void find_partitions(struct bytes *b, const struct device_card *card,
                            const struct mig_table *t, const struct device_want *want)
{
    struct layout_fix fix;
    struct fix_effort effort = FIX_EFFORT(PLANS);
    bool wants_parts = take(b) % 3 && t && want->mig.profiles[0].profile;
    unsigned more = 1 + take(b) % 3;
    if (wants_parts
            ? layout_fix_partitions(card, t, want->mig.profiles[0].profile, more, &effort, &fix)
            : layout_fix_want(card, t, want, "native", &fix))
        layout_fix_done(&fix);
}

/* Slices of a layout, and slices made for pods. */
static void find_slices(struct bytes *b, struct device_card *card, struct device_want *want)
{
    struct layout_fix fix;
    struct node_fix node;
    struct slot_wish wishes[SLOTS];
    struct fix_effort effort = FIX_EFFORT(PLANS);
    const struct device_status st = {.devices = card, .n_devices = 1};
    const struct device_spec spec = {.devices = want, .n_devices = 1};
    const struct slot_ask ask = {.wishes = wishes, .n = 1 + take(b) % SLOTS};
    for (unsigned i = 0; i < SLOTS; i++)
        wishes[i] = (struct slot_wish){.memory_mib = SGPU_STEP_MIB * (take(b) % 8),
                                       .memory_percent = 1 + take(b) % 100,
                                       .compute_percent = take(b) % 101,
                                       .qos = -1};
    if (slice_fix_find(card, &spec, small, 1 + take(b) % 3, &effort, &fix))
        layout_fix_done(&fix);
    free(slot_ask_misfit(&ask, &st, &spec));
    if (slot_ask_fix(&ask, &st, &spec, take_number(b, INT64_MAX), &effort, &node))
        node_fix_done(&node);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes b = {data, len};
    struct mig_table t;
    struct device_card card;
    struct device_want want;
    static struct texts texts;
    static struct device_partition parts[MAX_PARTS];
    static struct wants wants;
    bool cuts = take_table(&b, &t);
    if (!cuts)
        t.n_profiles = 0;
    take_card(&b, &t, &texts, parts, &card);
    take_want(&b, &t, &wants, &want);
    show(&card, cuts ? &t : NULL);
    plan(&card, cuts ? &t : NULL, &want);
    find_partitions(&b, &card, cuts ? &t : NULL, &want);
    find_slices(&b, &card, &want);
    return 0;
}
