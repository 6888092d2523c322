/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "kubectl/agent_pod.h"
#include "kubectl/command.h"
#include "kubectl/failure.h"
#include "kubectl/redraw.h"
#include "kubectl/top_text.h"
#include "service/resources.h"

#define AGENTS "app.kubernetes.io/part-of=cleave,app.kubernetes.io/component=agent"
#define PAGE   "/metrics/telemetry"
/* The service account whose token agents get that want one. It may read metrics and nothing else,
 * since whoever has the node may keep the token (config/components/metrics-auth). */
#define READER "cleave-top"

/* The number of agents that are asked at the same time, the time that each may take, and the life
 * of the token. In a watch others wait for the slowest, and the next round asks it again. */
enum { ASKED_AT_ONCE = 8, ASKED_MS = 15000, ASKED_IN_A_WATCH_MS = 5000, TOKEN_S = 600 };

static const struct kc_resource accounts = {"", "v1", "serviceaccounts", "ServiceAccount", true};

/* An agent, and its answer. */
struct asked {
    struct agent_pod at;
    char *page;
    struct err why; /* why there is no page */
};

struct round {
    const struct command *c;
    const char *ns;
    int64_t asked_ms; /* the time that each agent may take */
    char *token;      /* NULL: no agent wants one */
    struct asked *agents;
    size_t n;
    size_t found; /* agents' pods, also those that cannot be asked */
    atomic_size_t next;
};

static void round_done(struct round *r)
{
    for (size_t i = 0; i < r->n; i++) {
        agent_pod_done(&r->agents[i].at);
        free(r->agents[i].page);
        err_clear(&r->agents[i].why);
    }
    free(r->agents);
    if (r->token)
        explicit_bzero(r->token, strlen(r->token));
    free(r->token);
}

AUTO_DEFINE(round, struct round, round_done)
#define auto_round AUTO(round)

/* --- The agents to ask --- */

static int see_pod(void *arg, const json_t *obj, struct err *e)
{
    (void)e;
    struct round *r = arg;
    struct agent_pod at;
    r->found++;
    if (agent_pod_read(obj, &at))
        XPUSH(r->agents, r->n)->at = at;
    return 0;
}

/* Keeps the first agent of each node alone. */
static void keep_one_a_node(struct round *r)
{
    size_t n = 0;
    if (r->n)
        qsort(r->agents, r->n, sizeof(*r->agents), agent_pod_order);
    for (size_t i = 0; i < r->n; i++) {
        if (n && strcmp(r->agents[n - 1].at.node, r->agents[i].at.node) == 0)
            agent_pod_done(&r->agents[i].at);
        else
            r->agents[n++] = r->agents[i];
    }
    r->n = n;
}

/* True when the API server says that there is no such Node; not when Nodes may not be read. */
static bool lacks_node(const struct round *r, const char *node)
{
    auto_err struct err e = {0};
    auto_json json_t *obj = NULL;
    const struct kc_target t = {.res = &resource_nodes, .name = node};
    return kc_get(r->c->kc, r->c->scope, &t, &obj, &e) == -ERR_NOT_FOUND;
}

/* The error that says why there is no agent to ask. */
static int say_none(const struct round *r, const char *node, struct err *e)
{
    const char *on = node ? " on node " : "";
    const char *name = node ? node : "";
    if (node && !r->found && lacks_node(r, node))
        return err_set(e, ERR_INVALID, "nodes \"%s\" not found", node);
    if (!r->found)
        return err_set(e, ERR_INVALID,
                       "no agent runs as a pod%s%s in the namespace %s (-n names another)", on,
                       name, r->ns);
    return err_set(e, ERR_INVALID, "%zu agent%s found%s%s, none Ready: kubectl get pods -n %s",
                   r->found, r->found == 1 ? "" : "s", on, name, r->ns);
}

static int find_agents(struct round *r, const char *node, struct err *e)
{
    auto_free char *fields = node ? xasprintf("spec.nodeName=%s", node) : NULL;
    const struct kc_target t = {.res = &resource_pods, .ns = r->ns};
    const struct kc_list_opts o = {.labels = AGENTS, .fields = fields, .resource_version = "0"};
    TRY(kc_list_each(r->c->kc, r->c->scope, &t, &o, see_pod, r, /* ret_version= */ NULL, e));
    keep_one_a_node(r);
    return r->n ? 0 : say_none(r, node, e);
}

static int fetch_token(struct round *r, struct err *e)
{
    auto_json json_t *answer = NULL;
    auto_json json_t *body =
        json_pack("{s:s, s:s, s:{s:i}}", "apiVersion", "authentication.k8s.io/v1", "kind",
                  "TokenRequest", "spec", "expirationSeconds", TOKEN_S);
    const struct kc_target t = {.res = &accounts,
                                .ns = r->ns,
                                .name = READER,
                                .subresource = "token"};
    const struct kc_write w = {.body = body};
    if (kc_create(r->c->kc, r->c->scope, &t, &w, &answer, e) < 0)
        return err_wrap(e, "a token of the service account " READER
                           ", which agents with --metrics-auth=token want");
    xstr_set(&r->token, JX_STR_AT(answer, "status", "token"));
    return r->token ? 0 : err_set(e, ERR_PROTOCOL, "the answer to a TokenRequest has no token");
}

