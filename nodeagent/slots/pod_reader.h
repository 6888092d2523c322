/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "base/auto.h"
#include "base/heartbeat.h"
#include "base/scope.h"

#include "kubeclient/client.h"

/*
 * Reads single pods by name, because a slot's quota is in its pod and the kubelet reports only the
 * pod's name. One thread runs the reader and does all the blocking; the loop asks and takes the
 * answers. Nothing is watched, and nothing is kept.
 */
struct pod_reader;

/* Borrows kc. */
struct pod_reader *pod_reader_new(struct kc *kc);
/* Reports to beat when a request begins and when the reader waits. Call it before it runs.
 * Borrowed. */
void pod_reader_set_beat(struct pod_reader *r, struct heartbeat *beat);
/* Asks for a pod; it is read after the question: an earlier answer that was not taken yet, or is on
 * its way, is dropped. Questions that wait count once. False: too many are waiting. Never
 * blocks. */
bool pod_reader_ask(struct pod_reader *r, const char *ns, const char *name);
/* Readable while answers wait (an eventfd, emptied by pod_reader_take). */
int pod_reader_fd(const struct pod_reader *r);

struct pod_answer {
    char *ns, *name;
    json_t *pod;    /* the caller's alone; NULL: see err */
    struct err err; /* ERR_NOT_FOUND, … */
};
/* Takes the next answer. False: there is none. Free *ret with pod_answer_done. */
bool pod_reader_take(struct pod_reader *r, struct pod_answer *ret);
void pod_answer_done(struct pod_answer *a);
/* The uid under which the kubelet knows such a pod; NULL: it has none. Borrowed. */
const char *pod_answer_uid(const json_t *pod);
AUTO_DEFINE(pod_answer, struct pod_answer, pod_answer_done)
#define auto_pod_answer AUTO(pod_answer)

/* Reads until the scope ends. Blocks; one thread. */
int pod_reader_run(struct pod_reader *r, struct scope *s, struct err *e) MUST_CHECK;
/* Reads one pod without waiting; for tests. False: nothing was asked. */
bool pod_reader_step(struct pod_reader *r, struct scope *s);
/* NULL allowed; returns NULL. */
struct pod_reader *pod_reader_free(struct pod_reader *r);
AUTO_DEFINE_PTR(pod_reader, struct pod_reader, pod_reader_free)
#define auto_pod_reader AUTO_PTR(pod_reader)
