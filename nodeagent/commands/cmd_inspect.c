/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/xalloc.h"

#include "nodeagent/change/card_part.h"
#include "nodeagent/commands/cmd.h"
#include "nodeagent/commands/host.h"
#include "nodeagent/commands/topology_table.h"
#include "nodeagent/report/node_status.h"
#include "partition/vendor.h"

/* `cleave-agent inspect`: every card as a bar of its memory slices. */

enum { BAR_COLUMNS = 72, NAME_MAX_BYTES = 80 };

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

static void print_users(const struct gpu_card *card, int gi_id, int ci_id)
{
    for (unsigned i = 0; i < card->n_processes; i++) {
        const struct gpu_process *p = &card->processes[i];
        if (p->gi_id == gi_id && (ci_id < 0 || p->ci_id < 0 || p->ci_id == ci_id))
            (void)printf("      used by %s (pid %u, %llu MiB)\n", *p->name ? p->name : "a process",
                         p->pid, (unsigned long long)(p->memory_bytes >> 20));
    }
}

enum { SLICES_BYTES = 32 };

/* "slice 2" or "slices 4-7": its memory slices. Returns ret. */
static const char *slices_text(const struct mig_instance *inst, char ret[SLICES_BYTES])
{
    if (inst->size == 1)
        (void)snprintf(ret, SLICES_BYTES, "slice %u", inst->start);
    else
        (void)snprintf(ret, SLICES_BYTES, "slices %u-%u", inst->start,
                       inst->start + inst->size - 1);
    return ret;
}

static void print_partition(const struct gpu_card *card, const struct gpu_partition *p)
{
    const struct mig_instance *inst = &card->state.items[p->instance];
    char name[MIG_NAME_BYTES] = "?";
    if (inst->profile != MIG_NO_PROFILE)
        mig_partition_name(&card->mig.profiles[inst->profile], inst->cis[p->ci].slices, name);
    char slices[SLICES_BYTES];
    (void)printf("    %-14s %-10s  gi %u ci %u  %s\n", name, slices_text(inst, slices), p->gi_id,
                 p->ci_id, p->uuid);
    print_users(card, (int)p->gi_id, (int)p->ci_id);
}

/* Slices have no placement, so each gets a line. */
static void print_slices(const struct gpu_card *card)
{
    for (unsigned i = 0; card->mode == GPU_SGPU && i < card->sgpu.n; i++) {
        const struct sgpu_slice *s = &card->sgpu.items[i];
        (void)printf("    %-14s slice %-2u  %5u MiB  %3u %%  %s%s\n", *s->alias ? s->alias : "?",
                     s->id, s->quota.memory_mib, s->quota.compute_percent, card->slices[i].uuid,
                     s->foreign ? "  (not made by Cleave)" : "");
        print_users(card, (int)s->id, -1);
    }
}

static void print_vfs(const struct gpu_card *card)
{
    for (unsigned i = 0; i < card->n_vfs; i++) {
        const struct gpu_vf *vf = &card->vfs[i];
        (void)printf("    %-14s %s  %llu MiB  %s%s%s\n", CARD_PART_VF, vf->pci_bus_id,
                     (unsigned long long)vf->memory_mib, vf->uuid, vf->healthy ? "" : "  ",
                     vf->unhealthy_message);
        print_users(card, (int)vf->number, -1);
    }
}

