/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/sb.h"

#include "scheduler/choice.h"

/*
 * What kube-scheduler asks an extender, and what it is answered (k8s.io/kube-scheduler/extender/v1
 * types.go). The keys are Go's field names, which Go itself reads in any case; so do we. Pure.
 */

/* A question's object. *ret is to be freed in any case. ERR_PROTOCOL. */
int extender_load(const char *body, size_t len, json_t **ret, struct err *e) MUST_CHECK;
/* Its member of this key, in any case; NULL: none. Borrowed. */
json_t *extender_member(json_t *object, const char *key);

struct filter_args {
    json_t *body; /* owned, as text: the rest borrows from them */
    char *text;
    json_t *pod;
    const char **names; /* of nodes; owned array */
    size_t n_names;
};

/* ERR_PROTOCOL: no JSON, or not of this shape. ERR_INVALID: it has nodes and no names of nodes: the
 * extender's configuration lacks nodeCacheCapable. *ret is to be freed in any case. */
int filter_args_parse(const char *body, size_t len, struct filter_args *ret,
                      struct err *e) MUST_CHECK;
void filter_args_done(struct filter_args *a);
AUTO_DEFINE(filter_args, struct filter_args, filter_args_done)
#define auto_filter_args AUTO(filter_args)

/* Appends the answer. */
void filter_result_write(const struct choice *c, struct sb *out);
/* Appends an answer to filter or bind that is an error, or for bind (NULL) success. */
void error_result_write(const char *error, struct sb *out);

struct bind_args {
    char *ns, *name, *uid, *node;
};

/* ERR_PROTOCOL. *ret is to be freed in any case. */
int bind_args_parse(const char *body, size_t len, struct bind_args *ret, struct err *e) MUST_CHECK;
void bind_args_done(struct bind_args *a);
AUTO_DEFINE(bind_args, struct bind_args, bind_args_done)
#define auto_bind_args AUTO(bind_args)
