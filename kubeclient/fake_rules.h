/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "kubeclient/client.h"

/* What an API server demands of objects and does to them on the way in; for the fake. Pure. */

/* Custom resources: their group is a domain that is not Kubernetes' own. */
bool fake_is_custom(const struct kc_resource *r);
/* Has it a status subresource? Does its metadata have a generation? */
bool fake_has_status(const struct kc_resource *r);
bool fake_has_generation(const struct kc_resource *r);
/* Do writes to its status take labels and annotations along? */
bool fake_status_takes_metadata(const struct kc_resource *r);
/* Does an update need a resourceVersion? (Strategy AllowUnconditionalUpdate.) */
bool fake_needs_version(const struct kc_resource *r);

/* "pods", "devices.gpu.cleave.dev": as error messages name a resource. Caller frees. */
char *fake_resource_name(const struct kc_resource *r);

/* An error as the server would answer it. Returns -kind. */
int fake_fail(struct err *e, int code, const char *reason, const char *cause, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Kind and apiVersion fit the resource, the name is a DNS subdomain and the target's, labels are
 * labels. 400 or 422. */
int fake_check_object(const struct kc_target *t, const json_t *obj, struct err *e) MUST_CHECK;

/* The object as it is stored first. serial makes uid and generated name. New reference. */
json_t *fake_make_new(const struct kc_target *t, const json_t *body, uint64_t serial,
                      int64_t now_wall_ms);

/* What an update from live to wanted may change: only status through /status, all but status
 * otherwise, nothing that the server keeps. generation is raised when it must be. 409 for another
 * version; another uid is 409 where the object is replaced, 422 where it is patched. *ret is a new
 * reference. */
int fake_make_updated(const struct kc_target *t, const json_t *live, const json_t *wanted,
                      bool replaces, json_t **ret, struct err *e) MUST_CHECK;

/* live with a deletionTimestamp. New reference. */
json_t *fake_make_deleting(const struct kc_resource *r, const json_t *live, int64_t now_wall_ms,
                           int64_t grace_s);

/* 409 unless the object has that uid and version (NULL: any). */
int fake_check_preconditions(const struct kc_target *t, const json_t *live, const char *uid,
                             const char *version, struct err *e) MUST_CHECK;

/* Has it a deletionTimestamp? Has it finalizers? */
bool fake_is_deleting(const json_t *obj);
bool fake_has_finalizers(const json_t *obj);
