/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "base/auto.h"
#include "base/heartbeat.h"
#include "base/scope.h"

#include "kubeclient/client.h"

/*
 * Reads single pods by name: what a slot is to mean stands in its pod, and the kubelet tells the
 * name alone. One thread runs it and does all the blocking; the loop asks and takes. Nothing is
 * watched and nothing kept.
 */
struct pod_reader;

/* Borrows kc. */
struct pod_reader *pod_reader_new(struct kc *kc);
/* Says to beat when it begins a request and when it waits. Before it runs. Borrowed. */
void pod_reader_set_beat(struct pod_reader *r, struct heartbeat *beat);
/* Asks for a pod, once however often it is asked for before the answer. False: too many wait. Never
 * blocks. */
bool pod_reader_ask(struct pod_reader *r, const char *ns, const char *name);
/* Readable while answers wait (an eventfd, emptied by pod_reader_take). */
int pod_reader_fd(const struct pod_reader *r);

struct pod_answer {
    char *ns, *name;
    json_t *pod;    /* NULL: err says why. Nobody else has it */
    struct err err; /* ERR_NOT_FOUND, … */
};
/* The next answer. False: there is none. *ret is freed with pod_answer_done. */
bool pod_reader_take(struct pod_reader *r, struct pod_answer *ret);
void pod_answer_done(struct pod_answer *a);
AUTO_DEFINE(pod_answer, struct pod_answer, pod_answer_done)
#define auto_pod_answer AUTO(pod_answer)

/* Reads until the scope ends. Blocks; one thread. */
int pod_reader_run(struct pod_reader *r, struct scope *s, struct err *e) MUST_CHECK;
/* One pod without waiting; for tests. False: nobody asks. */
bool pod_reader_step(struct pod_reader *r, struct scope *s);
/* NULL allowed; returns NULL. */
struct pod_reader *pod_reader_free(struct pod_reader *r);
AUTO_DEFINE_PTR(pod_reader, struct pod_reader, pod_reader_free)
#define auto_pod_reader AUTO_PTR(pod_reader)
