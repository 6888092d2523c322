/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/session.h"

#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/xalloc.h"

#include "kubeclient/config_source.h"
#include "kubeclient/http.h"

/* No eye follows more than a picture a second; the agents measure each 15 s by default. */
enum { MAX_TIMEOUT_MS = 3600000, REDRAW_MS = 1000, TOP_MS = 15000 };

void session_done(struct session *s)
{
    (void)kc_free(s->kc);
    kc_config_done(&s->config);
    (void)scope_free(s->scope);
}

static int page_of(void *arg, struct scope *s, const struct pod_page *page, char **ret,
                   struct err *e)
{
    return pod_page_get(kc_http_way(arg), s, page, ret, e);
}

/* Reads a time as kubectl does: a number without a unit is seconds. *ret_ms stays 0, the client's
 * own bound, where the text is "0" or absent. */
static int read_timeout(const char *text, int64_t *ret_ms, struct err *e)
{
    if (!text || strcmp(text, "0") == 0)
        return 0;
    bool is_number = text[strspn(text, "0123456789")] == '\0';
    auto_free char *time = xasprintf("%s%s", text, is_number ? "s" : "");
    if (duration_parse(time, 1, MAX_TIMEOUT_MS, ret_ms, e) < 0)
        return err_wrap(e, "--request-timeout");
    return 0;
}

int session_open(const struct session_flags *given, struct session *ret, struct command *c,
                 struct err *e)
{
    struct kc_http_opts o = {.user_agent = "kubectl-cleave/" CLEAVE_VERSION};
    TRY(command_output_of(given->output, &c->output, e));
    TRY(read_timeout(given->timeout, &o.request_timeout_ms, e));
    TRY(kc_config_discover_context(given->kubeconfig, given->context, environ, &ret->config, e));
    TRY(kc_http_new(&ret->config, &o, &ret->kc, e));
    ret->scope = scope_new(/* parent= */ NULL, /* timeout_ms= */ -1);
    c->kc = ret->kc;
    c->page = page_of;
    c->page_arg = ret->kc;
    c->scope = ret->scope;
    c->server = ret->config.server;
    c->screen = screen_behind(STDOUT_FILENO, environ);
    c->clock = clock_real();
    c->redraw_ms = REDRAW_MS;
    c->top_ms = TOP_MS;
    c->out = stdout;
    c->err = stderr;
    return 0;
}
