/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/completion.h"

#include <stdbool.h>
#include <string.h>

static const char *const verbs[] = {"doctor", "history", "plan", "top", "version", "why", NULL};
static const char *const formats[] = {"json", "yaml", NULL};
static const char *const none[] = {NULL};
static const char *const take_values[] =
    {"--context", "--filename", "--kubeconfig",      "--node", "--namespace", "--output", "-f",
     "-n",        "-o",         "--request-timeout", NULL};

#define COMMON "--context", "--help", "--kubeconfig", "--output", "--request-timeout"

static const struct {
    const char *verb; /* "": none was given */
    const char *flags[10];
} flags[] = {
    {"", {COMMON, "--all-namespaces", "--node", "--watch", NULL}},
    {"doctor", {COMMON, "--all-namespaces", NULL}},
    {"history", {COMMON, "--node", NULL}},
    {"plan", {COMMON, "--filename", NULL}},
    {"top", {COMMON, "--namespace", "--node", "--watch", NULL}},
    {"why", {COMMON, "--namespace", NULL}},
};

static bool is_in(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

static bool is_one_of(const char *word, const char *a, const char *b)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

/* A command line up to the word that is to be completed. */
struct line {
    const char *last, *before;
    const char *verb;  /* "": none */
    size_t n_operands; /* behind the verb */
};

static void take_word(struct line *l, const char *word)
{
    if (word[0] != '-' && !is_in(l->before, take_values)) {
        if (*l->verb)
            l->n_operands++;
        else
            l->verb = word;
    }
    l->before = word;
}

static struct line read_line(const char *const *words, size_t n)
{
    struct line l = {.last = n ? words[n - 1] : "", .before = "", .verb = ""};
    for (size_t i = 0; i + 1 < n; i++)
        take_word(&l, words[i]);
    return l;
}

enum completion_kind completion_kind_of(const char *const *words, size_t n)
{
    struct line l = read_line(words, n);
    if (is_one_of(l.before, "-n", "--namespace"))
        return COMPLETION_NAMESPACE;
    if (strcmp(l.before, "--context") == 0)
        return COMPLETION_CONTEXT;
    if (strcmp(l.before, "--node") == 0)
        return COMPLETION_NODE;
    if (l.last[0] == '-' || l.n_operands || is_in(l.before, take_values))
        return COMPLETION_WORDS;
    if (is_one_of(l.verb, "history", "top"))
        return COMPLETION_NODE;
    return strcmp(l.verb, "why") == 0 ? COMPLETION_POD : COMPLETION_WORDS;
}

static const char *const *flags_of(const char *verb)
{
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        if (strcmp(flags[i].verb, verb) == 0)
            return flags[i].flags;
    return none;
}

static void add_beginning(const char *const *list, const char *with, struct sb *ret)
{
    for (; *list; list++)
        if (strncmp(*list, with, strlen(with)) == 0)
            sb_addf(ret, "%s\n", *list);
}

void completion_add(const char *const *words, size_t n, struct sb *ret)
{
    struct line l = read_line(words, n);
    bool wants_file =
        is_one_of(l.before, "-f", "--filename") || strcmp(l.before, "--kubeconfig") == 0;
    if (is_one_of(l.before, "-o", "--output"))
        add_beginning(formats, l.last, ret);
    else if (is_in(l.before, take_values))
        ; /* names, which are asked for elsewhere, or anything */
    else if (l.last[0] == '-')
        add_beginning(flags_of(l.verb), l.last, ret);
    else if (!*l.verb)
        add_beginning(verbs, l.last, ret);
    sb_add(ret, wants_file ? ":0\n" : ":4\n");
}
