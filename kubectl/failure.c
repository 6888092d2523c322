/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/failure.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "kubectl/safe_text.h"

enum { HTTP_UNAUTHORIZED = 401 };

bool failure_is_login(const struct err *e)
{
    return e->http_status == HTTP_UNAUTHORIZED;
}

static bool is_without_answer(const struct err *e)
{
    return e->http_status == 0 && (e->kind == ERR_UNAVAILABLE || e->kind == ERR_TIMEOUT);
}

/* kubernetes' authorizer names the resource with its group, and the subresource. */
const char *failure_role(const struct err *e)
{
    if (e->kind != ERR_FORBIDDEN)
        return "";
    if (strstr(err_msg(e), "\"pods/portforward\""))
        return " (the Role cleave-top of the agents' namespace has this right)";
    return strstr(err_msg(e), "API group \"gpu.cleave.dev\"")
               ? " (the ClusterRole cleave-viewer has this right)"
               : "";
}

static char *words_of(const struct err *e, const char *server)
{
    const char *reason = e->reason ? e->reason : err_kind_name(e->kind);
    if (!server)
        return xasprintf("error: %s", err_msg(e));
    if (failure_is_login(e))
        return xasprintf("error: You must be logged in to the server (%s)", err_msg(e));
    if (e->kind == ERR_NOT_FOUND)
        return xasprintf("error: the server doesn't have what was asked for: is Cleave installed "
                         "in this cluster? (%s)",
                         err_msg(e));
    if (is_without_answer(e))
        return xasprintf("Unable to connect to the server: %s", err_msg(e));
    if (e->http_status || e->kind == ERR_FORBIDDEN)
        return xasprintf("Error from server (%s): %s%s", reason, err_msg(e), failure_role(e));
    return xasprintf("error: %s", err_msg(e));
}

char *failure_words(const struct err *e, const char *server)
{
    auto_free char *words = words_of(e, server);
    return safe_text(words);
}
