/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/commands/telemetry.h"

#include "base/log.h"

static bool is_on(const struct run_flags *f)
{
    return f->telemetry_ms > 0 && f->metrics && *f->metrics;
}

int telemetry_load(const struct run_flags *f, struct counter_list *ret, struct err *e)
{
    if (!is_on(f))
        return 0;
    if (!f->telemetry_counters) {
        counter_list_default(ret);
        return 0;
    }
    TRY(counter_list_load(f->telemetry_counters, ret, e));
    for (size_t i = 0; i < ret->n_notices; i++)
        log_warn("Passed over a line of the file of counters", kv("file", f->telemetry_counters),
                 kv_int("line", ret->notices[i].line), kv("name", ret->notices[i].name),
                 kv("why", ret->notices[i].why));
    return 0;
}

int telemetry_open(const struct run_flags *f, struct gpu *gpu, struct telemetry *ret, struct err *e)
{
    if (!is_on(f))
        return 0;
    const struct sampler_options o = {.gpu = gpu,
                                      .clk = clock_real(),
                                      .interval_ms = f->telemetry_ms,
                                      .counters = &ret->counters,
                                      .host = f->node,
                                      .labels = f->telemetry_labels,
                                      .hami = f->hami_names,
                                      .proc_root = f->host.proc_root};
    ret->sampler = sampler_new(&o);
    return sampler_start(ret->sampler, e);
}
