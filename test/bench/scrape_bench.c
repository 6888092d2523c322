/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/num.h"
#include "base/xalloc.h"

#include "nodeagent/telemetry/sampler.h"

/*
 * What the page of telemetry costs the agent, without the time of the driver's calls: 16 cards with 7
 * GPU instances each, of which 100 have a pod.
 *
 *   scrape_bench [SCRAPES]
 *
 * Writes the size of the page; the time of a scrape, as the agent's port has it; the processor time of
 * a reading of all cards and its part of a core at 15 s; and the memory that it takes.
 */

enum { CARDS = 16, INSTANCES = 7, PODS = 100, SCRAPES = 2000, ROUNDS = 50, ROOM = 4 << 20 };

#define INTERVAL_US 15e6
#define MIB         1048576.0

static void put_values(struct telemetry_values *v, double seed)
{
    for (size_t i = 0; i < TELEMETRY_VALUES; i++)
        v->of[i] = seed / (double)(i + 3);
}

static int measure(struct gpu *g, const char *uuid, uint64_t wanted, struct telemetry_card *ret,
                   struct err *e)
{
    (void)wanted;
    static double seed;
    (void)g;
    (void)uuid;
    (void)e;
    put_values(&ret->values, ++seed);
    ret->n_parts = INSTANCES;
    for (unsigned i = 0; i < INSTANCES; i++) {
        ret->parts[i].gi_id = 7 + i;
        put_values(&ret->parts[i].values, ++seed);
    }
    ret->read_mono_ms = clock_mono_ms(clock_real());
    return 0;
}

static void add_place(struct telemetry_node_card *c, int gi_id, unsigned pod)
{
    struct telemetry_place *p = XPUSH(c->places, c->n_places);
    p->gi_id = gi_id;
    if (gi_id < 0)
        return;
    (void)snprintf(p->profile, sizeof(p->profile), "1g.10gb");
    if (pod < PODS)
        *XPUSH(p->holders, p->n_holders) =
            (struct telemetry_holder){xstrdup("machine-learning"),
                                      xasprintf("inference-7d9c5b6f4-%05u", pod), xstrdup("server"),
                                      NULL, 0};
}

static struct telemetry_node node(void)
{
    struct telemetry_node n = {0};
    for (unsigned i = 0; i < CARDS; i++) {
        struct telemetry_node_card *c = XPUSH(n.cards, n.n);
        c->vendor = "nvidia";
        c->index = c->minor = i;
        (void)snprintf(c->uuid, sizeof(c->uuid), "GPU-5f0c1e2d-3b4a-5968-7786-%012u", i);
        (void)snprintf(c->model, sizeof(c->model), "NVIDIA H100 80GB HBM3");
        (void)snprintf(c->pci_bus_id, sizeof(c->pci_bus_id), "00000000:%02X:00.0", i);
        (void)snprintf(c->driver, sizeof(c->driver), "570.86.15");
        add_place(c, -1, 0);
        for (unsigned k = 0; k < INSTANCES; k++)
            add_place(c, (int)(7 + k), i * INSTANCES + k);
    }
    return n;
}

static double now_us(clockid_t of)
{
    struct timespec t;
    (void)clock_gettime(of, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* In bytes, those of mmap included. */
static double allocated(void)
{
    struct mallinfo2 m = mallinfo2();
    return (double)m.uordblks + (double)m.hblkhd;
}

static void scrape(struct sampler *s, int64_t n)
{
    auto_free double *took = xcalloc((size_t)n, sizeof(*took));
    size_t bytes = 0;
    for (int64_t i = 0; i < n; i++) {
        auto_sb struct sb page = SB_INIT(ROOM);
        double began = now_us(CLOCK_MONOTONIC);
        (void)sampler_page(s, &page);
        took[i] = now_us(CLOCK_MONOTONIC) - began;
        bytes = page.len;
    }
    qsort(took, (size_t)n, sizeof(*took), by_value);
    printf("page      %.0f KiB\n", (double)bytes / 1024);
    printf("scrape    median %.3f ms, p99 %.3f ms (%" PRId64 " scrapes; aim: 10 ms over HTTP)\n",
           took[n / 2] / 1e3, took[n * 99 / 100] / 1e3, n);
}

static void read_cards(struct sampler *s)
{
    double began = now_us(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < ROUNDS; i++)
        sampler_round(s);
    double us = (now_us(CLOCK_PROCESS_CPUTIME_ID) - began) / ROUNDS;
    printf("reading   %.2f ms of processor time: %.4f %% of a core at 15 s (aim: 0.2 %%)\n",
           us / 1e3, us / INTERVAL_US * 100);
}

int main(int argc, char **argv)
{
    static const struct gpu_ops ops = {.measure = measure};
    static struct gpu gpu = {&ops};
    auto_counter_list struct counter_list counters = {0};
    int64_t n = SCRAPES;
    auto_err struct err e = {0};
    if (argc > 1 && num_parse(argv[1], 1, 1000000, &n, &e) < 0) {
        (void)fprintf(stderr, "scrape_bench: %s\n", err_msg(&e));
        return 2;
    }
    double before = allocated();
    counter_list_default(&counters);
    struct sampler *s = sampler_new(&(const struct sampler_options){.gpu = &gpu,
                                                                    .clk = clock_real(),
                                                                    .interval_ms = 15000,
                                                                    .counters = &counters,
                                                                    .host = "gpu-node-17"});
    struct telemetry_node shown = node();
    sampler_show(s, &shown);
    read_cards(s);
    printf("memory    %.2f MiB (aim: 2 MiB; dcgm-exporter's limit in its chart: 512 MiB)\n",
           (allocated() - before) / MIB);
    scrape(s, n);
    (void)sampler_free(s, 0, NULL);
    return 0;
}
