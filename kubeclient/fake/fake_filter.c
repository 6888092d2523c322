/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/fake/fake_filter.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/jx.h"
#include "base/num.h"

#include "kubeclient/fake/fake_rules.h"
#include "kubeclient/fake/fake_selector.h"

int fake_filter_matches(const struct fake_filter *filter, const json_t *obj, bool *ret,
                        struct err *e)
{
    bool labels = false;
    bool fields = false;
    const char *ns = JX_STR_AT(obj, "metadata", "namespace");
    bool here = !filter->t->ns || !filter->t->res->namespaced || (ns && !strcmp(ns, filter->t->ns));
    TRY(fake_labels_match(filter->labels, obj, &labels, e));
    TRY(fake_fields_match(filter->fields, filter->t->res->plural, obj, &fields, e));
    *ret = here && labels && fields;
    return 0;
}

int fake_filter_version(const char *text, uint64_t *ret, struct err *e)
{
    int64_t n = 0;
    if (text && *text && num_parse(text, 0, INT64_MAX, &n, NULL) < 0)
        return fake_fail(e, 400, "BadRequest", NULL, "invalid resource version \"%s\"", text);
    *ret = (uint64_t)n;
    return 0;
}

int fake_filter_check_reached(const struct fake_store *st, uint64_t wanted, struct err *e)
{
    if (wanted <= st->version)
        return 0;
    return fake_fail(e, 504, "Timeout", "ResourceVersionTooLarge",
                     "Too large resource version: %" PRIu64 ", current: %" PRIu64, wanted,
                     st->version);
}

int fake_filter_snapshot(struct fake_store *st, const struct fake_filter *filter, json_t *ret_items,
                         uint64_t *ret_version, struct err *e)
{
    assert(json_is_array(ret_items));
    const struct fake_kind *k = fake_store_kind(st, filter->t->res);
    for (size_t i = 0; i < k->count; i++) {
        bool fits = false;
        TRY(fake_filter_matches(filter, k->entries[i]->obj, &fits, e));
        if (fits)
            (void)json_array_append_new(ret_items, json_deep_copy(k->entries[i]->obj));
    }
    *ret_version = st->version;
    return 0;
}
