/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"
#include "base/xalloc.h"

#include "kubectl/command.h"
#include "kubectl/completion_names.h"
#include "kubectl/operand.h"
#include "kubectl/session.h"

/* The bounds of a completion: no person waits longer for words. */
enum { MAX_COMPLETION_BYTES = 65536, COMPLETION_MS = 1000 };

/* Where the agents are by default (config/namespace). */
#define AGENTS_NS "cleave-node"

/* The flags and the operand of the one command that a process runs. */
static struct given {
    struct session_flags session;
    const char *node, *file, *ns;
    bool help, watch, all_namespaces, has_node, has_file;
    const char *operand; /* NULL: none */
    const char *name;    /* the pod's, of the operand */
} given;

/* The flags that all commands have. */
static const struct option_def common[] = {
    {.name = "kubeconfig",
     .value = "PATH",
     .text = &given.session.kubeconfig,
     .help = "API server; else $KUBECONFIG, the pod's own, ~/.kube/config"},
    {.name = "context",
     .value = "NAME",
     .text = &given.session.context,
     .help = "context of the kubeconfig; else its current one"},
    {.name = "output",
     .letter = 'o',
     .value = "json|yaml",
     .text = &given.session.output,
     .help = "print a document, for programs"},
    {.name = "request-timeout",
     .value = "TIME",
     .text = &given.session.timeout,
     .help = "longest wait for one answer: 5s, 2m; 0: as if absent"},
    {.name = "help", .letter = 'h', .on = &given.help, .help = "show this"},
};

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

/* The namespace that -n names, else the other; -n "" counts as absent, as for kubectl. */
static const char *ns_or(const char *other)
{
    return given.ns && *given.ns ? given.ns : other;
}

static int run_why(const struct command *c, const struct session *s)
{
    const char *ns = ns_or(s->config.ns);
    return command_why(c, ns ? ns : "default", given.name);
}

static int run_top(const struct command *c, const struct session *s)
{
    const char *ns = ns_or(AGENTS_NS);
    (void)s;
    return given.watch ? command_top_watch(c, ns, given.node) : command_top(c, ns, given.node);
}

static int run_doctor(const struct command *c, const struct session *s)
{
    (void)s;
    return command_doctor(c);
}

static int run_history(const struct command *c, const struct session *s)
{
    (void)s;
    return command_history(c, given.node);
}

/* --- What an operand names --- */

/* The operand's own namespace counts as if -n had named it. */
static int take_pod(struct err *e)
{
    static char *ns; /* lives as long as `given` */
    TRY(operand_pod(given.operand, &ns, &given.name, e));
    if (ns && given.ns && strcmp(ns, given.ns) != 0)
        return err_set(e, ERR_INVALID, "%s is in another namespace than -n says, %s", given.operand,
                       given.ns);
    given.ns = ns ? ns : given.ns;
    return 0;
}

static int take_node(struct err *e)
{
    if (given.has_node)
        return err_set(e, ERR_INVALID, "--node and %s name two nodes", given.operand);
    given.node = given.operand;
    return 0;
}

/* The error for a file that stands without its flag, as people write it. */
static int take_no_file(struct err *e)
{
    return err_set(e, ERR_INVALID, "unexpected argument \"%s\": did you mean -f %s?", given.operand,
                   given.operand);
}

enum { MAX_OWN_FLAGS = 3 };

#define NODE_FLAG                                                                                  \
    {                                                                                              \
        .name = "node", .value = "NAME", .text = &given.node, .on = &given.has_node,               \
        .help = "only this node"                                                                   \
    }

/* A flag for the habit: its commands look at all namespaces anyway. */
#define ALL_FLAG                                                                                   \
    {                                                                                              \
        .name = "all-namespaces", .letter = 'A', .on = &given.all_namespaces,                      \
        .help = "all namespaces, as without it"                                                    \
    }

static const struct command_def {
    const char *name; /* NULL: the command without one */
    const char *words, *about;
    struct option_def own[MAX_OWN_FLAGS];
    int (*take)(struct err *e); /* reads given.operand; NULL: there is none */
    const char **needs;         /* what it cannot do without; NULL: nothing */
    const char *needs_words;
    int (*run)(const struct command *c, const struct session *s);
} commands[] = {
    {.words = "[--node NAME] [-w]",
     .about = "Shows the cluster's GPUs by node: how each card is cut or shared, which pods have "
              "what,\nand what is free. Changes nothing.",
     .own = {NODE_FLAG,
             {.name = "watch",
              .letter = 'w',
              .on = &given.watch,
              .help = "draw them anew as they change"},
             ALL_FLAG},
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
              .on = &given.has_file,
              .help = "GPUProfiles, MIGConfigs and Nodes, or a folder of such; - is stdin"}},
     .needs_words = "-f FILE",
     .take = take_no_file,
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
     .take = take_pod,
     .needs_words = "the pod's name",
     .needs = &given.name,
     .run = run_why},
    {.name = "top",
     .words = "[NODE] [-n NAMESPACE] [-w]",
     .about = "Shows what the cards do now, and which pod how much of it: use, memory, "
              "temperature, power.\nAsks the nodes' agents by a port-forward. Changes nothing.",
     .own = {{.name = "namespace",
              .letter = 'n',
              .value = "NAME",
              .text = &given.ns,
              .help = "of the agents; else " AGENTS_NS},
             {.name = "watch", .letter = 'w', .on = &given.watch, .help = "draw it anew each 15 s"},
             NODE_FLAG},
     .take = take_node,
     .run = run_top},
    {.name = "doctor",
     .words = "",
     .about = "Says what is not right in the cluster, and what mends it. Changes nothing.\n"
              "Exits with 0 if nothing was found, with 2 if something was, with 1 if it could not "
              "be\ntold.",
     .own = {ALL_FLAG},
     .run = run_doctor},
    {.name = "history",
     .words = "NODE",
     .about = "Shows what has changed on a node and its cards, the newest first: conditions with "
              "the\ntimes of their last change, and Events. Changes nothing.",
     .own = {NODE_FLAG},
     .take = take_node,
     .needs_words = "the node's name",
     .needs = &given.node,
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

/* The help of the command without a name lists all. */
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
    TRY(options_parse(flags, argc, argv, &given.operand, d->take != NULL, &n, e));
    if (given.help)
        return 0;
    if (given.operand && d->take)
        TRY(d->take(e));
    if (given.node)
        TRY(operand_node(given.node, &given.node, e));
    if (d->needs && (!*d->needs || !**d->needs))
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
    if (session_open(&given.session, &s, &c, &e) < 0)
        return command_fail(stderr, /* server= */ NULL, &e);
    return d->run(&c, &s);
}

