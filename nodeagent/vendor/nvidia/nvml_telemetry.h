/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/telemetry.h"
#include "nodeagent/vendor/nvidia/nvml_session.h"

/*
 * A measure, and what is kept of a card from one measure to the next (struct nvml_measured). That
 * lasts as long as the session, and belongs to the thread that has `hold`. The thread is inside the
 * gate, and does not have the card in hand: other verbs run beside it.
 */

/* From one sample of GPM to the next. */
struct nvml_span {
    nvml_gpm_sample last; /* NULL: none */
    int64_t at_mono_ms;
};

/* A GPU instance, by the UUID of its first MIG device: another instance may get its id. */
struct nvml_measured_part {
    char uuid[NVML_UUID_BYTES]; /* "": the entry is empty */
    bool seen;                  /* by this measure */
    struct nvml_span span;
};

struct nvml_measured {
    struct lib_hold hold;       /* guarded by nvml.holds */
    char uuid[NVML_UUID_BYTES]; /* immutable */
    bool gpm_told, has_gpm;
    unsigned long long sampled_us; /* the time stamp of the last sample of a process */
    struct nvml_span whole;
    struct nvml_measured_part parts[TELEMETRY_MAX_PARTS];
};

/* A measure under way. */
struct nvml_measure {
    struct nvml *n;
    struct lib_pass pass;
    nvml_device device;
    uint64_t wanted;            /* the values that have a call of their own and are asked for */
    struct nvml_measured *kept; /* NULL: not begun */
};

/* 0 for a return code with which the measure goes on, without the value. The error of a card or a
 * session that is lost. */
int nvml_measure_check(struct nvml *n, const char *call, nvml_ret rc, struct err *e) MUST_CHECK;

/* Fills in what GPM counted since the sample before, and takes a new one. part NULL: of the whole
 * card. */
int nvml_gpm_read(struct nvml_measure *m, struct nvml_measured_part *part, unsigned gi_id,
                  struct telemetry_values *ret, struct err *e) MUST_CHECK;
/* Ends a span. Inside the gate, or alone there. */
void nvml_gpm_forget(struct nvml *n, struct nvml_span *s);

/* Fills in the card's processes. */
int nvml_measure_processes(struct nvml_measure *m, struct telemetry_card *ret,
                           struct err *e) MUST_CHECK;
