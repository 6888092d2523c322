/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/scope.h"

#include "kubeclient/config.h"

/*
 * Our credentials and the trusted CA, kept fresh (client-go transport/token_source.go,
 * ca_rotation.go, cert_rotation.go, plugin/pkg/client/auth/exec):
 *
 *   token file            read again every 60 s (less 10 s leeway) and after a 401;
 *                         unreadable or empty: the old one stays
 *   CA, certificate, key  read again every 5 min; when they do not parse or fit together:
 *                         the old ones stay
 *   plugin                run again when its answer expires, and after a 401
 *
 * Any thread. Waiting for a plugin is under the scope; one thread at a time runs it.
 */
struct credentials;

/* CA and client certificate of a connection; immutable and counted. Changed contents become a new
 * object, so comparing pointers shows whether a connection is still good. */
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

/* config and clock are borrowed. Reads the files once: ERR_NOT_FOUND, ERR_INVALID (no certificate,
 * or a key of another one). A missing token file is an error too. */
int credentials_new(const struct kc_config *config, const struct clock *clock,
                    struct credentials **ret, struct err *e) MUST_CHECK;

/* The present credentials: *ret_token (NULL: none) and *ret_tls are owned by the caller. Fails only
 * when there is nothing older to use, with the plugin's error. */
int credentials_get(struct credentials *c, struct scope *s, char **ret_token,
                    struct tls_material **ret_tls, struct err *e) MUST_CHECK;

/* Reports that the server refused this token (401), or that its certificate did not verify (token
 * NULL): the next get reads the source again. True when that may give other credentials. */
bool credentials_reject(struct credentials *c, const char *token);

/* NULL allowed; returns NULL. */
struct credentials *credentials_free(struct credentials *c);
