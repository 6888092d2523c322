/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "scheduler/certificate_plan.h"

/* The webhook's Secret and MutatingWebhookConfiguration, as the API has them: what of them counts for
 * the plan, and its steps as changes of them. Pure. */

/* Either object may be NULL: there is none. A configuration without webhooks is as good as none.
 * settled_ms stays 0. *ret is overwritten; free it with certificate_seen_done. */
void certificate_view(const json_t *secret, const json_t *configuration, const char *host,
                      struct certificate_seen *ret);

/* CERTIFICATE_MAKE: a Secret gets this pair as its next. */
void certificate_put_next(json_t *secret, const struct tls_pair *p);
/* CERTIFICATE_PROMOTE: its next, which it has, becomes its current, with these old ones ("": none). */
void certificate_promote(json_t *secret, const char *old);
/* CERTIFICATE_ANNOUNCE: all webhooks of a configuration get this bundle. */
void certificate_announce(json_t *configuration, const char *bundle);
