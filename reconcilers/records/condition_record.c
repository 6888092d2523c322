/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/records/condition_record.h"

#include <assert.h>
#include <stdlib.h>

#include "base/xalloc.h"

void condition_record_read(const struct conditions *list, const char *type,
                           struct condition_record *ret)
{
    assert(!ret->present);
    const struct condition *c = condition_get(list, type);
    if (!c)
        return;
    *ret = (struct condition_record){true, c->status, xstrdup(c->reason), xstrdup(c->message)};
}

void condition_record_done(struct condition_record *c)
{
    free(c->reason);
    free(c->message);
}
