/* SPDX-License-Identifier: Apache-2.0 */
/* Multicast objects: the devices that take part, and their memory that is bound. Guarded by the
 * contexts' lock. */
#pragma once

#include <stdbool.h>

#include "sim/cuda_chunk.h"

struct multicast;

/* Does a device have them? The switches do from Hopper on. */
bool multicast_is_supported(const struct cuda_device *d);

/* An object for so many devices; NULL: there is no memory. */
struct multicast *multicast_new(unsigned int devices);

/* Ends it; who waits is told. NULL is none. */
void multicast_end(struct multicast *m);

/* Adds a device: INVALID_VALUE if it was added, or there are as many as wanted; NOT_SUPPORTED. */
CUresult multicast_add_device(struct multicast *m, CUdevice device);

/* Waits until all devices were added, with the contexts unlocked meanwhile: INVALID_VALUE when the
 * object ended before. */
CUresult multicast_wait(struct multicast *m);

/* Keeps memory of a device until it is unbound, by the same numbers: INVALID_VALUE for a device that was
 * not added, and where something of it is bound. */
CUresult multicast_bind(struct multicast *m, CUdevice device, uint64_t offset, uint64_t bytes,
                        struct chunk *chunk);
CUresult multicast_unbind(struct multicast *m, CUdevice device, uint64_t offset, uint64_t bytes);
