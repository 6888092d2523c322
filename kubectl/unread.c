/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/unread.h"

#include <stdlib.h>

#include "base/xalloc.h"

#include "kubectl/failure.h"

void unread_add(struct unread *u, char *note_take)
{
    *XPUSH(u->notes, u->n) = note_take;
}

int unread_note(struct unread *u, int rc, const char *what, const char *without, struct err *why,
                struct err *e)
{
    if (rc == 0)
        return 0;
    if (!without || (rc != -ERR_FORBIDDEN && rc != -ERR_NOT_FOUND) || failure_is_login(why))
        return err_move(e, why);
    unread_add(u, xasprintf("%s cannot be read (%s): %s%s", what, err_msg(why), without,
                            failure_role(why)));
    return 0;
}

json_t *unread_json(const struct unread *u)
{
    json_t *list = json_array();
    for (size_t i = 0; i < u->n; i++)
        (void)json_array_append_new(list, json_string(u->notes[i]));
    return list;
}

void unread_done(struct unread *u)
{
    for (size_t i = 0; i < u->n; i++)
        free(u->notes[i]);
    free(u->notes);
    *u = (struct unread){0};
}