static int fetch_token_if_wanted(struct round *r, struct err *e)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->agents[i].at.token)
            return fetch_token(r, e);
    return 0;
}

/* --- Asking --- */

static void ask(const struct round *r, struct asked *a)
{
    auto_scope struct scope *s = scope_new(r->c->scope, r->asked_ms);
    const struct pod_page page = {.ns = r->ns,
                                  .pod = a->at.pod,
                                  .port = a->at.port,
                                  .path = PAGE,
                                  .tls = a->at.tls,
                                  .token = a->at.token && a->at.tls ? r->token : NULL};
    if (!a->at.port)
        (void)err_set(&a->why, ERR_INVALID, "its agent serves no metrics");
    else
        (void)r->c->page(r->c->page_arg, s, &page, &a->page, &a->why);
}

static void *ask_in_turn(void *arg)
{
    struct round *r = arg;
    size_t i;
    while ((i = atomic_fetch_add(&r->next, 1)) < r->n && !scope_is_canceled(r->c->scope))
        ask(r, &r->agents[i]);
    return NULL;
}

/* This thread asks, too: without another one it takes longer. */
static void ask_all(struct round *r)
{
    pthread_t threads[ASKED_AT_ONCE - 1];
    size_t n = 0;
    while (n < ARRAY_LEN(threads) && n + 1 < r->n &&
           pthread_create(&threads[n], NULL, ask_in_turn, r) == 0)
        n++;
    (void)ask_in_turn(r);
    while (n)
        (void)pthread_join(threads[--n], NULL);
}

/* A right that is missing at every node is the command's error. */
static int check_rights(struct round *r, struct err *e)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->agents[i].page || r->agents[i].why.kind != ERR_FORBIDDEN)
            return 0;
    return err_move(e, &r->agents[0].why);
}

/* --- Telling --- */

/* The use of one node's cards. words: why there is none; NULL: there is. */
struct told {
    struct top_node node;
    char *words;
};

static void told_done(struct told *t)
{
    top_node_done(&t->node);
    free(t->words);
}

AUTO_DEFINE(told, struct told, told_done)
#define auto_told AUTO(told)

static void read_page(struct asked *a, struct told *ret)
{
    auto_err struct err why = {0};
    if (!a->page)
        ret->words = xstrdup(err_msg(&a->why));
    else if (top_read(a->page, &ret->node, &why) < 0)
        ret->words = xstrdup(err_msg(&why));
}

static bool add_told(const struct round *r, struct asked *a, const char *only, json_t *list,
                     struct sb *text)
{
    auto_told struct told t = {0};
    read_page(a, &t);
    const struct top_view v = {a->at.node, t.words ? NULL : &t.node, t.words};
    if (list)
        (void)json_array_append_new(list, top_json(&v));
    else if (t.words || t.node.n || only)
        top_text(&v, &r->c->screen, text);
    return !t.words;
}

/* COMMAND_FAILED: no node has answered. */
static int tell(struct round *r, const char *only, char **ret_text)
{
    bool any = false;
    bool as_text = r->c->output == OUTPUT_TEXT;
    auto_err struct err e = {0};
    auto_json json_t *list = as_text ? NULL : json_array();
    auto_sb struct sb text = SB_INIT(COMMAND_MAX_BYTES);
    top_text_head(&r->c->screen, &text);
    for (size_t i = 0; i < r->n; i++)
        any |= add_told(r, &r->agents[i], only, list, &text);
    if (sb_check(&text, &e) < 0)
        return command_fail(r->c->err, /* server= */ NULL, &e);
    auto_json json_t *document = json_pack("{s:s, s:O*}", "kind", "Top", "nodes", list);
    *ret_text = as_text ? sb_take(&text) : command_words(r->c, document);
    return any ? COMMAND_OK : COMMAND_FAILED;
}

struct top {
    const struct command *c;
    const char *ns, *node;
    int64_t asked_ms;
};

static int picture(void *arg, char **ret_text, char **ret_version)
{
    (void)ret_version;
    const struct top *t = arg;
    auto_err struct err e = {0};
    auto_round struct round r = {.c = t->c, .ns = t->ns, .asked_ms = t->asked_ms};
    int rc = find_agents(&r, t->node, &e);
    if (rc == 0)
        rc = fetch_token_if_wanted(&r, &e);
    if (rc == 0) {
        ask_all(&r);
        rc = check_rights(&r, &e);
    }
    if (rc < 0)
        return command_fail(t->c->err, e.kind == ERR_INVALID ? NULL : t->c->server, &e);
    return tell(&r, t->node, ret_text);
}

int command_top(const struct command *c, const char *ns, const char *node)
{
    struct top t = {c, ns, node, ASKED_MS};
    auto_free char *text = NULL;
    int code = picture(&t, &text, /* ret_version= */ NULL);
    int put = text ? command_put(c, text) : code;
    return code == COMMAND_OK ? put : code;
}

/* For a watch, a round without an answer is a picture, too: the next one may have some. */
static int picture_of_many(void *arg, char **ret_text, char **ret_version)
{
    int code = picture(arg, ret_text, ret_version);
    return *ret_text ? COMMAND_OK : code;
}

int command_top_watch(const struct command *c, const char *ns, const char *node)
{
    struct top t = {c, ns, node, ASKED_IN_A_WATCH_MS};
    return redraw_each(c, c->top_ms, picture_of_many, &t);
}
