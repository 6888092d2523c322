/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_multicast.h"

#include <pthread.h>
#include <stdlib.h>

#include "sim/cuda_context.h"

/* Memory of one device that is bound. */
struct binding {
    struct binding *next;
    CUdevice device;
    uint64_t offset, bytes;
    struct chunk *chunk;
};

struct multicast {
    unsigned int wanted, count; /* devices */
    bool has[HW_MAX_GPUS];
    struct binding *bindings;
    unsigned int waiters;
    bool ended;
    pthread_cond_t complete;
};

bool multicast_is_supported(const struct cuda_device *d)
{
    return d->model->nvswitch && d->model->cc_major >= 9;
}

struct multicast *multicast_new(unsigned int devices)
{
    struct multicast *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return NULL;
    m->wanted = devices;
    (void)pthread_cond_init(&m->complete, NULL);
    return m;
}

static void free_if_over(struct multicast *m)
{
    if (!m->ended || m->waiters > 0)
        return;
    (void)pthread_cond_destroy(&m->complete);
    free(m);
}

static void end_binding(struct binding **at)
{
    struct binding *b = *at;
    *at = b->next;
    chunk_let_go(b->chunk);
    free(b);
}

void multicast_end(struct multicast *m)
{
    if (m == NULL)
        return;
    while (m->bindings != NULL)
        end_binding(&m->bindings);
    m->ended = true;
    (void)pthread_cond_broadcast(&m->complete);
    free_if_over(m);
}

CUresult multicast_add_device(struct multicast *m, CUdevice device)
{
    if (m->has[device] || m->count == m->wanted)
        return CUDA_ERROR_INVALID_VALUE;
    if (!multicast_is_supported(cuda_device_at(device)))
        return CUDA_ERROR_NOT_SUPPORTED;
    m->has[device] = true;
    if (++m->count == m->wanted)
        (void)pthread_cond_broadcast(&m->complete);
    return CUDA_SUCCESS;
}

CUresult multicast_wait(struct multicast *m)
{
    m->waiters++;
    while (!m->ended && m->count < m->wanted)
        context_wait(&m->complete);
    m->waiters--;
    bool ended = m->ended;
    free_if_over(m);
    return ended ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* --- Binding --- */

static bool is_bound(const struct multicast *m, CUdevice device, uint64_t offset, uint64_t bytes)
{
    for (const struct binding *b = m->bindings; b != NULL; b = b->next) {
        if (b->device == device && offset < b->offset + b->bytes && b->offset < offset + bytes)
            return true;
    }
    return false;
}

CUresult multicast_bind(struct multicast *m, CUdevice device, uint64_t offset, uint64_t bytes,
                        struct chunk *chunk)
{
    if (!m->has[device] || is_bound(m, device, offset, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    struct binding *b = malloc(sizeof(*b));
    if (b == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *b = (struct binding){.next = m->bindings,
                          .device = device,
                          .offset = offset,
                          .bytes = bytes,
                          .chunk = chunk};
    m->bindings = b;
    chunk_hold(chunk);
    return CUDA_SUCCESS;
}

CUresult multicast_unbind(struct multicast *m, CUdevice device, uint64_t offset, uint64_t bytes)
{
    struct binding **at = &m->bindings;
    while (*at != NULL &&
           ((*at)->device != device || (*at)->offset != offset || (*at)->bytes != bytes))
        at = &(*at)->next;
    if (*at == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    end_binding(at);
    return CUDA_SUCCESS;
}
