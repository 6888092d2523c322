/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MetaX's library gone mad: two cards, the first cut into two slices, and for who asks for it a
 * third that has two virtual functions. A test asks by name for one thing that cannot be, a fuzzer
 * gives bytes that change any answer. Built as a shared object for mxsml_test, and into the fuzzer.
 */
#include "test/unit/mxsml_mad.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nodeagent/vendor/metax/mxsml_abi.h"
#include "test/unit/mad_bytes.h"

/* Numbers: the whole cards, then the functions, and the card that they are of. */
enum { CARDS = 2, VFS = 2, PF = MXSML_FIRST_PF };

static const char *madness = "";
static int has_functions;

static int is(const char *what)
{
    return strcmp(madness, what) == 0;
}

void mxsml_mad_about(const char *what)
{
    madness = what;
}

void mxsml_mad_feed(const uint8_t *bytes, size_t n)
{
    mad_bytes.next = bytes;
    mad_bytes.left = n;
    has_functions = (int)(mad_byte() & 1U);
}

/* What the driver says by errno counts with some of the answers. */
static mxsml_ret answer(mxsml_ret sane)
{
    static const mxsml_ret others[] = {MXSML_NO_DEVICE,
                                       MXSML_NOT_SUPPORTED,
                                       MXSML_SYSFS_ERROR,
                                       MXSML_SYSFS_WRITE_ERROR,
                                       MXSML_INVALID_DEVICE,
                                       MXSML_PERMISSION_DENIED,
                                       MXSML_INVALID_INPUT,
                                       MXSML_INSUFFICIENT_SIZE,
                                       MXSML_NO_VF,
                                       MXSML_BUSY,
                                       MXSML_NO_FUNCTION,
                                       MXSML_SUCCESS,
                                       999};
    unsigned op = mad_byte();
    if (op < 208)
        return sane;
    errno = (int)mad_byte();
    return others[op % (sizeof(others) / sizeof(others[0]))];
}

/* All of a text's room, without an end. */
static void fill(char *text, size_t size)
{
    memset(text, 'A', size);
}

static void put(char *to, const char *text)
{
    memcpy(to, text, strlen(text) + 1);
}

/* At most so many bytes of it, with an end if there is room for one; the size may be a lie after.
 */
static void tell(char *to, unsigned *size, const char *text)
{
    unsigned room = *size;
    size_t n = strlen(text) + 1;
    memcpy(to, text, n < room ? n : room);
    mad_touch(to, room);
    *size = mad_number((unsigned)n);
}

#define MAD(result, name, args)                                                                    \
    result name args;                                                                              \
    result name args

MAD(const char *, mxSmlGetErrorString, (mxsml_ret rc))
{
    static char text[64];
    if (mad_byte() >= 240)
        return NULL;
    (void)snprintf(text, sizeof(text), "error %u", rc);
    mad_touch(text, sizeof(text) - 1); /* a text that never ends is one that nobody could read */
    return text;
}

MAD(mxsml_ret, mxSmlInit, (void))
{
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlInitWithFlags, (unsigned flags))
{
    (void)flags;
    return answer(MXSML_SUCCESS);
}

/* ---- cards ---- */

static int is_function(unsigned dev)
{
    return has_functions && dev >= CARDS && dev < CARDS + VFS;
}

MAD(unsigned, mxSmlGetDeviceCount, (void))
{
    unsigned op = mad_byte();
    unsigned sane = has_functions ? CARDS + VFS : CARDS;
    if (is("count of cards"))
        return 4000000000U;
    return op < 240 ? sane : op < 250 ? op - 240 : mad_number(sane);
}

MAD(unsigned, mxSmlGetPfDeviceCount, (void))
{
    return mad_number((unsigned)has_functions);
}

MAD(mxsml_ret, mxSmlGetVirtualDevicesByPhysicalId, (unsigned dev, struct mxsml_ids *ret))
{
    (void)dev;
    *ret = (struct mxsml_ids){.n = VFS, .ids = {CARDS, CARDS + 1}};
    mad_touch(ret, 4 * sizeof(ret->n)); /* beyond, nobody looks unless n is a lie, too */
    mad_touch(ret, sizeof(*ret));
    return answer(MXSML_SUCCESS);
}

static unsigned mode_of(unsigned dev)
{
    return dev >= PF ? MXSML_MODE_PF : is_function(dev) ? MXSML_MODE_VF : MXSML_MODE_BARE;
}

static void put_address(char *to, size_t room, unsigned dev)
{
    unsigned function = is_function(dev) ? dev - CARDS + 1 : 0;
    unsigned bus = function ? PF : dev;
    (void)snprintf(to, room, "0000:%u8:00.%u", bus >= PF ? 2 : bus % 2, function);
}

