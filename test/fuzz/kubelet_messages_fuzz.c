/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "nodeagent/kubelet/proto/deviceplugin.pb-c.h"
#include "nodeagent/kubelet/proto/podresources.pb-c.h"

/*
 * Input: a first byte that picks a message of the kubelet's, then its bytes. What decodes encodes
 * in the size that was told, and what decodes of that encodes to the same bytes. (Not all does:
 * protobuf-c keeps an unknown field of number 0 in an overlong spelling, and writes it in one that
 * it refuses.)
 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const ProtobufCMessageDescriptor *const messages[] = {
    &v1beta1__register_request__descriptor,
    &v1beta1__device_plugin_options__descriptor,
    &v1beta1__list_and_watch_response__descriptor,
    &v1beta1__preferred_allocation_request__descriptor,
    &v1beta1__preferred_allocation_response__descriptor,
    &v1beta1__allocate_request__descriptor,
    &v1beta1__allocate_response__descriptor,
    &v1beta1__pre_start_container_request__descriptor,
    &v1__list_pod_resources_response__descriptor,
    &v1__allocatable_resources_response__descriptor,
    &v1__get_pod_resources_response__descriptor,
};

/* Packed into exactly the bytes that it asks for. Caller frees. */
static uint8_t *pack(const ProtobufCMessage *m, size_t *ret_len)
{
    size_t len = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = xmalloc(len);
    size_t n = protobuf_c_message_pack(m, bytes);
    assert(n == len);
    *ret_len = n;
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0)
        return 0;
    const ProtobufCMessageDescriptor *type = messages[data[0] % ARRAY_LEN(messages)];
    ProtobufCMessage *first = protobuf_c_message_unpack(type, NULL, len - 1, data + 1);
    size_t once_len = 0;
    auto_free uint8_t *once = first ? pack(first, &once_len) : NULL;
    ProtobufCMessage *second = first ? protobuf_c_message_unpack(type, NULL, once_len, once) : NULL;
    size_t twice_len = 0;
    auto_free uint8_t *twice = second ? pack(second, &twice_len) : NULL;
    assert(!second || (once_len == twice_len && memcmp(once, twice, once_len) == 0));
    protobuf_c_message_free_unpacked(first, NULL);
    protobuf_c_message_free_unpacked(second, NULL);
    return 0;
}
