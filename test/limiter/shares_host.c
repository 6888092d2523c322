/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's side of containers with shares, without the rest of the agent:
 *
 *    shares_host ROOT SHARE...      SHARE: "SLOT UUID[,UUID...] MIB PERCENT POLICY", POLICY capped, lent,
 *                                 or low
 *
 * Makes the folders below ROOT, writes "ready", and runs until it is ended; "SLOT HELD-MS" of each
 * share at its end.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"

#include "nodeagent/container/slot_pool.h"
#include "nodeagent/slots/share_folder.h"

static struct scope *scope;

static void stop(int signal)
{
    (void)signal;
    scope_cancel(scope);
}

static void pass_over(void *arg, unsigned slot, const struct ucred *from,
                      const struct share_message *m)
{
    (void)arg;
    if (getenv("SHARES_HOST_LOG"))
        (void)fprintf(stderr, "share %u process %d: %u of card %u, turn %u\n", slot, (int)from->pid,
                      m->word, m->card, m->turn);
}

static int put(struct share_folders *f, const char *text, struct err *e)
{
    struct share_limit limits[REGION_MAX_CARDS];
    struct share_limit all = {.memory_level = LEVEL_LIBRARY, .compute_level = LEVEL_LIBRARY};
    unsigned slot = 0, mib = 0, n = 0;
    char policy[16] = "", cards[REGION_MAX_CARDS * sizeof(all.card)] = "", *rest = cards;
    if (sscanf(text, "%u %1023s %u %u %15s", &slot, cards, &mib, &all.percent, policy) != 5)
        return err_set(e, ERR_INVALID, "\"%s\" is no share", text);
    all.memory_bytes = (uint64_t)mib << 20U;
    all.is_capped = strcmp(policy, "capped") == 0;
    all.is_low = strcmp(policy, "low") == 0;
    for (char *card; n < REGION_MAX_CARDS && (card = strsep(&rest, ","));) {
        limits[n] = all;
        (void)snprintf(limits[n++].card, sizeof(all.card), "%s", card);
    }
    return share_folders_put(f, slot_at(SLOT_POOL_SHARE, slot), limits, n, e);
}

static int run(int argc, char **argv, struct err *e)
{
    auto_share_folders struct share_folders *f = NULL;
    TRY(share_folders_new(argv[1], &f, e));
    for (int i = 2; i < argc; i++)
        TRY(put(f, argv[i], e));
    (void)printf("ready\n");
    (void)fflush(stdout);
    int rc = share_folders_run(f, scope, pass_over, /* arg= */ NULL, e);
    return rc == -ERR_CANCELED ? 0 : rc;
}

int main(int argc, char **argv)
{
    auto_err struct err e = {0};
    if (argc < 3)
        return 2;
    scope = scope_new(/* parent= */ NULL, /* timeout_ms= */ -1);
    (void)signal(SIGTERM, stop);
    if (run(argc, argv, &e) < 0) {
        (void)fprintf(stderr, "shares_host: %s\n", err_msg(&e));
        return 1;
    }
    return 0;
}
