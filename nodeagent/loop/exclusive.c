/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/exclusive.h"

#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/xalloc.h"

static char *mark_of(const char *state_dir, const char *uuid)
{
    return xasprintf("%s/%s.exclusive", state_dir, uuid);
}

static int set(struct gpu *g, struct gpu_card *card, bool on, struct err *e)
{
    if (card->exclusive == on)
        return 0;
    TRY(g->ops->exclusive_set(g, card->uuid, on, e));
    card->exclusive = on;
    log_info("Changed the compute mode", kv("gpu", card->uuid),
             kv("mode", on ? "EXCLUSIVE_PROCESS" : "DEFAULT"));
    return 0;
}

/* The mark is written before the mode is set, so that a crash in between leaves no unmarked
 * mode. */
static int take(struct gpu *g, const char *mark, struct gpu_card *card, struct err *e)
{
    if (card->exclusive)
        return 0;
    TRY(file_write_atomic(mark, "", 0, 0600, e));
    return set(g, card, /* on= */ true, e);
}

static int give_back(struct gpu *g, const char *mark, struct gpu_card *card, struct err *e)
{
    if (access(mark, F_OK) != 0)
        return 0;
    TRY(set(g, card, /* on= */ false, e));
    (void)unlink(mark);
    return 0;
}

void exclusive_settle(struct gpu *g, const char *state_dir, struct gpu_card *card, bool wanted)
{
    auto_err struct err e = {0};
    auto_free char *mark = mark_of(state_dir, card->uuid);
    if (card->unread)
        return;
    int rc = wanted ? take(g, mark, card, &e) : give_back(g, mark, card, &e);
    if (rc < 0)
        log_warn("Could not change the compute mode", kv("gpu", card->uuid), kv_err(&e));
}
