/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/jobs.h"

#include <string.h>

#include "base/log.h"
#include "base/xalloc.h"

/* The worker's thread owns the job meanwhile, so what the loop needs is copied. */
struct running_job {
    const struct agent_job *job; /* its address only */
    char uuid[GPU_UUID_BYTES];   /* the card that is changed; "": none */
    struct card_offer offered;
};

void jobs_submit(struct jobs *s, const struct cards *c, struct agent_job *j)
{
    auto_err struct err e = {0};
    j->driver_view = c->driver;
    j->slots_made = cards_slots_made(c);
    if (c->kubelet)
        j->holders = holders_copy(kubelet_link_holders(c->kubelet));
    if (worker_submit(s->worker, agent_job_run, s->done, agent_job_free, j, &e) < 0) {
        log_error("Could not queue work for the hardware", kv_err(&e));
        agent_job_free(j);
        return;
    }
    struct running_job *r = XPUSH(s->running, s->n);
    r->job = j;
    memcpy(r->uuid, j->uuid, sizeof(r->uuid));
    r->offered = j->offered;
}

void jobs_end(struct jobs *s, const struct agent_job *j)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->running[i].job == j) {
            s->running[i] = s->running[--s->n];
            return;
        }
}

bool jobs_any(const struct jobs *s)
{
    return s->n;
}

bool jobs_has_card(const struct jobs *s, const char *uuid)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->running[i].uuid, uuid) == 0)
            return true;
    return false;
}

const char *jobs_card(const struct jobs *s, const struct card_offer **ret_offer)
{
    for (size_t i = 0; i < s->n; i++)
        if (*s->running[i].uuid) {
            *ret_offer = &s->running[i].offered;
            return s->running[i].uuid;
        }
    return NULL;
}

const char *jobs_stuck_call(const struct jobs *s)
{
    const char *call;
    int64_t since;
    return worker_stuck(s->worker, &call, &since) ? call : NULL;
}

bool jobs_watch(struct jobs *s, const char **ret_call)
{
    *ret_call = jobs_stuck_call(s);
    if (!*ret_call == !s->stuck)
        return false;
    s->stuck = *ret_call;
    return true;
}

void jobs_done(struct jobs *s)
{
    free(s->running);
}
