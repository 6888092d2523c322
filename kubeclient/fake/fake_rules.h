/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "kubeclient/client.h"

/* An API server's checks and changes of objects on creation and update; for the fake. Pure. */

/* True for custom resources: those whose group is a domain that is not Kubernetes' own. */
bool fake_is_custom(const struct kc_resource *r);
/* True when it has a status subresource; when its metadata has a generation. */
bool fake_has_status(const struct kc_resource *r);
bool fake_has_generation(const struct kc_resource *r);
/* True when writes to its status also write labels and annotations. */
bool fake_status_takes_metadata(const struct kc_resource *r);
/* True when an update needs a resourceVersion. (Strategy AllowUnconditionalUpdate.) */
bool fake_needs_version(const struct kc_resource *r);

/* A resource's name in error messages: "pods", "devices.gpu.cleave.dev". Caller frees. */
char *fake_resource_name(const struct kc_resource *r);

/* An error as the server would answer it. Returns -kind. */
int fake_fail(struct err *e, int code, const char *reason, const char *cause, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* 404 for the target's object, as a server words it. Returns -kind. */
int fake_not_found(const struct kc_target *t, struct err *e);
/* True for a target that is an object's /status. */
bool fake_is_status(const struct kc_target *t);

/* Kind and apiVersion fit the resource, the name is a DNS subdomain and the target's, labels are
 * labels. 400 or 422. */
int fake_check_object(const struct kc_target *t, const json_t *obj, struct err *e) MUST_CHECK;

/* The object as it is stored first. serial makes uid and generated name. New reference. */
json_t *fake_make_new(const struct kc_target *t, const json_t *body, uint64_t serial,
                      int64_t now_wall_ms);

/* The object after an update from live to wanted: through /status only status changes, otherwise
 * all but status, and nothing that the server sets. generation is raised when the rules say so. 409
 * for another version; another uid is 409 where the object is replaced, 422 where it is patched.
 * *ret is a new reference. */
int fake_make_updated(const struct kc_target *t, const json_t *live, const json_t *wanted,
                      bool replaces, json_t **ret, struct err *e) MUST_CHECK;

/* live with a deletionTimestamp. New reference. */
json_t *fake_make_deleting(const struct kc_resource *r, const json_t *live, int64_t now_wall_ms,
                           int64_t grace_s);

/* 409 unless the object has that uid and version (NULL: any). */
int fake_check_preconditions(const struct kc_target *t, const json_t *live, const char *uid,
                             const char *version, struct err *e) MUST_CHECK;

/* True when it has a deletionTimestamp; when it has finalizers. */
bool fake_is_deleting(const json_t *obj);
bool fake_has_finalizers(const json_t *obj);