MAD(mxsml_ret, mxSmlGetDeviceInfo, (unsigned dev, struct mxsml_info *ret))
{
    *ret = (struct mxsml_info){.device_id = is("index of a card") ? 77 : dev, .mode = mode_of(dev)};
    put_address(ret->bdf, sizeof(ret->bdf), is("two cards of one name") ? 0 : dev);
    put(ret->name, "MXC500");
    (void)snprintf(ret->uuid, sizeof(ret->uuid), "GPU-%u", is("two cards of one name") ? 0 : dev);
    if (is("card's UUID without end"))
        fill(ret->uuid, sizeof(ret->uuid));
    if (is("card's name without end"))
        fill(ret->name, sizeof(ret->name));
    if (is("PCI address without end"))
        fill(ret->bdf, sizeof(ret->bdf));
    if (is("card without UUID"))
        ret->uuid[0] = '\0';
    if (is("card's UUID that leads elsewhere"))
        put(ret->uuid, "../../etc");
    mad_touch(ret, sizeof(*ret));
    return answer(dev < CARDS || is_function(dev) || (has_functions && dev == PF)
                      ? MXSML_SUCCESS
                      : MXSML_INVALID_DEVICE);
}

MAD(mxsml_ret, mxSmlGetMemoryInfo, (unsigned dev, struct mxsml_memory *ret))
{
    (void)dev;
    int negative = is("negative memory") || is("memory for slices of a card without memory");
    *ret = (struct mxsml_memory){.vram_total = negative ? -1 : 65536L << 10};
    mad_touch(ret, sizeof(*ret));
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlGetDeviceVersion, (unsigned dev, unsigned unit, char *text, unsigned *size))
{
    (void)dev;
    (void)unit;
    memset(text, is("driver's version of no letters") ? '\xff' : 'A', *size);
    mad_touch(text, *size);
    *size = 4000000000U;
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlGetMacaVersion, (char *text, unsigned *size))
{
    tell(text, size, "2.32.0.5");
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlGetDeviceState, (unsigned dev, int *ret))
{
    *ret = dev != 0 || !is("reason without end");
    mad_touch(ret, sizeof(*ret));
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlGetDeviceUnavailableReason, (unsigned dev, struct mxsml_unavailable *ret))
{
    (void)dev;
    ret->code = -1;
    fill(ret->reason, sizeof(ret->reason));
    mad_touch(ret, sizeof(*ret));
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlGetTotalEccErrors, (unsigned dev, struct mxsml_ecc *ret))
{
    (void)dev;
    *ret = (struct mxsml_ecc){0};
    mad_touch(ret, sizeof(*ret));
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlReset, (unsigned dev))
{
    (void)dev;
    return answer(MXSML_SUCCESS);
}

/* ---- slices ---- */

MAD(mxsml_ret, mxSmlGetSgpuToggle, (unsigned dev, unsigned *ret))
{
    *ret = dev != 0 ? 0 : is("third state of sGPU") ? 7 : 1;
    mad_touch(ret, sizeof(*ret));
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlSetSgpuToggle, (unsigned dev, unsigned on))
{
    (void)dev;
    (void)on;
    return answer(MXSML_SUCCESS);
}

MAD(unsigned, mxSmlGetSgpuCount, (unsigned dev))
{
    unsigned sane = dev != 0                ? 0
                    : is("count of slices") ? 4000000000U
                    : is("slices too few")  ? 1
                                            : 2;
    return mad_number(sane);
}

