/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/informer.h"
#include "nodeagent/loop/own_device.h"

/*
 * The Device.spec that the loop follows: that of the newest Device of this node that it has taken.
 * The informer's thread leaves each Device in a one-place mailbox; the loop takes it out when it is
 * ready, so that the spec changes only where the loop expects it.
 *
 * While the API server is away the Device does not come. After SPEC_GRACE_MS the source hands out
 * the spec that the agent before followed last (last_spec.h). What exists on the cards is offered
 * according to that spec, so that pods of a node that was rebooted find their devices again;
 * nothing is changed according to it.
 *
 * Threads: the informer's puts; every function below belongs to the loop's.
 */
struct spec_source;

/* Longer than a reachable API server takes to answer. */
#define SPEC_GRACE_MS 5000

/* Borrows all. devices watches the one Device (own_device_type). state_dir holds the last spec.
 * Call it before the informer runs, since it adds a handler. */
struct spec_source *spec_source_new(struct informer *devices, const char *state_dir,
                                    const struct clock *clk);
/* Readable when spec_source_take may have something; the loop empties it with the take. */
int spec_source_fd(const struct spec_source *s);
/* When spec_source_take has something by itself; INT64_MAX: never. */
int64_t spec_source_due_mono_ms(const struct spec_source *s);

/* The consequences of a Device that was taken. */
struct spec_news {
    bool changed;                     /* the spec may have another content */
    bool ordered;                     /* the spec was replaced while the agent watched */
    const struct device_spec *before; /* the spec until now; borrowed from `replaced` */
    struct object *replaced;
};
void spec_news_done(struct spec_news *n);
AUTO_DEFINE(spec_news, struct spec_news, spec_news_done)
#define auto_spec_news AUTO(spec_news)

/* Takes the newest Device out of the mailbox, and writes its spec down as the last one; or, when
 * none came in time, the last spec. False: there is neither. *ret is the caller's. */
bool spec_source_take(struct spec_source *s, struct spec_news *ret) MUST_CHECK;

/* The Device; NULL: there is none. Borrowed until the next take, as all that follows. */
const struct own_device *spec_source_device(const struct spec_source *s);
/* The spec; an empty one, which wants nothing, without a Device that can be read. */
const struct device_spec *spec_source_spec(const struct spec_source *s);
/* The want of this card; NULL: the spec does not list it. */
const struct device_want *spec_source_want(const struct spec_source *s, const char *uuid);
/* The Device's generation; 0: there is none. */
int64_t spec_source_generation(const struct spec_source *s);
/* True once it is known whether there is a Device. */
bool spec_source_is_seen(const struct spec_source *s);
/* True once the Device was seen or the last spec stands in for it: what exists may be offered. */
bool spec_source_may_offer(const struct spec_source *s);

/* NULL allowed; returns NULL. Only when the informer no longer runs. */
struct spec_source *spec_source_free(struct spec_source *s);