static void print_instance(const struct gpu_card *card, unsigned instance)
{
    const struct mig_instance *inst = &card->state.items[instance];
    for (unsigned i = 0; i < card->n_partitions; i++)
        if (card->partitions[i].instance == instance)
            print_partition(card, &card->partitions[i]);
    char slices[SLICES_BYTES];
    if (inst->n_cis == 0)
        (void)printf("    %-14s %-10s  gi %u       no compute instance\n", profile_name(card, inst),
                     slices_text(inst, slices), inst->gi_id);
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

static const char *mode_words(const struct gpu_card *card)
{
    const struct vendor *v = vendor_find(card->vendor);
    if (card->mode == GPU_VGPU)
        return "virtual functions";
    if (card->sgpu_capable)
        return card->mode == GPU_SGPU ? "sGPU" : "sGPU off";
    if (card->mig_capable)
        return card->mode == GPU_MIG ? "MIG" : "MIG off";
    return v && v->part ? "no MIG" : "no sGPU";
}

static void print_card(const struct gpu_card *card, bool offers)
{
    (void)printf("GPU %-2u  %s  %s  %llu MiB  %s", card->index, card->model, card->pci_bus_id,
                 (unsigned long long)card->memory_mib, mode_words(card));
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
    print_instances(card);
    print_slices(card);
    print_vfs(card);
    print_users(card, /* gi_id= */ -1, /* ci_id= */ -1);
    if (offers && card->mig.n_profiles)
        print_offer(card);
}

static void print_host(const struct host *h, bool offers)
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
        print_card(&h->inventory.cards[i], offers);
    }
}

static void print_topology(const struct host *h)
{
    auto_sb struct sb text = SB_INIT(1 << 16);
    topology_table_add(&text, &h->inventory);
    (void)fputs(sb_str(&text), stdout);
}

/* The reading in the form of a Device's status. */
static void print_json(const struct host *h)
{
    struct card_view *views = xcalloc(h->inventory.n_cards, sizeof(*views));
    for (size_t i = 0; i < h->inventory.n_cards; i++)
        views[i].card = h->inventory.cards[i];
    const struct node_state state = {
        .inventory = &h->inventory,
        .cards = views,
        .n_cards = h->inventory.n_cards,
        .spec_seen = true,
        .agent_version = CLEAVE_VERSION,
        .publisher = API_PUBLISHER_CONTROLLER,
    };
    auto_device_status struct device_status status = {0};
    auto_node_offer struct node_offer offer;
    int64_t now_ms = clock_wall_ms(clock_real());
    node_offer_build(&state, now_ms, &offer);
    node_status_build(&state, &offer, /* prev= */ NULL, now_ms, &status);
    auto_json json_t *json = device_status_encode(&status);
    (void)json_object_del(json, "conditions");
    auto_free char *text = json_dumps(json, JSON_INDENT(2));
    (void)puts(text);
    free(views);
}

int cmd_inspect(int argc, char **argv)
{
    struct host_flags f = HOST_FLAGS_DEFAULT;
    bool json = false;
    bool offers = false;
    bool topology = false;
    bool help = false;
    const struct option_def defs[] = {
        HOST_OPTIONS(f),
        {"profiles", 0, NULL, NULL, "also list the profiles each card offers", NULL, &offers},
        {"json", 0, NULL, NULL, "print as a Device's status", NULL, &json},
        {"topology", 0, NULL, NULL, "print how the cards are joined instead", NULL, &topology},
        {"help", 0, NULL, NULL, "show this", NULL, &help},
        {0},
    };
    auto_free struct option_def *all = host_options(&f, defs);
    auto_err struct err e = {0};
    size_t n;
    if (options_parse(all, argc, argv, NULL, 0, &n, &e) < 0) {
        (void)fprintf(stderr, "cleave-agent inspect: %s\n", err_msg(&e));
        return VERB_COULD_NOT_LOOK;
    }
    if (json && topology) {
        (void)fputs("cleave-agent inspect: --json shows no topology; leave one out\n", stderr);
        return VERB_COULD_NOT_LOOK;
    }
    if (help) {
        options_help("cleave-agent inspect [flags]", "Draws every card of this host.", all);
        return 0;
    }
    auto_host struct host h = {0};
    if (host_open(&f, &h, &e) < 0) {
        (void)fprintf(stderr, "cleave-agent inspect: %s\n", err_msg(&e));
        return VERB_COULD_NOT_LOOK;
    }
    if (json)
        print_json(&h);
    else if (topology)
        print_topology(&h);
    else
        print_host(&h, offers);
    return 0;
}