/* The flags of all commands. */
static void all_flags(struct option_def ret[OPTIONS_MAX + 1])
{
    size_t n = ARRAY_LEN(common);
    memcpy(ret, common, sizeof(common));
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        for (const struct option_def *d = commands[i].own; d < commands[i].own + MAX_OWN_FLAGS; d++)
            if (d->name)
                ret[n++] = *d;
    ret[n] = (struct option_def){0};
}

/* The flags before the last word are taken as far as they can be read. A cluster that gives no
 * names in time is no error. */
static void add_names(enum completion_kind kind, int argc, char **argv, struct sb *ret)
{
    auto_err struct err e = {0};
    auto_session struct session s = {0};
    struct command c = {0};
    struct option_def all[OPTIONS_MAX + 1];
    size_t n;
    all_flags(all);
    bool is_whole = options_parse(all, argc - 1, argv, /* operands= */ NULL, 0, &n, &e) == 0;
    if (!is_whole)
        err_clear(&e);
    if (kind == COMPLETION_CONTEXT) {
        completion_contexts(given.session.kubeconfig, environ, argv[argc - 1], ret);
        return;
    }
    if (session_open(&given.session, &s, &c, &e) < 0)
        return;
    auto_scope struct scope *soon = scope_new(s.scope, COMPLETION_MS);
    const char *ns = ns_or(s.config.ns ? s.config.ns : "default");
    completion_names(s.kc, soon, kind, ns, argv[argc - 1], ret);
}

/* argv[0] is no word of the command line. */
static int complete(int argc, char **argv)
{
    auto_sb struct sb words = SB_INIT(MAX_COMPLETION_BYTES);
    const char *const *line = (const char *const *)argv + 1;
    size_t n = (size_t)argc - 1;
    enum completion_kind kind = completion_kind_of(line, n);
    if (kind != COMPLETION_WORDS)
        add_names(kind, argc, argv, &words);
    completion_add(line, n, &words);
    return fputs(sb_str(&words), stdout) < 0;
}

static int tell_version(void)
{
    return puts("kubectl-cleave " CLEAVE_VERSION) < 0;
}

/* Memory for jansson, not zeroed: it asks for millions of pieces when a long list is parsed, and
 * fills them. */
static void *json_memory(size_t bytes)
{
    return xrealloc(/* p= */ NULL, bytes);
}

/* Moves the command's name to the front of the flags before it. Returns it; NULL: there is none. */
static const char *take_verb(int argc, char **argv)
{
    struct option_def all[OPTIONS_MAX + 1];
    all_flags(all);
    int at = options_first_operand(all, argc, argv);
    if (at >= argc)
        return NULL;
    char *verb = argv[at];
    memmove(&argv[2], &argv[1], sizeof(*argv) * (size_t)(at - 1));
    return argv[1] = verb;
}

static const struct command_def *find_command(const char *name)
{
    for (size_t i = 1; i < ARRAY_LEN(commands); i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

/* `help COMMAND` is `COMMAND --help`. */
static const char *take_help(int *argc, char ***argv)
{
    given.help = true;
    (*argc)--;
    (*argv)++;
    return take_verb(*argc, *argv);
}

int main(int argc, char **argv)
{
    json_set_alloc_funcs(json_memory, free);
    if (argc > 1 && strcmp(argv[1], "__complete") == 0)
        return complete(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "--version") == 0)
        return tell_version();
    const char *name = take_verb(argc, argv);
    if (name && strcmp(name, "help") == 0)
        name = take_help(&argc, &argv);
    if (!name)
        return run(&commands[0], argc, argv);
    if (strcmp(name, "version") == 0)
        return tell_version();
    const struct command_def *d = find_command(name);
    if (d)
        return run(d, argc - 1, argv + 1);
    auto_err struct err e = {0};
    (void)err_set(&e, ERR_INVALID, "unknown command \"%s\" for \"kubectl cleave\"", name);
    return usage_error(/* name= */ NULL, &e);
}
