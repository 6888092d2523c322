/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

#include "base/clock.h"
#include "base/scope.h"

#include "kubeclient/client.h"
#include "kubeclient/pod_page.h"
#include "kubectl/screen.h"
#include "kubectl/unread.h"

/* The commands, the cluster and the outputs that they are given, and their exit statuses. */

/* As kubectl diff has it: 1 is the error, so that scripts tell it from a difference. */
enum command_exit { COMMAND_OK = 0, COMMAND_FAILED = 1, COMMAND_CHANGES = 2 /* or findings */ };

enum command_output { OUTPUT_TEXT, OUTPUT_JSON, OUTPUT_YAML };

/* pod_page_get with its way, or a test's. Any thread. */
typedef int command_page_fn(void *arg, struct scope *s, const struct pod_page *page, char **ret,
                            struct err *e);

struct command {
    struct kc *kc;
    command_page_fn *page;
    void *page_arg;
    struct scope *scope;
    const char *server; /* for messages */
    struct screen screen;
    enum command_output output;
    const struct clock *clock;
    int64_t redraw_ms; /* at most one picture in this time (redraw.h) */
    int64_t top_ms;    /* `top` draws one picture in this time */
    FILE *out, *err;
};

/* The value of -o; NULL: text. ERR_INVALID names what is allowed. */
int command_output_of(const char *word, enum command_output *ret, struct err *e) MUST_CHECK;
/* Prints the error; returns COMMAND_FAILED. server NULL: none was asked. */
int command_fail(FILE *err, const char *server, const struct err *e);
/* True for an empty name, which names nothing; prints so. what: "pod" */
bool command_is_unnamed(const struct command *c, const char *what, const char *name);
/* Prints what could not be read, as warnings. */
void command_notes(const struct command *c, const struct unread *u);
/* The document as -o asks. Caller frees. */
char *command_words(const struct command *c, const json_t *document);
/* Prints what is for stdout. COMMAND_FAILED when it cannot be written. */
int command_put(const struct command *c, const char *text);
/* Prints the document as -o asks. COMMAND_FAILED when it cannot be written. */
int command_print(const struct command *c, const json_t *document);
/* Prints the text. The same. */
int command_print_text(const struct command *c, const struct sb *text);

/* The bound of what one command prints. */
#define COMMAND_MAX_BYTES ((size_t)256 << 20)

/* `kubectl cleave plan`: what the objects of the file would do. path "-": stdin. */
int command_plan(const struct command *c, const char *path);
/* `kubectl cleave why`: why a pod gets no GPU, and the change of layout that would give it one. */
int command_why(const struct command *c, const char *ns, const char *pod);
/* `kubectl cleave`: the cards of all nodes, or of one. node NULL: all. */
int command_cards(const struct command *c, const char *node);
/* The same, drawn anew as they change, until the scope ends. */
int command_cards_watch(const struct command *c, const char *node);
/* `kubectl cleave doctor`: what is not right in the cluster, with remedies. */
int command_doctor(const struct command *c);
/* `kubectl cleave history`: what has changed on a node, the newest first. */
int command_history(const struct command *c, const char *node);
/* `kubectl cleave top`: what the cards of all nodes, or of one, do now. ns: of the agents. node
 * NULL: all. */
int command_top(const struct command *c, const char *ns, const char *node);
/* The same, drawn anew each top_ms, until the scope ends. */
int command_top_watch(const struct command *c, const char *ns, const char *node);
