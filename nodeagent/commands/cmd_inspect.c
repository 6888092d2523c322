/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/xalloc.h"

#include "nodeagent/commands/cmd.h"
#include "nodeagent/commands/host.h"
#include "nodeagent/commands/readiness_text.h"
#include "nodeagent/commands/topology_table.h"
#include "nodeagent/mode/card_mode.h"
#include "nodeagent/mode/memory_slices.h"
#include "nodeagent/report/node_readiness.h"
#include "nodeagent/report/node_status.h"
#include "nodeagent/slots/share_bind.h"
#include "nodeagent/slots/slot_record.h"
#include "partition/vendor.h"
#include "service/conditions.h"

/* `cleave-agent inspect`: every card as a bar of its memory slices, and what an installer asks. */

enum { BAR_COLUMNS = 72, NAME_MAX_BYTES = 80, PART_BYTES = 512 };

static const char *profile_name(const struct gpu_card *card, const struct mig_instance *inst)
{
    return inst->profile == MIG_NO_PROFILE ? "?" : card->mig.profiles[inst->profile].name;
}

static const struct mig_instance *instance_at(const struct gpu_card *card, unsigned start)
{
    for (unsigned i = 0; i < card->state.n; i++)
        if (card->state.items[i].start == start)
            return &card->state.items[i];
    return NULL;
}

/* One stretch of memory slices: "|1g.10gb====" cut, "#" in use, "." free. */
static void draw_stretch(const char *name, char fill, unsigned columns)
{
    unsigned used = 1;
    (void)putchar('|');
    for (; *name && used + 1 < columns; name++, used++)
        (void)putchar(*name);
    for (; used < columns; used++)
        (void)putchar(fill);
}

static void draw_bar(const struct gpu_card *card)
{
    assert(card->mig.memory_slices > 0);
    unsigned columns = BAR_COLUMNS / card->mig.memory_slices;
    (void)fputs("  ", stdout);
    for (unsigned at = 0; at < card->mig.memory_slices;) {
        const struct mig_instance *inst = instance_at(card, at);
        unsigned size = inst && inst->size ? inst->size : 1;
        char fill = !inst ? '.' : inst->in_use ? '#' : '=';
        draw_stretch(inst ? profile_name(card, inst) : "", fill, columns * size);
        at += size;
    }
    (void)puts("|");
}

static void print_users(const struct gpu_card *card, int part, int ci)
{
    for (unsigned i = 0; i < card->n_users; i++) {
        const struct gpu_user *p = &card->users[i];
        if (p->part == part && (ci < 0 || p->ci < 0 || p->ci == ci))
            (void)printf("      used by %s (pid %u, %llu MiB)\n", *p->name ? p->name : "a process",
                         p->pid, (unsigned long long)(p->memory_bytes >> 20));
    }
}

static void print_part(const struct gpu_card *card, unsigned i)
{
    const struct card_part part = card_part_at(card, i);
    auto_sb struct sb line = SB_INIT(PART_BYTES);
    card_mode_of(card->mode)->describe(card, &part, &line);
    (void)printf("    %s\n", sb_str(&line));
    print_users(card, part.number, part.ci);
}

static void print_instance(const struct gpu_card *card, unsigned instance)
{
    assert(instance < card->state.n);
    const struct mig_instance *inst = &card->state.items[instance];
    for (unsigned i = 0; i < card->n_partitions; i++)
        if (card->partitions[i].instance == instance)
            print_part(card, i);
    char slices[CARD_SLICES_BYTES];
    if (inst->n_cis == 0)
        (void)printf("    %-14s %-10s  gi %u       no compute instance\n", profile_name(card, inst),
                     card_memory_slices(inst, slices), inst->gi_id);
}

/* Prints them in the order of the bar. */
static void print_instances(const struct gpu_card *card)
{
    for (unsigned at = 0; at < card->mig.memory_slices; at++)
        for (unsigned i = 0; i < card->state.n; i++)
            if (card->state.items[i].start == at)
                print_instance(card, i);
}

static void print_offer(const struct gpu_card *card)
{
    (void)fputs("    offers", stdout);
    for (unsigned i = 0; i < card->mig.n_profiles; i++)
        (void)printf("%s %s x%u", i ? "," : "", card->mig.profiles[i].name,
                     card->mig.profiles[i].max_count);
    (void)putchar('\n');
}

