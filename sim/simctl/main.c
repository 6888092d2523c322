/* SPDX-License-Identifier: Apache-2.0 */
/* cleave-simctl: shows the simulated hardware, and simulates events in its life. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/fault.h"
#include "sim/fleet.h"
#include "sim/metax.h"
#include "sim/proc_tree.h"
#include "sim/simctl/simctl.h"

static const char usage[] =
    "usage: cleave-simctl [--state FILE] COMMAND ...\n"
    "\n"
    "  init [--fleet FILE] [--force]       make the state file (default: $CLEAVE_SIM_FLEET)\n"
    "  show [--json]                       the cards, their instances and processes\n"
    "  attach --gpu I [--gi G --ci C] --pid P [--name N] [--mem MIB] [--load PERCENT]\n"
    "         [--graphics|--mps] [--pod-uid UID] [--container ID]; on a MetaX card [--slice ID | --vf V]\n"
    "  detach --pid P [--gpu I]            end a process (a proc entry goes with its last card)\n"
    "  xid --gpu I --code N [--gi G] [--ci C]\n"
    "  ecc --gpu I corrected|uncorrected|sram N, or clear;\n"
    "      of a MetaX card sram-ce|sram-ue|dram-ce|dram-ue|retired N, or clear\n"
    "  remap --gpu I [--corrected N] [--uncorrected N] [--pending 0|1] [--failed 0|1], or clear\n"
    "  nvlink --gpu I [--replays N] [--recoveries N] [--crc-flits N] [--crc-data N]: so many errors\n"
    "  temperature --gpu I CELSIUS         without work; work adds to it\n"
    "  recovery-action --gpu I none|reset|reboot|drain-p2p|drain-and-reset|imex\n"
    "  lost --gpu I set|clear              fallen off the bus\n"
    "  persistence --gpu I 0|1             the driver stays loaded while nothing uses the card\n"
    "  unavailable --gpu M CODE REASON, or clear\n"
    "  vfs --gpu M 0|1|2|4|8               virtual functions\n"
    "  event --gpu M TEXT                  an error id occurred\n"
    "  limited --gpu M set|clear           another driver has it\n"
    "  slice --gpu M --slice ID [--annotations-id TEXT] [--available 0|1]\n"
    "  fault add --call NAME|*|mutating --nth N --action A [--gpu I]; fault list; fault clear\n"
    "            A: fail:CODE, hang:SECONDS, kill, kill-after; N 0: every time; CODE as the\n"
    "            call's library names it: IN_USE; BusyDevice, SysfsWriteError:EROFS\n"
    "  fault names                         all calls and codes, by library\n"
    "  latency set NAME|* TIME, latency preset none|realistic, latency list\n"
    "  driver-lock NAME|* PERCENT          how much of a call's latency a lock covers that the\n"
    "                                      driver takes for all cards; 0 at first\n"
    "  log [--json] [--mutating] [--clear] what was called; calls [--clear]: how often\n"
    "  timeslices [--json]                 whose CUDA kernels each card ran, and when\n"
    "  reboot                              new boot: instances and processes gone\n"
    "  driver-root DIR                     write a driver's libraries, programs and firmware there\n"
    "  dev-root DIR [--plain]              write its device files to DIR/dev (plain: files that only\n"
    "                                      have the names; also where device files may not be made)\n"
    "  sys-root DIR                        write what DIR/sys shows of the cards' PCI functions\n"
    "                                      and of the driver's module\n"
    "\n"
    "--gpu takes an index (of a MetaX card metax:0), a UUID or a PCI bus id; M is a MetaX card.\n"
    "The state file is $CLEAVE_SIM_STATE.\n";

void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)fputs("cleave-simctl: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
    exit(2);
}

void check(int code, const char *what)
{
    if (code != 0)
        die("%s: %s (%s)", what, nvml_code_text(code), nvml_code_name(code));
}

static char *take_at(struct args *a, int i)
{
    char *word = a->words[i];
    a->count--;
    memmove(&a->words[i], &a->words[i + 1], (size_t)(a->count - i) * sizeof(a->words[0]));
    return word;
}

const char *take_option(struct args *a, const char *name)
{
    for (int i = 0; i < a->count; i++) {
        if (strcmp(a->words[i], name) != 0)
            continue;
        if (i + 1 == a->count)
            die("%s needs a value", name);
        (void)take_at(a, i);
        return take_at(a, i);
    }
    return NULL;
}

bool take_flag(struct args *a, const char *name)
{
    for (int i = 0; i < a->count; i++) {
        if (strcmp(a->words[i], name) != 0)
            continue;
        (void)take_at(a, i);
        return true;
    }
    return false;
}

const char *take_word(struct args *a)
{
    return a->count > 0 ? take_at(a, 0) : NULL;
}

void take_end(const struct args *a)
{
    if (a->count > 0)
        die("\"%s\" is not understood here; see --help", a->words[0]);
}

static bool parse_u32(const char *text, uint32_t *ret)
{
    char *end = NULL;
    errno = 0;
    unsigned long value = strtoul(text, &end, 0);
    if (*text == '-' || end == text || *end != '\0' || errno != 0 || value > UINT32_MAX)
        return false;
    *ret = (uint32_t)value;
    return true;
}

uint32_t take_number(struct args *a, const char *name, uint32_t otherwise)
{
    const char *text = take_option(a, name);
    uint32_t value = otherwise;
    if (text != NULL && !parse_u32(text, &value))
        die("%s takes a number, not \"%s\"", name, text);
    return value;
}

static bool is_gpu(const struct hw_gpu *g, const char *text)
{
    char bus[32];
    (void)snprintf(bus, sizeof(bus), "%08X:%02X:%02X.0", g->domain, g->bus, g->device);
    return strcmp(text, g->uuid) == 0 || strcasecmp(text, bus) == 0;
}

static bool is_metax(const struct mx_card *card, const char *text)
{
    char bdf[32];
    mx_bdf(card, HW_NONE, bdf, sizeof(bdf));
    return strcmp(text, card->uuid) == 0 || strcasecmp(text, bdf) == 0;
}

/* HW_NONE when the text is no index. */
static uint32_t by_index(const struct hw *hw, const char *text)
{
    static const char prefix[] = "metax:";
    bool metax = strncmp(text, prefix, sizeof(prefix) - 1) == 0;
    uint32_t index = 0;
    if (!parse_u32(metax ? text + sizeof(prefix) - 1 : text, &index))
        return HW_NONE;
    if (metax)
        return index < hw->mx_count ? HW_METAX + index : HW_NONE;
    return index < hw->gpu_count ? index : HW_NONE;
}

