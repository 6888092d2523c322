/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MetaX's library gone mad: two cards, the first cut into two slices, of which it tells one thing
 * that cannot be, as a test asks for by name. Built as a shared object for mxsml_test.
 */
#include <string.h>

#include "nodeagent/gpu/mxsml_abi.h"

static const char *madness = "";

static int is(const char *what)
{
    return strcmp(madness, what) == 0;
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

/* Static text; "" is sane. */
void mxsml_mad_about(const char *what);
mxsml_ret mxSmlInit(void);
mxsml_ret mxSmlInitWithFlags(unsigned flags);
unsigned mxSmlGetDeviceCount(void);
mxsml_ret mxSmlGetDeviceInfo(unsigned dev, struct mxsml_info *ret);
mxsml_ret mxSmlGetMemoryInfo(unsigned dev, struct mxsml_memory *ret);
mxsml_ret mxSmlGetDeviceVersion(unsigned dev, unsigned unit, char *text, unsigned *size);
mxsml_ret mxSmlGetDeviceState(unsigned dev, int *ret);
mxsml_ret mxSmlGetDeviceUnavailableReason(unsigned dev, struct mxsml_unavailable *ret);
mxsml_ret mxSmlGetSgpuToggle(unsigned dev, unsigned *ret);
unsigned mxSmlGetSgpuCount(unsigned dev);
mxsml_ret mxSmlGetSgpuInfo(unsigned dev, unsigned id, struct mxsml_slice *ret);
mxsml_ret mxSmlGetSgpuAlias(unsigned dev, unsigned id, char *text, unsigned *size);
mxsml_ret mxSmlGetSgpuAvailableQuota(unsigned dev, struct mxsml_quota *ret);
mxsml_ret mxSmlGetDeviceSchedClass(unsigned dev, unsigned *ret);
mxsml_ret mxSmlGetDeviceTimeslice(unsigned dev, unsigned *ret);
mxsml_ret mxSmlGetSingleGpuProcess_v3(unsigned dev, unsigned *n, struct mxsml_process *list);
mxsml_ret mxSmlGetDeviceTopology(unsigned a, unsigned b, unsigned *ret);

void mxsml_mad_about(const char *what)
{
    madness = what;
}

mxsml_ret mxSmlInit(void)
{
    return MXSML_SUCCESS;
}

mxsml_ret mxSmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return MXSML_SUCCESS;
}

unsigned mxSmlGetDeviceCount(void)
{
    return is("count of cards") ? 4000000000U : 2;
}

mxsml_ret mxSmlGetDeviceInfo(unsigned dev, struct mxsml_info *ret)
{
    *ret = (struct mxsml_info){.device_id = is("index of a card") ? 77 : dev};
    put(ret->uuid, "GPU-0");
    put(ret->bdf, "0000:08:00.0");
    put(ret->name, "MXC500");
    ret->uuid[4] = ret->bdf[5] = (char)('0' + (is("two cards of one name") ? 0 : dev));
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
    return MXSML_SUCCESS;
}

mxsml_ret mxSmlGetMemoryInfo(unsigned dev, struct mxsml_memory *ret)
{
    (void)dev;
    *ret = (struct mxsml_memory){.vram_total = is("negative memory") ? -1 : 65536L << 10};
    return MXSML_SUCCESS;
}

mxsml_ret mxSmlGetDeviceVersion(unsigned dev, unsigned unit, char *text, unsigned *size)
{
    (void)dev;
    (void)unit;
    fill(text, *size);
    *size = 4000000000U;
    return MXSML_SUCCESS;
}

mxsml_ret mxSmlGetDeviceState(unsigned dev, int *ret)
{
    *ret = dev == 1 || !is("reason without end");
    return MXSML_SUCCESS;
}

mxsml_ret mxSmlGetDeviceUnavailableReason(unsigned dev, struct mxsml_unavailable *ret)
{
    (void)dev;
    ret->code = -1;
    fill(ret->reason, sizeof(ret->reason));
    return MXSML_SUCCESS;
}