static const char *mode_words(const struct gpu_card *card, char *buf, size_t size)
{
    const struct vendor *v = vendor_find(card->vendor);
    const struct card_mode *m;
    if (card->mode != GPU_NATIVE) {
        (void)snprintf(buf, size, "%s", card_mode_of(card->mode)->word);
        return buf;
    }
    for (unsigned i = 0; (m = card_mode_at(i)) != NULL; i++)
        if (m->is_possible && m->is_possible(card)) {
            (void)snprintf(buf, size, "%s off", m->word);
            return buf;
        }
    return v && v->part ? "no MIG" : "no sGPU";
}

/* A share is in no driver: what the agent's records say. */
static void print_shares(const struct shares *shares, const char *uuid)
{
    for (size_t i = 0; i < shares->n; i++) {
        const struct share *s = &shares->items[i];
        char name[SLOT_WORD_BYTES];
        if (strcmp(s->card, uuid) == 0)
            (void)printf("    %-14s %6u MiB  %3u %%  container %s of the pod with uid %s\n",
                         slot_name(s->slot, name), s->memory_mib, s->percent, s->container, s->uid);
    }
}

static void print_card(const struct gpu_card *card, const struct shares *shares, bool offers)
{
    char mode[64];
    (void)printf("GPU %-2u  %s  %s  %llu MiB  %s", card->index, card->model, card->pci_bus_id,
                 (unsigned long long)card->memory_mib, mode_words(card, mode, sizeof(mode)));
    if (card->mode == GPU_SGPU)
        (void)printf(" %s, %u ms", api_qos_policy_names[card->sgpu.qos], card->sgpu.timeslice_ms);
    (void)printf("\n  %s\n", card->uuid);
    if (card->pending_mode != card->mode)
        (void)printf("  MIG will be %s after a reset\n",
                     card->pending_mode == GPU_MIG ? "on" : "off");
    if (!card->healthy)
        (void)printf("  UNHEALTHY %s: %s\n", card->unhealthy_reason, card->unhealthy_message);
    if (card->mode == GPU_MIG && card->mig.memory_slices)
        draw_bar(card);
    if (card->mode == GPU_MIG)
        print_instances(card);
    for (unsigned i = 0; card->mode != GPU_MIG && i < card_parts(card); i++)
        print_part(card, i);
    print_shares(shares, card->uuid);
    print_users(card, /* part= */ -1, /* ci= */ -1);
    if (offers && card->mig.n_profiles)
        print_offer(card);
}

static void print_host(const struct host *h, const struct shares *shares, bool offers)
{
    for (size_t i = 0; i < h->inventory.n_drivers; i++) {
        const struct gpu_driver *d = &h->inventory.drivers[i];
        if (h->inventory.n_drivers > 1)
            (void)printf("%s ", d->vendor);
        (void)printf("driver %s%s%s, ", d->version, *d->cuda_version ? ", CUDA " : "",
                     d->cuda_version);
    }
    (void)printf("%zu GPU%s\n", h->inventory.n_cards, h->inventory.n_cards == 1 ? "" : "s");
    bool any_mig = false;
    for (size_t i = 0; i < h->inventory.n_cards; i++)
        any_mig = any_mig || h->inventory.cards[i].mode == GPU_MIG;
    if (any_mig)
        (void)puts("slices: . free   = cut   # in use");
    for (size_t i = 0; i < h->inventory.n_cards; i++) {
        (void)putchar('\n');
        print_card(&h->inventory.cards[i], shares, offers);
    }
}

static void print_topology(const struct host *h)
{
    auto_sb struct sb text = SB_INIT(1 << 16);
    topology_table_add(&text, &h->inventory);
    (void)fputs(sb_str(&text), stdout);
}

/* --- The host around the cards --- */

/* What was seen of this host. */
struct look {
    struct host host; /* empty unless the cards were read */
    struct err why;   /* why they were not; kind 0: they were */
    struct host_facts facts;
    struct host_setup setup;
    struct shares shares; /* as far as the records can be read */
};

static void look_done(struct look *l)
{
    shares_done(&l->shares);
    host_done(&l->host);
    err_clear(&l->why);
}
AUTO_DEFINE(look, struct look, look_done)

static void read_shares(const char *state_dir, struct shares *ret)
{
    unsigned *slots = NULL;
    size_t n = 0;
    if (slot_records_list(state_dir, &slots, &n, /* e= */ NULL) == 0)
        (void)!share_records_read(state_dir, slots, n, ret, /* e= */ NULL);
    free(slots);
}