uint32_t take_card(struct args *a, const struct hw *hw)
{
    const char *text = take_option(a, "--gpu");
    if (text == NULL)
        die("--gpu is needed");
    uint32_t card = by_index(hw, text);
    for (uint32_t i = 0; card == HW_NONE && i < hw->gpu_count; i++)
        card = is_gpu(&hw->gpus[i], text) ? i : card;
    for (uint32_t i = 0; card == HW_NONE && i < hw->mx_count; i++)
        card = is_metax(&hw->mx_cards[i], text) ? HW_METAX + i : card;
    if (card == HW_NONE)
        die("no card is \"%s\"", text);
    return card;
}

uint32_t take_gpu(struct args *a, const struct hw *hw)
{
    uint32_t card = take_card(a, hw);
    if (card >= HW_METAX)
        die("this is for NVIDIA's cards");
    return card;
}

uint32_t take_metax(struct args *a, const struct hw *hw)
{
    uint32_t card = take_card(a, hw);
    if (card < HW_METAX)
        die("this is for MetaX cards: metax:0, a UUID or a bus id");
    return card - HW_METAX;
}

/* Opens the state as the library does; unlike there, a missing one is an error with a message. */
static void open_state(struct state *s, const char *path, const char *fleet)
{
    if (path == NULL || *path == '\0')
        die("no state file: set CLEAVE_SIM_STATE or give --state");
    int rc = state_open(s, path, fleet != NULL ? fleet_fill : NULL, (void *)(uintptr_t)fleet);
    check(rc, path);
}

static void boot_proc_tree(struct state *s)
{
    if (!proc_tree_boot(state_lock(s), /* is_old= */ true))
        die("CLEAVE_SIM_PROC: %s", strerror(errno));
    state_unlock(s);
}

static void init(const char *path, struct args *a)
{
    struct state s = {0};
    const char *fleet = take_option(a, "--fleet");
    bool force = take_flag(a, "--force");
    take_end(a);
    fleet = fleet != NULL ? fleet : getenv("CLEAVE_SIM_FLEET");
    if (fleet == NULL || *fleet == '\0')
        die("no fleet: set CLEAVE_SIM_FLEET or give --fleet");
    if (path != NULL && force)
        (void)unlink(path);
    else if (path != NULL && access(path, F_OK) == 0)
        die("%s exists; --force replaces it", path);
    open_state(&s, path, fleet);
    boot_proc_tree(&s);
    state_close(&s);
}

static const struct {
    const char *name;
    command_fn *run;
} commands[] = {
    {"show", show},
    {"attach", attach},
    {"detach", detach},
    {"xid", xid},
    {"ecc", ecc},
    {"remap", remap},
    {"nvlink", nvlink},
    {"temperature", temperature},
    {"lost", lost},
    {"persistence", persistence},
    {"fault", fault_command},
    {"latency", latency},
    {"driver-lock", driver_lock},
    {"log", log_command},
    {"calls", calls_command},
    {"reboot", reboot_command},
    {"recovery-action", recovery_action},
    {"driver-root", driver_root},
    {"dev-root", dev_root},
    {"sys-root", sys_root},
    {"unavailable", unavailable},
    {"vfs", vfs},
    {"event", event_command},
    {"limited", limited},
    {"slice", slice_command},
    {"timeslices", timeslices_command},
};

static void run_command(const char *path, const char *name, struct args *a)
{
    struct state s = {0};
    const char *fleet = getenv("CLEAVE_SIM_FLEET");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(commands[i].name, name) != 0)
            continue;
        open_state(&s, path, fleet != NULL && *fleet != '\0' ? fleet : NULL);
        boot_proc_tree(&s);
        commands[i].run(&s, a);
        state_close(&s);
        return;
    }
    die("no command \"%s\"; see --help", name);
}

int main(int argc, char **argv)
{
    struct args a = {.count = argc - 1, .words = argv + 1};
    if (take_flag(&a, "--help") || take_flag(&a, "-h") || a.count == 0) {
        (void)fputs(usage, stdout);
        return argc > 1 ? 0 : 2;
    }
    const char *path = take_option(&a, "--state");
    path = path != NULL ? path : getenv("CLEAVE_SIM_STATE");
    const char *name = take_word(&a);
    if (name == NULL)
        die("a command is needed; see --help");
    if (strcmp(name, "init") == 0)
        init(path, &a);
    else
        run_command(path, name, &a);
    return 0;
}
