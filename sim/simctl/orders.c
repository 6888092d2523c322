/* SPDX-License-Identifier: Apache-2.0 */
/* Commands about calls: ordered faults, latencies, the log, the counters. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/fault.h"
#include "sim/fleet.h"
#include "sim/simctl/simctl.h"

/* The vendor's prefix in the notation of --gpu. */
static const char *vendor_prefix(uint32_t card)
{
    return card >= HW_METAX ? "metax:" : "";
}

static uint32_t card_index(uint32_t card)
{
    return card >= HW_METAX ? card - HW_METAX : card;
}

/* The failure codes of a library in one line. */
static void list_codes(enum call_library library, char *ret, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; code_at(library, i) != NULL && used < size; i++)
        used += (size_t)snprintf(ret + used, size - used, "%s%s", i > 0 ? ", " : "",
                                 code_at(library, i));
}

/* The call's library determines the codes that it can fail with. */
_Noreturn static void die_of_action(const struct fault *f, const char *call, const char *action)
{
    char codes[1024];
    if (action == NULL || strncmp(action, "fail:", 5) != 0)
        die("--action takes fail:CODE, hang:SECONDS, kill or kill-after");
    if (f->library == LIBRARY_ANY)
        die("no library has a code \"%s\"; \"fault names\" lists what there is", action + 5);
    list_codes(f->library, codes, sizeof(codes));
    die("%s is of %s, which has no code \"%s\"; take a number or one of %s", call,
        library_name(f->library), action + 5, codes);
}

static void fault_add(struct state *s, struct args *a)
{
    struct fault f = {.gpu = HW_NONE};
    const char *call = take_option(a, "--call");
    const char *action = take_option(a, "--action");
    f.nth = take_number(a, "--nth", 1);
    if (a->count > 0) {
        f.gpu = take_card(a, state_lock(s));
        state_unlock(s);
    }
    take_end(a);
    if (call == NULL || !fault_parse_call(call, &f))
        die("--call takes a call's name, * or mutating");
    if (action == NULL || !fault_parse_action(action, &f))
        die_of_action(&f, call, action);
    if (!state_fault_add(s, &f))
        die("there are %d faults on order already", STATE_MAX_FAULTS);
}

static void fault_list(struct state *s)
{
    char call[64];
    char action[64];
    for (size_t i = 0; i < STATE_MAX_FAULTS; i++) {
        const struct fault *f = &s->file->faults[i];
        if (f->armed == 0)
            continue;
        fault_print(f, call, sizeof(call), action, sizeof(action));
        (void)printf("%s nth=%u %s seen=%u", call, f->nth, action, f->seen);
        if (f->gpu != HW_NONE)
            (void)printf(" gpu=%s%u", vendor_prefix(f->gpu), card_index(f->gpu));
        (void)putchar('\n');
    }
}

static void print_codes(enum call_library library)
{
    for (size_t i = 0; code_at(library, i) != NULL; i++)
        (void)printf("%s code %s\n", library_name(library), code_at(library, i));
}

/* The names that faults can be ordered with: "NVML code IN_USE", "NVML call nvmlInit_v2 life". */
static void fault_names(void)
{
    static const char *const classes[] =
        {[CALL_LIFE] = "life", [CALL_QUERY] = "query", [CALL_MUTATING] = "mutating"};
    print_codes(LIBRARY_NVML);
    print_codes(LIBRARY_CUDA);
    print_codes(LIBRARY_MXSML);
    for (unsigned int id = 0; id < CALL_COUNT; id++)
        (void)printf("%s call %s %s\n", library_name(call_library_of(id)), call_name(id),
                     classes[call_class_of(id)]);
}

void fault_command(struct state *s, struct args *a)
{
    const char *what = take_word(a);
    if (what != NULL && strcmp(what, "add") == 0) {
        fault_add(s, a);
        return;
    }
    take_end(a);
    if (what != NULL && strcmp(what, "list") == 0)
        fault_list(s);
    else if (what != NULL && strcmp(what, "clear") == 0)
        state_fault_clear(s);
    else if (what != NULL && strcmp(what, "names") == 0)
        fault_names();
    else
        die("fault takes add, list, names or clear");
}

