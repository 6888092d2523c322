/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "base/clock.h"
#include "base/sb.h"
#include "base/scope.h"

#include "kubeclient/fake/fake.h"
#include "scheduler/view.h"

/* A model of an API server, whose Devices and pods a view follows. */
extern struct clock *town_clk;
extern struct scope *town_scope;
extern struct kc *town_kc;
extern struct view *town_view;
extern struct sb town_grown; /* the nodes that had more room, in order */

void town_set_up(void);
void town_tear_down(void);
/* What the API server has by now is seen. */
void town_see(void);

/* Cards of a node: those of the first kind give shares, the others give themselves. `more` are members
 * of the first one, with a comma before each. */
void town_node(const char *name, int fractional, int whole, const char *more);
/* A Node, with these members of metadata.annotations; one that is there gets them in addition. */
void town_say(const char *name, const char *annotations);
/* A pod of the namespace "ns" that the API server does not have, with the uid "uid-NAME", as JSON;
 * metadata.annotations and spec by their members. New reference. */
json_t *town_pod(const char *name, const char *annotations, const char *spec);
/* The API server has such a pod: as it is there, with the uid that it was given. New reference. */
json_t *town_create(const char *name, const char *annotations, const char *spec);
void town_delete(const char *pod);
/* A ResourceQuota of the namespace "ns", by the members of its spec.hard. */
void town_quota(const char *name, const char *hard);
void town_delete_quota(const char *name);
/* The annotations that are assumed for its Binding; NULL: none are. New reference. */
json_t *town_assumed(const char *uid, const char *node);
/* Binds a pod of the API server by what was assumed for it. */
void town_bind(const json_t *pod, const char *node);

#define LIMITS(limits)                                                                             \
    "\"containers\": [{\"name\": \"main\", \"resources\": {\"limits\": {" limits "}}}]"
#define PART(mib) LIMITS("\"nvidia.com/gpu\": \"1\", \"nvidia.com/gpumem\": \"" #mib "\"")
#define WHOLE(n)  LIMITS("\"nvidia.com/gpu\": \"" #n "\"")
