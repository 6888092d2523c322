/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/xalloc.h"

#include "kubeclient/http.h"
#include "kubectl/command.h"
#include "kubectl/completion.h"

/* No eye follows more than a picture a second; the agents measure each 15 s by default. */
enum { MAX_COMPLETION_BYTES = 4096, REDRAW_MS = 1000, TOP_MS = 15000 };

/* Where the agents are by default (config/namespace). */
#define AGENTS_NS "cleave-node"

struct flags {
    const char *kubeconfig, *context, *output, *node, *file, *namespace;
    bool help, watch;
};

/* The flags that all commands have. */
#define COMMON_OPTIONS(f)                                                                          \
    {.name = "kubeconfig",                                                                         \
     .value = "PATH",                                                                              \
     .text = &(f)->kubeconfig,                                                                     \
     .help = "API server; else $KUBECONFIG, the pod's own, ~/.kube/config"},                       \
        {.name = "context",                                                                        \
         .value = "NAME",                                                                          \
         .text = &(f)->context,                                                                    \
         .help = "context of the kubeconfig; else its current one"},                               \
        {.name = "output",                                                                         \
         .letter = 'o',                                                                            \
         .value = "json|yaml",                                                                     \
         .text = &(f)->output,                                                                     \
         .help = "print a document, for programs"},                                                \
    {                                                                                              \
        .name = "help", .letter = 'h', .on = &(f)->help, .help = "show this"                       \
    }

struct session {
    struct kc_config config;
    struct kc *kc;
    struct scope *scope;
};

static void session_done(struct session *s)
{
    (void)kc_free(s->kc);
    kc_config_done(&s->config);
    (void)scope_free(s->scope);
}

AUTO_DEFINE(session, struct session, session_done)
#define auto_session AUTO(session)

static int page_of(void *arg, struct scope *s, const struct pod_page *page, char **ret,
                   struct err *e)
{
    return pod_page_get(kc_http_way(arg), s, page, ret, e);
}

