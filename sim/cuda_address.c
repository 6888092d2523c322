/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_address.h"

#include <stddef.h>
#include <sys/mman.h>

#define PAGE 4096U

static char *reserve(uint64_t at, uint64_t bytes, int flags)
{
    void *found = mmap((void *)(uintptr_t)at, bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, /* fd= */ -1, 0);
    return found != MAP_FAILED ? found : NULL;
}

static char *reserve_at(uint64_t hint, uint64_t bytes, uint64_t alignment)
{
    if (hint == 0 || hint % alignment != 0 || hint % PAGE != 0)
        return NULL;
    char *at = reserve(hint, bytes, MAP_FIXED_NOREPLACE);
    if (at == NULL || (uintptr_t)at == hint)
        return at;
    address_release(at, bytes); /* an old kernel's, to which that flag is none */
    return NULL;
}

/* The aligned part of a larger reservation. */
static char *reserve_more(uint64_t bytes, uint64_t alignment, int flags)
{
    char *all = bytes <= UINT64_MAX - alignment ? reserve(0, bytes + alignment, flags) : NULL;
    if (all == NULL)
        return NULL;
    uint64_t before = alignment - (uintptr_t)all % alignment;
    address_release(all, before);
    if (before < alignment)
        address_release(all + before + bytes, alignment - before);
    return all + before;
}

char *address_reserve(uint64_t bytes, uint64_t alignment, uint64_t hint, bool low)
{
    int flags = low ? MAP_32BIT : 0;
    char *at = reserve_at(hint, bytes, alignment);
    if (at != NULL)
        return at;
    return alignment <= PAGE ? reserve(0, bytes, flags) : reserve_more(bytes, alignment, flags);
}

bool address_clear(char *at, uint64_t bytes)
{
    return reserve((uintptr_t)at, bytes, MAP_FIXED) != NULL;
}

void address_release(char *at, uint64_t bytes)
{
    (void)munmap(at, bytes);
}
