/* SPDX-License-Identifier: Apache-2.0 */
/* `show` for MetaX cards. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "sim/metax.h"
#include "sim/simctl/simctl.h"

static const char *class_text(const struct mx_card *card)
{
    static const char *const names[] = {"best-effort", "fixed-share", "burst-share"};
    return names[card->sched_class];
}

static void show_mode(const struct mx_card *card)
{
    if (card->vf_count > 0)
        (void)printf("%u virtual functions", card->vf_count);
    else if (card->toggle)
        (void)printf("sGPU, %s, %u ms", class_text(card), card->timeslice_ms);
    else
        (void)printf("native");
}

static void show_procs(const struct hw *hw, uint32_t metax)
{
    for (size_t i = 0; i < hw->proc_reach; i++) {
        const struct hw_proc *p = &hw->procs[i];
        if (p->pid == 0 || p->gpu != HW_METAX + metax)
            continue;
        (void)printf("   pid %-7u", p->pid);
        if (p->slice != HW_NONE)
            (void)printf(" slice %u", p->slice);
        if (p->vf != HW_NONE)
            (void)printf(" vf %u", p->vf);
        (void)printf("  %u MiB  %s\n", p->memory_mib, p->name);
    }
}

static void show_card(const struct hw *hw, uint32_t metax)
{
    const struct mx_card *card = &hw->mx_cards[metax];
    (void)printf("metax:%u %s  %s  ", metax, mx_model_of(card)->name, card->uuid);
    show_mode(card);
    if (card->unavailable)
        (void)printf("  NOT AVAILABLE: %s", card->reason);
    (void)printf("%s\n", card->limited ? "  limited" : "");
    for (uint32_t i = 0; i < MX_MAX_SLICES; i++) {
        const struct mx_slice *s = &card->slices[i];
        if (s->there)
            (void)printf("   slice %-2u %6u MiB %3u %%  %s  %s\n", i, s->vram_mib, s->compute_pct,
                         s->uuid, s->alias);
    }
    show_procs(hw, metax);
}

void metax_show(const struct hw *hw)
{
    for (uint32_t i = 0; i < hw->mx_count; i++)
        show_card(hw, i);
}

static json_t *slices_json(const struct mx_card *card)
{
    json_t *slices = json_array();
    for (uint32_t i = 0; i < MX_MAX_SLICES; i++) {
        const struct mx_slice *s = &card->slices[i];
        if (s->there)
            (void)json_array_append_new(slices,
                                        json_pack("{s:i, s:s, s:i, s:i, s:i, s:s, s:s, s:b}", "id",
                                                  (int)i, "uuid", s->uuid, "vramMiB",
                                                  (int)s->vram_mib, "computePct",
                                                  (int)s->compute_pct, "priority", (int)s->priority,
                                                  "alias", s->alias, "annotationsId",
                                                  s->annotations, "available", !s->unavailable));
    }
    return slices;
}

static json_t *vfs_json(const struct mx_card *card)
{
    char bdf[32];
    json_t *functions = json_array();
    for (uint32_t i = 0; i < card->vf_count; i++) {
        mx_bdf(card, i, bdf, sizeof(bdf));
        (void)json_array_append_new(functions,
                                    json_pack("{s:s, s:s}", "uuid", card->vf_uuids[i], "bdf", bdf));
    }
    return functions;
}

static json_t *procs_json(const struct hw *hw, uint32_t metax)
{
    json_t *procs = json_array();
    for (size_t i = 0; i < hw->proc_reach; i++) {
        const struct hw_proc *p = &hw->procs[i];
        if (p->pid == 0 || p->gpu != HW_METAX + metax)
            continue;
        json_t *o = json_pack("{s:i, s:s, s:i}", "pid", (int)p->pid, "name", p->name, "memoryMiB",
                              (int)p->memory_mib);
        if (p->slice != HW_NONE)
            (void)json_object_set_new(o, "slice", json_integer(p->slice));
        if (p->vf != HW_NONE)
            (void)json_object_set_new(o, "vf", json_integer(p->vf));
        (void)json_array_append_new(procs, o);
    }
    return procs;
}

static json_t *ecc_json(const struct mx_card *card)
{
    return json_pack("{s:b, s:i, s:i, s:i, s:i, s:i}", "on", (int)card->ecc_on, "sramCE",
                     (int)card->ecc.sram_ce, "sramUE", (int)card->ecc.sram_ue, "dramCE",
                     (int)card->ecc.dram_ce, "dramUE", (int)card->ecc.dram_ue, "retiredPages",
                     (int)card->ecc.retired_pages);
}

static json_t *card_json(const struct hw *hw, uint32_t metax)
{
    char bdf[32];
    const struct mx_card *card = &hw->mx_cards[metax];
    mx_bdf(card, HW_NONE, bdf, sizeof(bdf));
    json_t *o = json_pack("{s:i, s:s, s:s, s:s, s:s, s:i, s:i}", "index", (int)metax, "model",
                          card->model, "name", mx_model_of(card)->name, "uuid", card->uuid, "bdf",
                          bdf, "numa", (int)card->numa, "group", (int)card->group);
    json_t *more =
        json_pack("{s:b, s:s, s:i, s:b, s:s, s:b, s:o, s:o, s:o, s:o}", "sgpu", (int)card->toggle,
                  "schedClass", class_text(card), "timesliceMs", (int)card->timeslice_ms,
                  "available", !card->unavailable, "reason", card->reason, "limited",
                  (int)card->limited, "ecc", ecc_json(card), "virtualFunctions", vfs_json(card),
                  "slices", slices_json(card), "processes", procs_json(hw, metax));
    (void)json_object_update(o, more);
    json_decref(more);
    return o;
}

json_t *metax_json(const struct hw *hw)
{
    json_t *cards = json_array();
    for (uint32_t i = 0; i < hw->mx_count; i++)
        (void)json_array_append_new(cards, card_json(hw, i));
    return cards;
}
