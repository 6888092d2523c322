/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_head.h"

#include <string.h>

static const char magic[16] = "cleave memory 1";

_Static_assert(sizeof(struct head) <= STORE_HEAD, "a head is a page");

void head_write(const struct store_file *f, const struct head *head,
                const struct cuda_device *device)
{
    struct head *to = f->head;
    struct shared_name name = to->name;
    *to = *head;
    to->name = name;
    memcpy(to->magic, magic, sizeof(magic));
    if (device != NULL)
        memcpy(to->uuid, device->uuid, sizeof(to->uuid));
}

bool head_read(const struct store_file *f, enum head_kind kind, struct head *ret)
{
    memcpy(ret, f->head, sizeof(*ret));
    ret->uuid[sizeof(ret->uuid) - 1] = '\0';
    return memcmp(ret->magic, magic, sizeof(magic)) == 0 && ret->kind == kind &&
           store_file_has(f, ret->bytes);
}

CUdevice head_device(const struct head *head)
{
    if (head->uuid[0] == '\0')
        return CU_DEVICE_CPU;
    for (CUdevice i = 0; i < cuda_device_count(); i++) {
        if (strcmp(cuda_device_at(i)->uuid, head->uuid) == 0)
            return i;
    }
    return CU_DEVICE_INVALID;
}

struct shared_name *head_name(const struct store_file *f)
{
    return &((struct head *)f->head)->name;
}
