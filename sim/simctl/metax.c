/* SPDX-License-Identifier: Apache-2.0 */
/* Commands for events in the life of MetaX cards. */
#include "sim/metax.h"

#include <stdio.h>
#include <string.h>

#include "sim/mxsml.h"
#include "sim/mxsml_code.h"
#include "sim/simctl/simctl.h"

static void check_metax(int code, const char *what)
{
    if (code != MXSML_SUCCESS)
        die("%s: %s (%s)", what, mxsml_code_text(code), mxsml_code_name(code));
}

/* Takes the word "set" or "clear"; true for "set". */
static bool take_set(struct args *a, const char *command)
{
    const char *what = take_word(a);
    bool set = what != NULL && strcmp(what, "set") == 0;
    if (!set && (what == NULL || strcmp(what, "clear") != 0))
        die("%s takes set or clear", command);
    return set;
}

/* Only uncorrectable errors make a card report an event by itself. */
static void count_errors(struct hw *hw, uint32_t metax, const char *what, uint32_t n)
{
    struct mx_ecc *e = &hw->mx_cards[metax].ecc;
    const struct {
        const char *name;
        uint32_t *count;
        const char *event;
    } kinds[] = {
        {"sram-ce", &e->sram_ce, NULL},
        {"sram-ue", &e->sram_ue, "SRAM uncorrectable ECC error"},
        {"dram-ce", &e->dram_ce, NULL},
        {"dram-ue", &e->dram_ue, "DRAM uncorrectable ECC error"},
        {"retired", &e->retired_pages, NULL},
    };
    size_t i = 0;
    while (i < sizeof(kinds) / sizeof(kinds[0]) && strcmp(kinds[i].name, what) != 0)
        i++;
    if (i == sizeof(kinds) / sizeof(kinds[0]))
        die("ecc takes sram-ce, sram-ue, dram-ce, dram-ue, retired or clear");
    *kinds[i].count += n;
    if (kinds[i].event != NULL)
        hw_emit_text(hw, MXSML_EVENT_ERROR_ID, kinds[i].event, metax);
}

void metax_ecc(struct hw *hw, uint32_t metax, struct args *a)
{
    const char *what = take_word(a);
    if (what == NULL)
        die("ecc takes sram-ce, sram-ue, dram-ce, dram-ue, retired or clear");
    if (strcmp(what, "clear") == 0)
        hw->mx_cards[metax].ecc = (struct mx_ecc){0};
    else
        count_errors(hw, metax, what, word_number(a));
}

static void make_unavailable(struct hw *hw, uint32_t metax, struct args *a)
{
    struct mx_card *card = &hw->mx_cards[metax];
    uint32_t code = word_number(a);
    const char *reason = take_word(a);
    if (reason == NULL || strlen(reason) >= sizeof(card->reason))
        die("unavailable takes a code and a reason of less than %zu characters",
            sizeof(card->reason));
    card->unavailable = 1;
    card->reason_code = (int32_t)code;
    (void)snprintf(card->reason, sizeof(card->reason), "%s", reason);
    hw_emit_text(hw, MXSML_EVENT_ERROR_ID, reason, metax);
}

void unavailable(struct state *s, struct args *a)
{
    (void)state_lock(s);
    struct hw *hw = state_begin(s);
    uint32_t metax = take_metax(a, hw);
    struct mx_card *card = &hw->mx_cards[metax];
    if (a->count > 0 && strcmp(a->words[0], "clear") == 0) {
        (void)take_word(a);
        card->unavailable = 0;
        card->reason_code = 0;
        memset(card->reason, 0, sizeof(card->reason));
    } else {
        make_unavailable(hw, metax, a);
    }
    take_end(a);
    state_commit(s);
    state_unlock(s);
}

void vfs(struct state *s, struct args *a)
{
    (void)state_lock(s);
    struct hw *hw = state_begin(s);
    uint32_t metax = take_metax(a, hw);
    uint32_t count = word_number(a);
    take_end(a);
    check_metax(mx_set_vfs(hw, metax, count), "vfs");
    state_commit(s);
    state_unlock(s);
}

void event_command(struct state *s, struct args *a)
{
    (void)state_lock(s);
    struct hw *hw = state_begin(s);
    uint32_t metax = take_metax(a, hw);
    const char *text = take_word(a);
    if (text == NULL)
        die("event takes a text");
    take_end(a);
    hw_emit_text(hw, MXSML_EVENT_ERROR_ID, text, metax);
    state_commit(s);
    state_unlock(s);
}

void limited(struct state *s, struct args *a)
{
    (void)state_lock(s);
    struct hw *hw = state_begin(s);
    uint32_t metax = take_metax(a, hw);
    hw->mx_cards[metax].limited = take_set(a, "limited");
    take_end(a);
    state_commit(s);
    state_unlock(s);
}

void slice_command(struct state *s, struct args *a)
{
    (void)state_lock(s);
    struct hw *hw = state_begin(s);
    struct mx_card *card = &hw->mx_cards[take_metax(a, hw)];
    struct mx_slice *slice = mx_slice_of(card, take_number(a, "--slice", HW_NONE));
    const char *text = take_option(a, "--annotations-id");
    if (slice == NULL)
        die("--slice is needed, and must be there");
    if (text != NULL && strlen(text) >= sizeof(slice->annotations))
        die("--annotations-id is longer than %zu characters", sizeof(slice->annotations) - 1);
    if (text != NULL)
        (void)snprintf(slice->annotations, sizeof(slice->annotations), "%s", text);
    slice->unavailable = take_number(a, "--available", !slice->unavailable) == 0;
    take_end(a);
    state_commit(s);
    state_unlock(s);
}
