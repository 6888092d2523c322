/* SPDX-License-Identifier: Apache-2.0 */
#include "api/decode.h"

#include <string.h>

int api_decode_part(const json_t *obj, const char *part, const struct jx_field *fields, void *ret,
                    size_t bytes, struct err *e)
{
    const json_t *value = json_object_get(obj, part);
    /* An absent part is decoded as an empty one, so that its required fields are reported as
     * missing. */
    auto_json json_t *empty = !value || json_is_null(value) ? json_pack("{s:{}}", part) : NULL;
    /* The part as the only field of a table, so that paths in errors begin with it. */
    const struct jx_field whole[] = {
        {.name = part, .type = JX_OBJECT, .present_offset = JX_NO_OFFSET, .sub = fields},
        {0},
    };
    int rc = jx_decode(empty ? empty : obj, whole, ret, e);
    if (rc == 0)
        return 0;
    if (empty)
        rc = err_set(e, ERR_INVALID, ".%s: required", part);
    jx_free(fields, ret);
    memset(ret, 0, bytes);
    return rc;
}
