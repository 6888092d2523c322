/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/kubelet/plugin_messages.h"
#include "nodeagent/kubelet/proto/deviceplugin.pb-c.h"
#include "nodeagent/offer/preferred.h"

/*
 * Input: a first byte that picks Allocate or GetPreferredAllocation, then the request's bytes. What
 * is answered is such an answer, with one part for each container of the request; a preference
 * holds as many ids as were asked for, all of them available.
 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Refuses what it does not know, as a plugin does. */
static int allocate(void *arg, const char *const *ids, size_t n, struct entry *ret, struct err *e)
{
    (void)arg;
    for (size_t i = 0; i < n; i++) {
        if (strncmp(ids[i], "GPU-", 4) != 0)
            return err_set(e, ERR_NOT_FOUND, "there is no device %.64s", ids[i]);
        entry_add_env(ret, ids[i], "1");
        entry_add_mount(ret, ids[i], "/dev/null", i % 2);
    }
    return 0;
}

static int prefer(void *arg, const struct plugin_preference *p, const char **ret_ids, struct err *e)
{
    const struct preferred_request r = {p->available,      p->n_available, p->must_include,
                                        p->n_must_include, p->size,        NULL};
    return preferred_choose(arg, &r, ret_ids, e);
}

static void check_allocate(const uint8_t *request, size_t len)
{
    struct plugin_bytes answer = {0};
    if (plugin_answer_allocate(request, len, allocate, NULL, &answer, NULL) < 0)
        return;
    V1beta1__AllocateRequest *asked = v1beta1__allocate_request__unpack(NULL, len, request);
    V1beta1__AllocateResponse *told =
        v1beta1__allocate_response__unpack(NULL, answer.len, answer.data);
    assert(asked && told && asked->n_container_requests == told->n_container_responses);
    v1beta1__allocate_request__free_unpacked(asked, NULL);
    v1beta1__allocate_response__free_unpacked(told, NULL);
    free(answer.data);
}

static void check_prefer(const uint8_t *request, size_t len)
{
    static const struct preferred_device devices[] = {{"GPU-0::0", 0, 0},
                                                      {"GPU-0::1", 0, 0},
                                                      {"GPU-1::0", 1, 1},
                                                      {"GPU-1::1", 1, 1}};
    const struct preferred_offer offer = {PREFERRED_PACKED, devices, ARRAY_LEN(devices), NULL};
    auto_preferred struct preferred *p = preferred_new(&offer);
    struct plugin_bytes answer = {0};
    if (plugin_answer_prefer(request, len, prefer, p, &answer, NULL) < 0)
        return;
    V1beta1__PreferredAllocationRequest *asked =
        v1beta1__preferred_allocation_request__unpack(NULL, len, request);
    V1beta1__PreferredAllocationResponse *told =
        v1beta1__preferred_allocation_response__unpack(NULL, answer.len, answer.data);
    assert(asked && told && asked->n_container_requests == told->n_container_responses);
    for (size_t i = 0; i < told->n_container_responses; i++)
        assert(told->container_responses[i]->n_deviceids ==
               (size_t)asked->container_requests[i]->allocation_size);
    v1beta1__preferred_allocation_request__free_unpacked(asked, NULL);
    v1beta1__preferred_allocation_response__free_unpacked(told, NULL);
    free(answer.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0)
        return 0;
    if (data[0] % 2)
        check_prefer(data + 1, len - 1);
    else
        check_allocate(data + 1, len - 1);
    return 0;
}