mxsml_ret mxSmlGetSgpuToggle(unsigned dev, unsigned *ret)
{
    *ret = dev == 1 ? 0 : is("third state of sGPU") ? 7 : 1;
    return MXSML_SUCCESS;
}

unsigned mxSmlGetSgpuCount(unsigned dev)
{
    return dev == 1 ? 0 : is("count of slices") ? 4000000000U : is("slices too few") ? 1 : 2;
}

mxsml_ret mxSmlGetSgpuInfo(unsigned dev, unsigned id, struct mxsml_slice *ret)
{
    if (dev == 1 || (id > 1 && !is("count of slices")))
        return MXSML_NOT_SUPPORTED;
    *ret = (struct mxsml_slice){.id = is("number of a slice") ? 99 : id,
                                .vram_mb = is("memory of a slice") ? 4000000000U : 1024,
                                .compute_percent = is("compute of a slice") ? 101 : 10,
                                .minor = id};
    put(ret->uuid, "GPU-0-0");
    ret->uuid[6] = (char)('0' + (is("two slices of one UUID") ? 0 : id));
    if (is("slice's UUID without end"))
        fill(ret->uuid, sizeof(ret->uuid));
    return MXSML_SUCCESS;
}

mxsml_ret mxSmlGetSgpuAlias(unsigned dev, unsigned id, char *text, unsigned *size)
{
    (void)dev;
    (void)id;
    if (is("alias without end"))
        fill(text, *size);
    else
        put(text, "cleave.same");
    *size = 4000000000U;
    return MXSML_SUCCESS;
}

mxsml_ret mxSmlGetSgpuAvailableQuota(unsigned dev, struct mxsml_quota *ret)
{
    (void)dev;
    *ret = (struct mxsml_quota){.vram_total_mb = is("memory for slices") ? 4000000000U : 65536};
    return MXSML_SUCCESS;
}

mxsml_ret mxSmlGetDeviceSchedClass(unsigned dev, unsigned *ret)
{
    (void)dev;
    *ret = is("scheduling class") ? 9 : 0;
    return is("no sharing") ? MXSML_NOT_SUPPORTED : MXSML_SUCCESS;
}

mxsml_ret mxSmlGetDeviceTimeslice(unsigned dev, unsigned *ret)
{
    (void)dev;
    *ret = is("time slice") ? 4000000000U : 10;
    return is("no sharing") ? MXSML_NOT_SUPPORTED : MXSML_SUCCESS;
}

mxsml_ret mxSmlGetSingleGpuProcess_v3(unsigned dev, unsigned *n, struct mxsml_process *list)
{
    if (is("count of processes that have no room")) {
        *n = 4000000000U;
        return MXSML_INSUFFICIENT_SIZE;
    }
    if (is("many processes")) {
        unsigned room = *n;
        *n = 300;
        for (unsigned i = 0; room >= 300 && i < 300; i++) {
            list[i] = (struct mxsml_process){.pid = i + 1, .n_gpus = 1};
            put(list[i].gpus[0].bdf, dev == 0 ? "0000:08:00.0" : "0000:18:00.0");
            list[i].gpus[0].slice_id = i == 299; /* the last is the only one in its slice */
        }
        return room < 300 ? MXSML_INSUFFICIENT_SIZE : MXSML_SUCCESS;
    }
    *n = is("count of processes") ? 4000000000U : 1;
    list[0] = (struct mxsml_process){.pid = 7, .n_gpus = 1};
    put(list[0].gpus[0].bdf, dev == 0 ? "0000:08:00.0" : "0000:18:00.0");
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
    return MXSML_SUCCESS;
}

mxsml_ret mxSmlGetDeviceTopology(unsigned a, unsigned b, unsigned *ret)
{
    (void)a;
    (void)b;
    *ret = 4000000000U;
    return MXSML_SUCCESS;
}
