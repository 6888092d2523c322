/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/completion.h"

#include <stdbool.h>
#include <string.h>

static const char *const verbs[] = {"doctor", "history", "plan", "top", "version", "why", NULL};
static const char *const formats[] = {"json", "yaml", NULL};
static const char *const none[] = {NULL};

static const struct {
    const char *verb; /* "": none was given */
    const char *flags[8];
} flags[] = {
    {"", {"--context", "--help", "--kubeconfig", "--node", "--output", "--watch", NULL}},
    {"doctor", {"--context", "--help", "--kubeconfig", "--output", NULL}},
    {"history", {"--context", "--help", "--kubeconfig", "--output", NULL}},
    {"plan", {"--context", "--filename", "--help", "--kubeconfig", "--output", NULL}},
    {"top", {"--context", "--help", "--kubeconfig", "--namespace", "--output", "--watch", NULL}},
    {"why", {"--context", "--help", "--kubeconfig", "--namespace", "--output", NULL}},
};

static bool is_one_of(const char *word, const char *a, const char *b)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0;
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
    const char *last = n ? words[n - 1] : "";
    const char *before = n > 1 ? words[n - 2] : "";
    const char *verb = n > 1 && words[0][0] != '-' ? words[0] : "";
    bool wants_file = is_one_of(before, "-f", "--filename") || strcmp(before, "--kubeconfig") == 0;
    if (is_one_of(before, "-o", "--output"))
        add_beginning(formats, last, ret);
    else if (last[0] == '-')
        add_beginning(flags_of(verb), last, ret);
    else if (n <= 1)
        add_beginning(verbs, last, ret);
    sb_add(ret, wants_file ? ":0\n" : ":4\n");
}
