/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/report/last_status.h"

/* A pod has a name in a namespace; without either it is a process or known by its uid. */
static bool are_whole_consumers(const struct device_consumer *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!list[i].name != !list[i].namespace)
            return false;
    return true;
}

static bool is_whole_card(const struct device_card *c)
{
    for (size_t i = 0; i < c->n_partitions; i++) {
        const struct device_partition *p = &c->partitions[i];
        if (!p->profile || !are_whole_consumers(p->in_use_by, p->n_in_use_by))
            return false;
    }
    return are_whole_consumers(c->in_use_by, c->n_in_use_by);
}

bool last_status_read(const json_t *status, struct device_status *ret)
{
    *ret = (struct device_status){0};
    bool whole = jx_decode(status, device_status_fields, ret, NULL) == 0;
    for (size_t i = 0; i < ret->n_devices && whole; i++)
        whole = is_whole_card(&ret->devices[i]);
    if (!whole)
        device_status_done(ret);
    return whole;
}
