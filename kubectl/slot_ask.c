/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/slot_ask.h"

#include <string.h>

#include "base/jx.h"
#include "base/quantity.h"
#include "base/sb.h"
#include "base/xalloc.h"

enum { MAX_WORDS_BYTES = 64 << 10 };

/* The slots of a container, as the agent counts them (slot_wish.c). A number that is more than a
 * node can have is one more than that. */
static size_t slots_of(const json_t *container)
{
    const json_t *limits = JX_AT(container, "resources", "limits");
    const json_t *list = limits ? limits : JX_AT(container, "resources", "requests");
    const json_t *value = json_object_get(list, SLOT_RESOURCE);
    int64_t n = json_integer_value(value);
    const char *text = json_string_value(value);
    if (text && quantity_parse(text, &n, NULL) < 0)
        return 0;
    return n <= 0 ? 0 : n <= SGPU_MAX_SLOTS ? (size_t)n : SGPU_MAX_SLOTS + 1;
}

static void add_words(const char *container, size_t n, const struct slot_wish *w, struct sb *b)
{
    sb_addf(b, "%s%s", b->len ? "; " : "", container);
    if (n > 1)
        sb_addf(b, " %zu times", n);
    if (w->memory_mib)
        sb_addf(b, " %u MiB", w->memory_mib);
    else
        sb_addf(b, " %u %% of a card's memory", w->memory_percent);
    sb_addf(b, ", %u %% of its compute", w->compute_percent);
}

static int read_container(const json_t *pod, const json_t *container, struct sb *words,
                          struct slot_ask *ret, struct err *e)
{
    const char *name = JX_STR_AT(container, "name");
    size_t n = slots_of(container);
    if (n == 0 || !name)
        return 0;
    if (ret->n + n > SGPU_MAX_SLOTS)
        return err_set(e, ERR_TOO_LARGE, "a node has at most %d %s", SGPU_MAX_SLOTS, SLOT_RESOURCE);
    for (size_t i = 0; i < n; i++)
        TRY(slot_wish_of(pod, name, (unsigned)i, XPUSH(ret->wishes, ret->n), e));
    add_words(name, n, &ret->wishes[ret->n - n], words);
    return 0;
}

void slot_ask_read(const json_t *pod, struct slot_ask *ret)
{
    size_t i;
    json_t *container;
    auto_err struct err e = {0};
    auto_sb struct sb words = SB_INIT(MAX_WORDS_BYTES);
    *ret = (struct slot_ask){0};
    json_array_foreach(JX_AT(pod, "spec", "containers"), i, container) {
        if (read_container(pod, container, &words, ret, &e) < 0) {
            ret->invalid = xstrdup(err_msg(&e));
            return;
        }
    }
    ret->words = sb_take(&words);
}

void slot_ask_done(struct slot_ask *a)
{
    free(a->wishes);
    free(a->words);
    free(a->invalid);
    *a = (struct slot_ask){0};
}
