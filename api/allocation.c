/* SPDX-License-Identifier: Apache-2.0 */
#include "api/allocation.h"

#include <string.h>

#include "base/jx.h"

enum {
    MAX_UUID_BYTES = 63,
    MAX_NAME_BYTES = 63, /* of a container: a DNS label */
    MAX_PERCENT = 100,
};

static const struct jx_field share_fields[] = {
    JX_F(allocation_share, uuid, "u", JX_STR, .required = true, .min = 1, .max = MAX_UUID_BYTES),
    JX_F(allocation_share, memory_mib, "m", JX_INT, .required = true, .min = 1, .max = INT32_MAX),
    JX_F(allocation_share, compute, "c", JX_INT, .min = 0, .max = MAX_PERCENT, .keep_zero = true),
    {0},
};

static const struct jx_field container_fields[] = {
    JX_F(allocation_container, name, "n", JX_STR, .required = true, .min = 1,
         .max = MAX_NAME_BYTES),
    JX_L(allocation_container, shares, n_shares, "s", JX_LIST, .required = true,
         .sub = share_fields, .elem_bytes = sizeof(struct allocation_share), .min = 1,
         .max = ALLOCATION_MAX_SHARES),
    {0},
};

static const struct jx_field allocation_fields[] = {
    JX_F(allocation, version, "v", JX_INT, .required = true, .min = 1, .max = INT32_MAX),
    JX_L(allocation, containers, n_containers, "c", JX_LIST, .required = true,
         .sub = container_fields, .elem_bytes = sizeof(struct allocation_container), .min = 1,
         .max = ALLOCATION_MAX_CONTAINERS),
    JX_F(allocation, priority, "p", JX_INT, .min = 0, .max = 1, .keep_zero = true),
    {0},
};

static int check_twice(const struct allocation *a, struct err *e)
{
    for (size_t i = 0; i < a->n_containers; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(a->containers[i].name, a->containers[k].name) == 0)
                return err_set(e, ERR_INVALID, "container %s stands there twice",
                               a->containers[i].name);
    return 0;
}

static int parse(const char *text, struct allocation *ret, struct err *e)
{
    auto_json json_t *value = NULL;
    TRY(jx_parse(text, strlen(text), ALLOCATION_MAX_BYTES, &value, e));
    /* What else another version has need not fit here. */
    const json_t *version = json_object_get(value, "v");
    if (json_is_integer(version) && json_integer_value(version) != ALLOCATION_VERSION)
        return err_set(e, ERR_INVALID, "version %lld is not known, only %d",
                       (long long)json_integer_value(version), ALLOCATION_VERSION);
    TRY(jx_decode(value, allocation_fields, ret, e));
    return check_twice(ret, e);
}

int allocation_parse(const char *text, struct allocation *ret, struct err *e)
{
    *ret = (struct allocation){0};
    int rc = parse(text, ret, e);
    return rc < 0 && e ? err_wrap(e, "annotation %s", ALLOCATION_ANNOTATION) : rc;
}

int allocation_format(const struct allocation *a, char **ret, struct err *e)
{
    auto_json json_t *value = jx_encode(allocation_fields, a);
    auto_free char *text = jx_dump(value);
    if (strlen(text) > ALLOCATION_MAX_BYTES)
        return err_set(e, ERR_TOO_LARGE,
                       "the record of the pod's shares has %zu bytes, and at most %d are allowed: "
                       "ask for fewer shares in one pod",
                       strlen(text), ALLOCATION_MAX_BYTES);
    *ret = TAKE(text);
    return 0;
}

const struct allocation_container *allocation_of(const struct allocation *a, const char *container)
{
    for (size_t i = 0; i < a->n_containers; i++)
        if (strcmp(a->containers[i].name, container) == 0)
            return &a->containers[i];
    return NULL;
}

void allocation_done(struct allocation *a)
{
    jx_free(allocation_fields, a);
}
