/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/report/outdated_report.h"

#include <assert.h>

#include "base/sb.h"

#include "nodeagent/offer/outdated_grants.h"
#include "service/conditions.h"

enum {
    MAX_NAMED = 4,       /* more are counted */
    NAME_BYTES = 253,    /* the longest name in Kubernetes; foreign ones are cut there */
    WORDS_BYTES = 16384, /* U+FFFD takes three bytes for one */
};

static void add_name(const struct outdated_grant *g, struct sb *out)
{
    if (g->ns && g->pod) {
        sb_add_utf8(out, g->ns, NAME_BYTES);
        sb_add_char(out, '/');
        sb_add_utf8(out, g->pod, NAME_BYTES);
    } else {
        sb_add(out, "pod ");
        sb_add_utf8(out, g->uid, NAME_BYTES);
    }
    sb_add(out, " (");
    if (g->container) {
        sb_add(out, "container ");
        sb_add_utf8(out, g->container, NAME_BYTES);
        sb_add(out, ", ");
    }
    sb_addf(out, "%s)", g->id);
}

static char *words(const struct outdated_grants *all)
{
    auto_sb struct sb out = SB_INIT(WORDS_BYTES);
    sb_addf(&out,
            "%zu container%s would not have %s device after a restart, since the device's "
            "files are not those that it had when the pod came: ",
            all->n, all->n == 1 ? "" : "s", all->n == 1 ? "its" : "their");
    for (size_t i = 0; i < all->n && i < MAX_NAMED; i++) {
        sb_add(&out, i ? ", " : "");
        add_name(&all->items[i], &out);
    }
    if (all->n > MAX_NAMED)
        sb_addf(&out, ", and %zu more", all->n - MAX_NAMED);
    sb_add(&out, "; delete the pods, so that they are made anew");
    assert(!out.overflow);
    return sb_take(&out);
}

void outdated_report_build(const struct node_state *s, int64_t now_ms, struct device_status *ret)
{
    if (s->holders && !s->outdated)
        return; /* not known: as the last status has it */
    if (!s->outdated || !s->outdated->n) {
        (void)condition_remove(&ret->conditions, OUTDATED_CONDITION);
        return;
    }
    auto_free char *text = words(s->outdated);
    (void)condition_set(&ret->conditions, OUTDATED_CONDITION, CONDITION_TRUE, "DeviceFilesChanged",
                        text, s->generation, now_ms);
}