static void look_at(const struct host_flags *f, const char *dev_root, struct look *ret)
{
    const struct host_setup_where where = {f->proc_root, f->sys_root, dev_root};
    (void)!host_open(f, &ret->host, &ret->why);
    host_facts_read(f->sys_root, &ret->facts);
    host_setup_read(&where, &ret->setup);
    read_shares(f->state_dir, &ret->shares);
}

/* As the agent would publish it by default, with no more conditions than an installer asks for:
 * nothing is wanted of these cards here. */
static void build_status(const struct look *l, struct device_status *ret)
{
    const struct gpu_inventory *inventory = &l->host.inventory;
    auto_free struct card_view *views = xcalloc(inventory->n_cards, sizeof(*views));
    for (size_t i = 0; i < inventory->n_cards; i++)
        views[i].card = inventory->cards[i];
    const struct node_state state = {
        .inventory = l->why.kind ? NULL : inventory,
        .cards = views,
        .n_cards = inventory->n_cards,
        .host = &l->facts,
        .setup = &l->setup,
        .spec_seen = true,
        .read_reason = l->why.kind ? node_readiness_read_reason(&l->why) : NULL,
        .read_error = l->why.kind ? err_msg(&l->why) : NULL,
        .agent_version = CLEAVE_VERSION,
        .means = {.publisher = API_PUBLISHER_KUBELET},
        .shares = &l->shares,
    };
    auto_node_offer struct node_offer offer;
    int64_t now_ms = clock_wall_ms(clock_real());
    node_offer_build(&state, now_ms, &offer);
    node_status_build(&state, &offer, /* prev= */ NULL, now_ms, ret);
    conditions_done(&ret->conditions);
    node_readiness_build(&state, now_ms, ret);
}

static void print_readiness(const struct device_status *status)
{
    auto_sb struct sb text = SB_INIT(1 << 16);
    readiness_text_add(&text, &status->conditions);
    if (text.len)
        (void)printf("\n%s", sb_str(&text));
}

static void print_json(const struct device_status *status)
{
    auto_json json_t *json = device_status_encode(status);
    auto_free char *text = json_dumps(json, JSON_INDENT(2));
    (void)puts(text);
}

/* --- The verb --- */

struct shows {
    bool json, offers, topology;
};

static int show(const struct look *l, const struct shows *what)
{
    auto_device_status struct device_status status = {0};
    build_status(l, &status);
    if (l->why.kind)
        (void)fprintf(stderr, "cleave-agent inspect: %s\n", err_msg(&l->why));
    else if (what->topology)
        print_topology(&l->host);
    else if (!what->json)
        print_host(&l->host, &l->shares, what->offers);
    if (what->json && !l->why.kind)
        print_json(&status);
    else if (!what->topology)
        print_readiness(&status);
    return l->why.kind ? VERB_COULD_NOT_LOOK : 0;
}

int cmd_inspect(int argc, char **argv)
{
    struct host_flags f = HOST_FLAGS_DEFAULT;
    const char *dev_root = NULL;
    struct shows what = {0};
    bool help = false;
    const struct option_def defs[] = {
        HOST_OPTIONS(f),
        {"dev-root", 0, "CLEAVE_DEV_ROOT", "PATH", "the host's /, as seen from here; absent: /",
         &dev_root, NULL},
        {"profiles", 0, NULL, NULL, "also list the profiles each card offers", NULL, &what.offers},
        {"json", 0, NULL, NULL, "print as a Device's status", NULL, &what.json},
        {"topology", 0, NULL, NULL, "print how the cards are joined instead", NULL, &what.topology},
        {"help", 'h', NULL, NULL, "show this", NULL, &help},
        {0},
    };
    auto_free struct option_def *all = host_options(&f, defs);
    auto_err struct err e = {0};
    size_t n;
    if (options_parse(all, argc, argv, NULL, 0, &n, &e) < 0) {
        (void)fprintf(stderr, "cleave-agent inspect: %s\n", err_msg(&e));
        return VERB_COULD_NOT_LOOK;
    }
    if (what.json && what.topology) {
        (void)fputs("cleave-agent inspect: --json shows no topology; leave one out\n", stderr);
        return VERB_COULD_NOT_LOOK;
    }
    if (help) {
        options_help("cleave-agent inspect [flags]",
                     "Draws every card of this host, and says what is missing on it.", all);
        return 0;
    }
    AUTO(look) struct look l = {0};
    look_at(&f, dev_root, &l);
    return show(&l, &what);
}