static void latency_list(struct state *s)
{
    for (unsigned int id = 0; id < CALL_COUNT; id++) {
        uint32_t us = s->file->latency_us[id];
        uint32_t percent = s->file->driver_lock_percent[id];
        if (us == 0)
            continue;
        (void)printf("%-52s %10.3f ms", call_name(id), us / 1000.0);
        if (percent > 0)
            (void)printf(", %u %% with the driver's lock", percent);
        (void)puts("");
    }
}

void latency(struct state *s, struct args *a)
{
    uint32_t us = 0;
    const char *what = take_word(a);
    const char *name = take_word(a);
    const char *time = take_word(a);
    take_end(a);
    if (what != NULL && strcmp(what, "list") == 0 && name == NULL) {
        latency_list(s);
    } else if (what != NULL && strcmp(what, "preset") == 0 && name != NULL && time == NULL) {
        if (!latency_preset(s->file, name))
            die("latency preset is none or realistic");
    } else if (what != NULL && strcmp(what, "set") == 0 && time != NULL) {
        if (!latency_parse(time, &us))
            die("a latency looks like 150ms, 20us or 1s, not \"%s\"", time);
        if (!latency_set(s->file, name, us))
            die("no call is named \"%s\"", name);
    } else {
        die("latency takes set NAME TIME, preset NAME or list");
    }
}

void driver_lock(struct state *s, struct args *a)
{
    uint32_t percent = 0;
    const char *name = take_word(a);
    const char *share = take_word(a);
    take_end(a);
    if (share == NULL)
        die("driver-lock takes NAME PERCENT");
    if (!driver_lock_parse(share, &percent))
        die("a share is a number of percent from 0 to 100, not \"%s\"", share);
    if (!driver_lock_set(s->file, name, percent))
        die("no call is named \"%s\"", name);
}

static void print_record(const struct log_record *r)
{
    (void)printf("%14.6f %9.3f ms pid %-7u ", (double)r->start_ns / 1e9,
                 (double)(r->end_ns - r->start_ns) / 1e6, r->pid);
    if (r->gpu != HW_NONE)
        (void)printf("gpu %s%u ", vendor_prefix(r->gpu), card_index(r->gpu));
    (void)printf("%s %s -> %s\n", call_name(r->call), r->args,
                 code_name(call_library_of(r->call), r->result));
}

static void print_record_json(const struct log_record *r)
{
    json_t *o = json_pack("{s:I, s:s, s:s, s:s, s:i, s:I, s:I, s:I}", "sequence",
                          (json_int_t)r->sequence, "call", call_name(r->call), "args", r->args,
                          "resultName", code_name(call_library_of(r->call), r->result), "result",
                          r->result, "pid", (json_int_t)r->pid, "startNs", (json_int_t)r->start_ns,
                          "endNs", (json_int_t)r->end_ns);
    if (r->gpu != HW_NONE)
        (void)json_object_set_new(o, "gpu", json_integer(card_index(r->gpu)));
    if (call_library_of(r->call) == LIBRARY_MXSML)
        (void)json_object_set_new(o, "vendor", json_string("metax"));
    (void)json_object_set_new(o, "mutating", json_boolean(call_class_of(r->call) == CALL_MUTATING));
    (void)json_dumpf(o, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
    (void)putchar('\n');
    json_decref(o);
}

void log_command(struct state *s, struct args *a)
{
    struct log_record *records = NULL;
    bool json = take_flag(a, "--json");
    bool mutating = take_flag(a, "--mutating");
    bool clear = take_flag(a, "--clear");
    take_end(a);
    if (clear) {
        state_log_clear(s);
        return;
    }
    size_t n = state_log_read(s, &records);
    for (size_t i = 0; i < n; i++) {
        if (mutating && call_class_of(records[i].call) != CALL_MUTATING)
            continue;
        if (json)
            print_record_json(&records[i]);
        else
            print_record(&records[i]);
    }
    free(records);
}

void calls_command(struct state *s, struct args *a)
{
    uint64_t all = 0;
    bool clear = take_flag(a, "--clear");
    take_end(a);
    for (unsigned int id = 0; id < CALL_COUNT; id++) {
        uint64_t n = clear ? atomic_exchange(&s->file->calls[id], 0) : s->file->calls[id];
        if (n > 0 && !clear)
            (void)printf("%10llu %s\n", (unsigned long long)n, call_name(id));
        all += call_class_of(id) != CALL_LIFE ? n : 0;
    }
    if (!clear)
        (void)printf("%10llu total\n", (unsigned long long)all);
}