MAD(mxsml_ret, mxSmlGetSgpuInfo, (unsigned dev, unsigned id, struct mxsml_slice *ret))
{
    if (dev != 0 || (id > 1 && !is("count of slices")))
        return answer(MXSML_NOT_SUPPORTED);
    *ret = (struct mxsml_slice){.id = is("number of a slice") ? 99 : id,
                                .vram_mb = is("memory of a slice") ? 4000000000U : 1024,
                                .compute_percent = is("compute of a slice") ? 101 : 10,
                                .minor = id};
    put(ret->uuid, "GPU-0-0");
    ret->uuid[6] = (char)('0' + (is("two slices of one UUID") ? 0 : id));
    if (is("slice's UUID without end"))
        fill(ret->uuid, sizeof(ret->uuid));
    mad_touch(ret, sizeof(*ret));
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlGetSgpuState, (unsigned dev, unsigned id, int *ret))
{
    (void)dev;
    (void)id;
    *ret = (int)mad_number(1);
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlGetSgpuAlias, (unsigned dev, unsigned id, char *text, unsigned *size))
{
    (void)dev;
    (void)id;
    if (is("alias without end"))
        fill(text, *size);
    else
        put(text, is("alias that is no text") ? "\xff\xfe\t\xc3" : "cleave.same");
    mad_touch(text, *size);
    *size = 4000000000U;
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlSetSgpuAlias, (unsigned dev, unsigned id, char *text))
{
    (void)dev;
    (void)id;
    (void)text;
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlCreateSgpu, (unsigned dev, unsigned memory, unsigned compute, unsigned *ret))
{
    (void)dev;
    (void)memory;
    (void)compute;
    *ret = mad_number(2);
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlRemoveSgpu, (unsigned dev, unsigned id))
{
    (void)dev;
    (void)id;
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlGetSgpuAvailableQuota, (unsigned dev, struct mxsml_quota *ret))
{
    (void)dev;
    int mad = is("memory for slices") || is("memory for slices of a card without memory");
    *ret = (struct mxsml_quota){.vram_total_mb = mad ? 4000000000U : 65536};
    mad_touch(ret, sizeof(*ret));
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlGetDeviceSchedClass, (unsigned dev, unsigned *ret))
{
    (void)dev;
    *ret = is("scheduling class") ? 9 : 0;
    mad_touch(ret, sizeof(*ret));
    return answer(is("no sharing") ? MXSML_NOT_SUPPORTED : MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlSetDeviceSchedClass, (unsigned dev, unsigned value))
{
    (void)dev;
    (void)value;
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlGetDeviceTimeslice, (unsigned dev, unsigned *ret))
{
    (void)dev;
    *ret = is("time slice") ? 4000000000U : 10;
    mad_touch(ret, sizeof(*ret));
    return answer(is("no sharing") ? MXSML_NOT_SUPPORTED : MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlSetDeviceTimeslice, (unsigned dev, unsigned ms))
{
    (void)dev;
    (void)ms;
    return answer(MXSML_SUCCESS);
}

/* ---- what it measures ---- */

MAD(mxsml_ret, mxSmlGetTemperatureInfo, (unsigned dev, unsigned sensor, int *ret))
{
    (void)dev;
    (void)sensor;
    *ret = is("measures") ? -4000000 : 4000;
    mad_touch(ret, sizeof(*ret));
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlGetBoardPowerInfo, (unsigned dev, unsigned *n, struct mxsml_power *ways))
{
    (void)dev;
    ways[0] = (struct mxsml_power){.mw = is("measures") ? 4000000000U : 70000};
    mad_touch(ways, sizeof(*ways));
    *n = is("ways of power") ? 4000000000U : mad_number(1);
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlGetBoardPowerLimit, (unsigned dev, unsigned *ret))
{
    (void)dev;
    *ret = is("measures") ? 4000000000U : 350000;
    mad_touch(ret, sizeof(*ret));
    return answer(MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlGetDeviceIpUsage, (unsigned dev, unsigned unit, int *ret))
{
    (void)dev;
    (void)unit;
    *ret = is("measures") ? -1 : 50;
    mad_touch(ret, sizeof(*ret));
    return answer(MXSML_SUCCESS);
}

/* ---- processes ---- */

static void put_process(struct mxsml_process *p, unsigned dev, unsigned pid)
{
    *p = (struct mxsml_process){.pid = pid, .n_gpus = 1};
    put_address(p->gpus[0].bdf, sizeof(p->gpus[0].bdf), dev);
}

/* The last of many is the only one in its slice. */
static mxsml_ret many(unsigned dev, unsigned *n, struct mxsml_process *list)
{
    unsigned room = *n;
    *n = 300;
    for (unsigned i = 0; room >= 300 && i < 300; i++) {
        put_process(&list[i], dev, i + 1);
        list[i].gpus[0].slice_id = i == 299;
    }
    return room < 300 ? MXSML_INSUFFICIENT_SIZE : MXSML_SUCCESS;
}

MAD(mxsml_ret, mxSmlGetSingleGpuProcess_v3, (unsigned dev, unsigned *n, struct mxsml_process *list))
{
    unsigned room = *n;
    if (is("count of processes that have no room")) {
        *n = 4000000000U;
        return MXSML_INSUFFICIENT_SIZE;
    }
    if (is("many processes"))
        return many(dev, n, list);
    unsigned count = mad_number(1);
    for (unsigned i = 0; i < count && i < room && i < 300; i++) {
        put_process(&list[i], dev, 7 + i);
        mad_touch(&list[i], sizeof(list[i]));
    }
    *n = is("count of processes") ? 4000000000U : count;
    if (is("process's names without end")) {
        list[0].n_gpus = 4000000000U;
        fill(list[0].name, sizeof(list[0].name));
        for (size_t i = 1; i < sizeof(list[0].gpus) / sizeof(list[0].gpus[0]); i++)
            fill(list[0].gpus[i].bdf, sizeof(list[0].gpus[i].bdf));
    }
    if (is("process on a card that is not there"))
        put(list[0].gpus[0].bdf, "08:00.0");
    if (is("process in a slice that is not there"))
        list[0].gpus[0].slice_id = 99;
    return answer(count > room ? MXSML_INSUFFICIENT_SIZE : MXSML_SUCCESS);
}

MAD(mxsml_ret, mxSmlGetDeviceTopology, (unsigned a, unsigned b, unsigned *ret))
{
    (void)a;
    (void)b;
    *ret = 4000000000U;
    mad_touch(ret, sizeof(*ret));
    return answer(MXSML_SUCCESS);
}
