/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop shows the node's cards as they come and go, two ports scrape, and the sampler's thread
 * reads as fast as it can: each page is whole, and nothing is touched by two threads at a time.
 */
#include "nodeagent/telemetry/sampler.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

enum { SCRAPERS = 2, SCRAPES = 400, ROOM = 4 << 20, GRACE_MS = 60000, READINGS = 50 };

static sem_t was_read;

static int measure(struct gpu *g, const char *uuid, uint64_t wanted, struct telemetry_card *ret,
                   struct err *e)
{
    (void)wanted;
    static atomic_uint calls;
    (void)g;
    unsigned n = atomic_fetch_add(&calls, 1);
    (void)sem_post(&was_read);
    if (n % 7 == 0)
        return err_set(e, ERR_UNAVAILABLE, "%s is busy", uuid);
    for (size_t i = 0; i < TELEMETRY_VALUES; i++)
        ret->values.of[i] = n;
    ret->read_mono_ms = clock_mono_ms(clock_real());
    return 0;
}

static struct telemetry_node node_of(unsigned n_cards)
{
    struct telemetry_node n = {0};
    for (unsigned i = 0; i < n_cards; i++) {
        struct telemetry_node_card *c = XPUSH(n.cards, n.n);
        c->vendor = "nvidia";
        (void)snprintf(c->uuid, sizeof(c->uuid), "GPU-%u", i);
        struct telemetry_place *p = XPUSH(c->places, c->n_places);
        p->gi_id = -1;
        *XPUSH(p->holders, p->n_holders) =
            (struct telemetry_holder){xstrdup("team"), xasprintf("p%u", n_cards), xstrdup("main"),
                                      NULL, 0};
    }
    return n;
}

static void *scrape(void *arg)
{
    struct sb page = SB_INIT(ROOM);
    for (int i = 0; i < SCRAPES; i++) {
        sb_reset(&page);
        int status = sampler_page(arg, &page);
        assert(status == 200 && page.len > 0 && page.data[page.len - 1] == '\n');
        (void)status;
    }
    sb_done(&page);
    return NULL;
}

int main(void)
{
    static const struct gpu_ops ops = {.measure = measure};
    static struct gpu gpu = {&ops};
    auto_counter_list struct counter_list counters = {0};
    pthread_t threads[SCRAPERS];
    bool abandoned = false;
    counter_list_default(&counters);
    (void)sem_init(&was_read, 0, 0);
    struct sampler *s = sampler_new(&(const struct sampler_options){.gpu = &gpu,
                                                                    .clk = clock_real(),
                                                                    .interval_ms = 1,
                                                                    .counters = &counters,
                                                                    .host = "n1"});
    int rc = sampler_start(s, NULL);
    for (size_t i = 0; i < SCRAPERS; i++)
        rc |= pthread_create(&threads[i], NULL, scrape, s);
    assert(rc == 0);
    for (unsigned i = 0; i < READINGS; i++) {
        struct telemetry_node n = node_of(1 + i % 4);
        sampler_show(s, &n);
        while (sem_wait(&was_read) < 0)
            continue;
    }
    for (size_t i = 0; i < SCRAPERS; i++)
        (void)pthread_join(threads[i], NULL);
    s = sampler_free(s, GRACE_MS, &abandoned);
    assert(!s && !abandoned);
    return rc;
}