static int connect_to(const struct flags *f, struct session *ret, struct command *c, struct err *e)
{
    const struct kc_http_opts o = {.user_agent = "kubectl-cleave/" CLEAVE_VERSION};
    TRY(command_output_of(f->output, &c->output, e));
    TRY(kc_config_discover_context(f->kubeconfig, f->context, environ, &ret->config, e));
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

static int usage_error(const char *verb, const struct err *e)
{
    int code = command_fail(stderr, /* server= */ NULL, e);
    (void)fprintf(stderr, "See 'kubectl cleave%s%s --help' for usage.\n", *verb ? " " : "", verb);
    return code;
}

/* --- Verbs --- */

static int run_cards(int argc, char **argv)
{
    struct flags f = {0};
    auto_err struct err e = {0};
    auto_session struct session s = {0};
    struct command c = {0};
    size_t n;
    const struct option_def defs[] =
        {{.name = "node", .value = "NAME", .text = &f.node, .help = "only the cards of this node"},
         {.name = "watch", .letter = 'w', .on = &f.watch, .help = "draw them anew as they change"},
         COMMON_OPTIONS(&f),
         {0}};
    if (options_parse(defs, argc, argv, NULL, 0, &n, &e) < 0)
        return usage_error("", &e);
    if (f.help) {
        options_help("kubectl cleave [--node NAME] [-w] [-o json|yaml]\n"
                     "       kubectl cleave plan -f FILE [-o json|yaml]\n"
                     "       kubectl cleave why POD [-n NAMESPACE] [-o json|yaml]\n"
                     "       kubectl cleave top [NODE] [-w] [-o json|yaml]\n"
                     "       kubectl cleave doctor [-o json|yaml]\n"
                     "       kubectl cleave history NODE [-o json|yaml]\n"
                     "       kubectl cleave version",
                     "Shows the cluster's GPUs by node: how each card is cut or shared, which pods "
                     "have what,\nand what is free. Changes nothing.",
                     defs);
        return COMMAND_OK;
    }
    if (connect_to(&f, &s, &c, &e) < 0)
        return command_fail(stderr, /* server= */ NULL, &e);
    return f.watch ? command_cards_watch(&c, f.node) : command_cards(&c, f.node);
}

static int run_plan(int argc, char **argv)
{
    struct flags f = {0};
    auto_err struct err e = {0};
    auto_session struct session s = {0};
    struct command c = {0};
    size_t n;
    const struct option_def defs[] = {{.name = "filename",
                                       .letter = 'f',
                                       .value = "FILE",
                                       .text = &f.file,
                                       .help =
                                           "GPUProfiles and MIGConfigs, YAML or JSON; - is stdin"},
                                      COMMON_OPTIONS(&f),
                                      {0}};
    if (options_parse(defs, argc, argv, NULL, 0, &n, &e) < 0)
        return usage_error("plan", &e);
    if (f.help) {
        options_help("kubectl cleave plan -f FILE [-o json|yaml]",
                     "Shows what applying the file would change, node by node and card by card. "
                     "Changes nothing.\nExits with 0 if nothing changes, with 2 if something "
                     "changes, with 1 if it could not be\ntold, or if something of the file cannot "
                     "be.",
                     defs);
        return COMMAND_OK;
    }
    if (!f.file) {
        (void)err_set(&e, ERR_INVALID, "must specify -f FILE");
        return usage_error("plan", &e);
    }
    if (connect_to(&f, &s, &c, &e) < 0)
        return command_fail(stderr, /* server= */ NULL, &e);
    return command_plan(&c, f.file);
}

static int run_why(int argc, char **argv)
{
    struct flags f = {0};
    auto_err struct err e = {0};
    auto_session struct session s = {0};
    struct command c = {0};
    const char *pod = NULL;
    size_t n;
    const struct option_def defs[] = {{.name = "namespace",
                                       .letter = 'n',
                                       .value = "NAME",
                                       .text = &f.namespace,
                                       .help = "of the pod; else the context's, or default"},
                                      COMMON_OPTIONS(&f),
                                      {0}};
    if (options_parse(defs, argc, argv, &pod, 1, &n, &e) < 0)
        return usage_error("why", &e);
    if (f.help) {
        options_help("kubectl cleave why POD [-n NAMESPACE] [-o json|yaml]",
                     "Says why a pending pod gets no GPU, node by node, and the smallest change of "
                     "a card's layout\nthat would give it one without touching what is in use. "
                     "Changes nothing.",
                     defs);
        return COMMAND_OK;
    }
    if (n == 0) {
        (void)err_set(&e, ERR_INVALID, "must specify the pod's name");
        return usage_error("why", &e);
    }
    if (connect_to(&f, &s, &c, &e) < 0)
        return command_fail(stderr, /* server= */ NULL, &e);
    const char *ns = f.namespace ? f.namespace : s.config.ns;
    return command_why(&c, ns ? ns : "default", pod);
}

static int run_top(int argc, char **argv)
{
    struct flags f = {.namespace = AGENTS_NS};
    auto_err struct err e = {0};
    auto_session struct session s = {0};
    struct command c = {0};
    const char *node = NULL;
    size_t n;
    const struct option_def defs[] =
        {{.name = "namespace",
          .letter = 'n',
          .value = "NAME",
          .text = &f.namespace,
          .help = "of the agents"},
         {.name = "watch", .letter = 'w', .on = &f.watch, .help = "draw it anew each 15 s"},
         COMMON_OPTIONS(&f),
         {0}};
    if (options_parse(defs, argc, argv, &node, 1, &n, &e) < 0)
        return usage_error("top", &e);
    if (f.help) {
        options_help("kubectl cleave top [NODE] [-n NAMESPACE] [-w] [-o json|yaml]",
                     "Shows what the cards do now, and which pod how much of it: use, memory, "
                     "temperature, power.\nAsks the nodes' agents by a port-forward. Changes "
                     "nothing.",
                     defs);
        return COMMAND_OK;
    }
    if (connect_to(&f, &s, &c, &e) < 0)
        return command_fail(stderr, /* server= */ NULL, &e);
    node = n ? node : NULL;
    return f.watch ? command_top_watch(&c, f.namespace, node) : command_top(&c, f.namespace, node);
}

static int run_doctor(int argc, char **argv)
{
    struct flags f = {0};
    auto_err struct err e = {0};
    auto_session struct session s = {0};
    struct command c = {0};
    size_t n;
    const struct option_def defs[] = {COMMON_OPTIONS(&f), {0}};
    if (options_parse(defs, argc, argv, NULL, 0, &n, &e) < 0)
        return usage_error("doctor", &e);
    if (f.help) {
        options_help("kubectl cleave doctor [-o json|yaml]",
                     "Says what is not right in the cluster, and what mends it. Changes nothing.\n"
                     "Exits with 0 if nothing was found, with 2 if something was, with 1 if it "
                     "could not be\ntold.",
                     defs);
        return COMMAND_OK;
    }
    if (connect_to(&f, &s, &c, &e) < 0)
        return command_fail(stderr, /* server= */ NULL, &e);
    return command_doctor(&c);
}

static int run_history(int argc, char **argv)
{
    struct flags f = {0};
    auto_err struct err e = {0};
    auto_session struct session s = {0};
    struct command c = {0};
    const char *node;
    size_t n;
    const struct option_def defs[] = {COMMON_OPTIONS(&f), {0}};
    if (options_parse(defs, argc, argv, &node, 1, &n, &e) < 0)
        return usage_error("history", &e);
    if (f.help) {
        options_help("kubectl cleave history NODE [-o json|yaml]",
                     "Shows what has changed on a node and its cards, the newest first: conditions "
                     "with the\ntimes of their last change, and Events. Changes nothing.",
                     defs);
        return COMMAND_OK;
    }
    if (n == 0) {
        (void)err_set(&e, ERR_INVALID, "must specify the node's name");
        return usage_error("history", &e);
    }
    if (connect_to(&f, &s, &c, &e) < 0)
        return command_fail(stderr, /* server= */ NULL, &e);
    return command_history(&c, node);
}

static int run_version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return puts("kubectl-cleave " CLEAVE_VERSION) < 0;
}

static int run_complete(int argc, char **argv)
{
    auto_sb struct sb words = SB_INIT(MAX_COMPLETION_BYTES);
    completion_add((const char *const *)argv + 1, (size_t)argc - 1, &words);
    return fputs(sb_str(&words), stdout) < 0;
}

static const struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
} verbs[] = {
    {"plan", run_plan},           {"why", run_why},
    {"doctor", run_doctor},       {"top", run_top},
    {"history", run_history},     {"version", run_version},
    {"__complete", run_complete},
};

/* Without zeroing: jansson asks for millions of pieces when a long list is parsed, and fills them. */
static void *json_memory(size_t bytes)
{
    return xrealloc(/* p= */ NULL, bytes);
}

int main(int argc, char **argv)
{
    json_set_alloc_funcs(json_memory, free);
    if (argc < 2 || argv[1][0] == '-')
        return run_cards(argc, argv);
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    auto_err struct err e = {0};
    (void)err_set(&e, ERR_INVALID, "unknown command \"%s\" for \"kubectl cleave\"", argv[1]);
    return usage_error("", &e);
}
