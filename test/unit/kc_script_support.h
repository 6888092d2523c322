/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"

#include "kubeclient/client.h"

/*
 * A client that follows a script: the n-th list or watch must ask what the n-th entry expects,
 * brings what it says and ends as it says. Events are written in a small language, separated by
 * blanks: +a@5  added a, version 5      ~a@6  modified      -a@7  deleted
 *     .@9   bookmark                !@9   bookmark that ends the initial events
 * A letter before the version is the uid ("+a@x5"); without one it is "u". A name that starts with
 * "bad", or a ? before a name ("-?a@7"), makes an object whose spec is a number.
 */
enum script_verb { SCRIPT_LIST, SCRIPT_WATCH, SCRIPT_STREAM };

struct script_call {
    enum script_verb verb;
    const char *from;    /* the resourceVersion asked for; NULL: none */
    int page_size;       /* lists */
    const char *brings;  /* events, or items as "+a@5"; NULL: nothing */
    const char *version; /* a list's own version */
    int64_t lasts_ms;    /* the clock moves by it before the end */
    struct err end;      /* kind 0: a clean end */
};

/* Borrows calls (ends with an entry of verb -1) and the fake clock. */
struct kc *kc_script_new(const struct script_call *calls, struct clock *clk);
/* How many entries were used; a call that differs from its entry fails the test at once. */
size_t kc_script_used(const struct kc *c);
/* Selectors of the last call, "" for none. */
const char *kc_script_fields(const struct kc *c);
const char *kc_script_labels(const struct kc *c);
/* timeoutSeconds of the last watch. */
int kc_script_timeout_s(const struct kc *c);
