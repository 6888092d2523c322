/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/scope.h"

#include "kubeclient/config.h"

/*
 * What proves who we are and whom we trust, kept fresh (client-go transport/token_source.go,
 * ca_rotation.go, cert_rotation.go, plugin/pkg/client/auth/exec): token file           read again
 * every 60 s (less 10 s leeway) and after a 401; unreadable or empty: the old one stays CA,
 * certificate, key read again every 5 min; what does not parse or fit together: the old ones stay
 *   plugin               asked again when its answer expires, and after a 401
 * Any thread; waiting for a plugin is under the scope, one thread at a time asks it.
 */
struct credentials;

/* Trust and identity of a connection; immutable and counted. A change of content is a new object,
 * so pointers tell whether a connection is still good. */
struct tls_material {
    int refs;       /* atomic */
    char *ca_pem;   /* NULL: the system's */
    char *cert_pem; /* NULL: no client certificate */
    char *key_pem;
};

struct tls_material *tls_material_ref(struct tls_material *m);
/* NULL allowed; returns NULL. */
struct tls_material *tls_material_unref(struct tls_material *m);

AUTO_DEFINE_PTR(tls_material, struct tls_material, tls_material_unref)
#define auto_tls_material AUTO_PTR(tls_material)

/* config and clock are borrowed. Reads the files once: ERR_NOT_FOUND, ERR_INVALID (no certificate
 * in it, key that does not fit). A token file that is missing is an error, too. */
int credentials_new(const struct kc_config *config, const struct clock *clock,
                    struct credentials **ret, struct err *e) MUST_CHECK;

/* What to use now: *ret_token (NULL: none) and *ret_tls are owned by the caller. Fails only where
 * nothing older can be used: the plugin's errors. */
int credentials_get(struct credentials *c, struct scope *s, char **ret_token,
                    struct tls_material **ret_tls, struct err *e) MUST_CHECK;

/* The server refused this token (401), or its certificate did not verify (token NULL): read again
 * at the next get. Returns whether that can change anything. */
bool credentials_reject(struct credentials *c, const char *token);

/* NULL allowed; returns NULL. */
struct credentials *credentials_free(struct credentials *c);
