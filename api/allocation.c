/* SPDX-License-Identifier: Apache-2.0 */
#include "api/allocation.h"

#include <stdbool.h>
#include <string.h>

#include "base/jx.h"

enum {
    MAX_NAME_BYTES = 63, /* of a container: a DNS label */
    MAX_PERCENT = 100,
    /* kubernetes pkg/api/validation/objectmeta.go (apimachinery) TotalAnnotationSizeLimitB */
    MAX_ANNOTATION_BYTES = 256 << 10,
};

/* Of NVIDIA's cards and MIG devices, and HAMi's mark of the latter: "GPU-…[1-0]". HAMi's text has no
 * quotes, and ends its words with commas, colons and semicolons. */
#define UUID_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-[]"

static const struct jx_field share_fields[] = {
    JX_F(allocation_share, uuid, "u", JX_STR, .required = true, .min = 1,
         .max = ALLOCATION_MAX_UUID_BYTES),
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

static bool has_twice(const struct allocation_container *c, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(c->shares[i].uuid, c->shares[k].uuid) == 0)
            return true;
    return false;
}

static int check_cards(const struct allocation_container *c, struct err *e)
{
    for (size_t i = 0; i < c->n_shares; i++) {
        const char *uuid = c->shares[i].uuid;
        if (uuid[strspn(uuid, UUID_CHARACTERS)])
            return err_set(e, ERR_INVALID,
                           "container %s: the uuid \"%s\" has other characters than letters, "
                           "digits and ._/-[]",
                           c->name, uuid);
        if (has_twice(c, i))
            return err_set(e, ERR_INVALID, "container %s has two shares of card %s", c->name, uuid);
    }
    return 0;
}

static int check_containers(const struct allocation *a, struct err *e)
{
    for (size_t i = 0; i < a->n_containers; i++) {
        TRY(check_cards(&a->containers[i], e));
        for (size_t k = 0; k < i; k++)
            if (strcmp(a->containers[i].name, a->containers[k].name) == 0)
                return err_set(e, ERR_INVALID, "container %s stands there twice",
                               a->containers[i].name);
    }
    return 0;
}

static int decode(const json_t *value, struct allocation *ret, struct err *e)
{
    /* What else another version has need not fit here. */
    const json_t *version = json_object_get(value, "v");
    if (json_is_integer(version) && json_integer_value(version) != ALLOCATION_VERSION)
        return err_set(e, ERR_INVALID, "version %lld is not known, only %d",
                       (long long)json_integer_value(version), ALLOCATION_VERSION);
    TRY(jx_decode(value, allocation_fields, ret, e));
    return check_containers(ret, e);
}

static int parse(const char *text, struct allocation *ret, struct err *e)
{
    auto_json json_t *value = NULL;
    TRY(jx_parse(text, strlen(text), ALLOCATION_MAX_BYTES, &value, e));
    return decode(value, ret, e);
}

int allocation_parse(const char *text, struct allocation *ret, struct err *e)
{
    *ret = (struct allocation){0};
    int rc = parse(text, ret, e);
    return rc < 0 && e ? err_wrap(e, "annotation %s", ALLOCATION_ANNOTATION) : rc;
}

int allocation_check(const struct allocation *a, struct err *e)
{
    auto_json json_t *value = jx_encode(allocation_fields, a);
    AUTO(allocation) struct allocation same = {0};
    return decode(value, &same, e);
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
    TRY(allocation_check(a, e));
    *ret = TAKE(text);
    return 0;
}

int allocation_check_size(size_t n_containers, size_t n_shares, size_t uuid_bytes, struct err *e)
{
    static const char outer[] = "{\"c\":[],\"p\":1,\"v\":1}";
    static const char container[] = "{\"n\":\"\",\"s\":[]},";
    static const char share[] = "{\"c\":100,\"m\":2147483647,\"u\":\"\"},";
    size_t bytes = sizeof(outer) + n_containers * (sizeof(container) + MAX_NAME_BYTES) +
                   n_shares * (sizeof(share) + uuid_bytes);
    return bytes <= ALLOCATION_MAX_BYTES
               ? 0
               : err_set(e, ERR_TOO_LARGE,
                         "the record of %zu shares in %zu containers can have %zu bytes, and at "
                         "most %d are allowed: ask for fewer shares in one pod",
                         n_shares, n_containers, bytes, ALLOCATION_MAX_BYTES);
}

int allocation_check_room(const json_t *annotations, size_t beside_bytes, struct err *e)
{
    size_t own = strlen(ALLOCATION_ANNOTATION) + ALLOCATION_MAX_BYTES + beside_bytes;
    size_t bytes = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)annotations, key, value) {
        bytes += strlen(key) + json_string_length(value);
    }
    return bytes + own <= MAX_ANNOTATION_BYTES
               ? 0
               : err_set(e, ERR_TOO_LARGE,
                         "the pod has %zu bytes of annotations, and the record of its shares "
                         "takes up to %zu of the %d that are allowed: shorten the annotations",
                         bytes, own, MAX_ANNOTATION_BYTES);
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
