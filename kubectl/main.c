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

/* What was given to the one command that a process runs. */
static struct given {
    const char *kubeconfig, *context, *output, *node, *file, *ns;
    bool help, watch;
    const char *operand; /* NULL: none */
} given;

/* The flags that all commands have. */
static const struct option_def common[] = {
    {.name = "kubeconfig",
     .value = "PATH",
     .text = &given.kubeconfig,
     .help = "API server; else $KUBECONFIG, the pod's own, ~/.kube/config"},
    {.name = "context",
     .value = "NAME",
     .text = &given.context,
     .help = "context of the kubeconfig; else its current one"},
    {.name = "output",
     .letter = 'o',
     .value = "json|yaml",
     .text = &given.output,
     .help = "print a document, for programs"},
    {.name = "help", .letter = 'h', .on = &given.help, .help = "show this"},
};

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

static int connect_to(struct session *ret, struct command *c, struct err *e)
{
    const struct kc_http_opts o = {.user_agent = "kubectl-cleave/" CLEAVE_VERSION};
    TRY(command_output_of(given.output, &c->output, e));
    TRY(kc_config_discover_context(given.kubeconfig, given.context, environ, &ret->config, e));
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

/* --- Commands --- */

static int run_cards(const struct command *c, const struct session *s)
{
    (void)s;
    return given.watch ? command_cards_watch(c, given.node) : command_cards(c, given.node);
}

static int run_plan(const struct command *c, const struct session *s)
{
    (void)s;
    return command_plan(c, given.file);
}

static int run_why(const struct command *c, const struct session *s)
{
    const char *ns = given.ns ? given.ns : s->config.ns;
    return command_why(c, ns ? ns : "default", given.operand);
}

static int run_top(const struct command *c, const struct session *s)
{
    const char *ns = given.ns ? given.ns : AGENTS_NS;
    (void)s;
    return given.watch ? command_top_watch(c, ns, given.operand)
                       : command_top(c, ns, given.operand);
}

static int run_doctor(const struct command *c, const struct session *s)
{
    (void)s;
    return command_doctor(c);
}

static int run_history(const struct command *c, const struct session *s)
{
    (void)s;
    return command_history(c, given.operand);
}

enum { MAX_OWN_FLAGS = 2 };

static const struct command_def {
    const char *name; /* NULL: the command without one */
    const char *words, *about;
    struct option_def own[MAX_OWN_FLAGS];
    bool takes_operand;
    const char **needs; /* what it cannot do without; NULL: nothing */
    const char *needs_words;
    int (*run)(const struct command *c, const struct session *s);
} commands[] = {
    {.words = "[--node NAME] [-w]",
     .about = "Shows the cluster's GPUs by node: how each card is cut or shared, which pods have "
              "what,\nand what is free. Changes nothing.",
     .own = {{.name = "node",
              .value = "NAME",
              .text = &given.node,
              .help = "only the cards of this node"},
             {.name = "watch",
              .letter = 'w',
              .on = &given.watch,
              .help = "draw them anew as they change"}},
     .run = run_cards},
    {.name = "plan",
     .words = "-f FILE",
     .about =
         "Shows what applying the file would change, node by node and card by card. Changes "
         "nothing.\nExits with 0 if nothing changes, with 2 if something changes, with 1 if it "
         "could not be\ntold, or if something of the file cannot be.",
     .own = {{.name = "filename",
              .letter = 'f',
              .value = "FILE",
              .text = &given.file,
              .help = "GPUProfiles and MIGConfigs, YAML or JSON; - is stdin"}},
     .needs_words = "-f FILE",
     .needs = &given.file,
     .run = run_plan},
    {.name = "why",
     .words = "POD [-n NAMESPACE]",
     .about = "Says why a pending pod gets no GPU, node by node, and the smallest change of a "
              "card's layout\nthat would give it one without touching what is in use. Changes "
              "nothing.",
     .own = {{.name = "namespace",
              .letter = 'n',
              .value = "NAME",
              .text = &given.ns,
              .help = "of the pod; else the context's, or default"}},
     .takes_operand = true,
     .needs_words = "the pod's name",
     .needs = &given.operand,
     .run = run_why},
    {.name = "top",
     .words = "[NODE] [-n NAMESPACE] [-w]",
     .about = "Shows what the cards do now, and which pod how much of it: use, memory, "
              "temperature, power.\nAsks the nodes' agents by a port-forward. Changes nothing.",
     .own =
         {{.name = "namespace",
           .letter = 'n',
           .value = "NAME",
           .text = &given.ns,
           .help = "of the agents; else " AGENTS_NS},
          {.name = "watch", .letter = 'w', .on = &given.watch, .help = "draw it anew each 15 s"}},
     .takes_operand = true,
     .run = run_top},
    {.name = "doctor",
     .words = "",
     .about = "Says what is not right in the cluster, and what mends it. Changes nothing.\n"
              "Exits with 0 if nothing was found, with 2 if something was, with 1 if it could not "
              "be\ntold.",
     .run = run_doctor},
    {.name = "history",
     .words = "NODE",
     .about = "Shows what has changed on a node and its cards, the newest first: conditions with "
              "the\ntimes of their last change, and Events. Changes nothing.",
     .takes_operand = true,
     .needs_words = "the node's name",
     .needs = &given.operand,
     .run = run_history},
};

/* --- Usage --- */

static int usage_error(const char *name, const struct err *e)
{
    int code = command_fail(stderr, /* server= */ NULL, e);
    (void)fprintf(stderr, "See 'kubectl cleave%s%s --help' for usage.\n", name ? " " : "",
                  name ? name : "");
    return code;
}

static void add_usage(const struct command_def *d, struct sb *b)
{
    sb_addf(b, "%skubectl cleave%s%s%s%s [-o json|yaml]", b->len ? "\n       " : "",
            d->name ? " " : "", d->name ? d->name : "", *d->words ? " " : "", d->words);
}

/* The command without a name tells of all. */
static void show_help(const struct command_def *d, const struct option_def *flags)
{
    auto_sb struct sb usage = SB_INIT(4096);
    add_usage(d, &usage);
    for (size_t i = 1; !d->name && i < ARRAY_LEN(commands); i++)
        add_usage(&commands[i], &usage);
    if (!d->name)
        sb_add(&usage, "\n       kubectl cleave version");
    options_help(sb_str(&usage), d->about, flags);
}

/* --- Running --- */

static int parse(const struct command_def *d, const struct option_def *flags, int argc, char **argv,
                 struct err *e)
{
    size_t n;
    TRY(options_parse(flags, argc, argv, &given.operand, d->takes_operand, &n, e));
    if (!given.help && d->needs && !*d->needs)
        return err_set(e, ERR_INVALID, "must specify %s", d->needs_words);
    return 0;
}

static int run(const struct command_def *d, int argc, char **argv)
{
    auto_err struct err e = {0};
    auto_session struct session s = {0};
    struct command c = {0};
    struct option_def flags[MAX_OWN_FLAGS + ARRAY_LEN(common) + 1] = {0};
    size_t n = 0;
    while (n < MAX_OWN_FLAGS && d->own[n].name) {
        flags[n] = d->own[n];
        n++;
    }
    memcpy(flags + n, common, sizeof(common));
    if (parse(d, flags, argc, argv, &e) < 0)
        return usage_error(d->name, &e);
    if (given.help) {
        show_help(d, flags);
        return COMMAND_OK;
    }
    if (connect_to(&s, &c, &e) < 0)
        return command_fail(stderr, /* server= */ NULL, &e);
    return d->run(&c, &s);
}

static int complete(int argc, char **argv)
{
    auto_sb struct sb words = SB_INIT(MAX_COMPLETION_BYTES);
    completion_add((const char *const *)argv, (size_t)argc, &words);
    return fputs(sb_str(&words), stdout) < 0;
}

/* Without zeroing: jansson asks for millions of pieces when a long list is parsed, and fills them. */
static void *json_memory(size_t bytes)
{
    return xrealloc(/* p= */ NULL, bytes);
}

int main(int argc, char **argv)
{
    json_set_alloc_funcs(json_memory, free);
    const char *name = argc < 2 || argv[1][0] == '-' ? NULL : argv[1];
    if (!name)
        return run(&commands[0], argc, argv);
    if (strcmp(name, "version") == 0)
        return puts("kubectl-cleave " CLEAVE_VERSION) < 0;
    if (strcmp(name, "__complete") == 0)
        return complete(argc - 2, argv + 2);
    for (size_t i = 1; i < ARRAY_LEN(commands); i++)
        if (strcmp(name, commands[i].name) == 0)
            return run(&commands[i], argc - 1, argv + 1);
    auto_err struct err e = {0};
    (void)err_set(&e, ERR_INVALID, "unknown command \"%s\" for \"kubectl cleave\"", name);
    return usage_error(/* name= */ NULL, &e);
}
