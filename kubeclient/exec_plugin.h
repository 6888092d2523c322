/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/scope.h"

#include "kubeclient/config.h"

/*
 * Runs a credential plugin (client-go plugin/pkg/client/auth/exec): the request goes in through
 * KUBERNETES_EXEC_INFO, an ExecCredential comes out on standard output. Standard input is empty,
 * standard error is ours. The plugin's output never appears in errors.
 */
struct exec_credential {
    char *token;              /* NULL: none */
    char *cert_pem, *key_pem; /* both or none */
    int64_t expires_wall_ms;  /* INT64_MAX: never */
};

/* config holds the plugin and, if the plugin asks for it, the cluster. The plugin is killed when
 * the scope ends. ERR_NOT_FOUND: no such program; ERR_PROTOCOL: it failed, or printed no
 * ExecCredential; ERR_CANCELED, ERR_TIMEOUT. *ret is freed by exec_credential_done. */
int exec_plugin_run(const struct kc_config *config, struct scope *s, struct exec_credential *ret,
                    struct err *e) MUST_CHECK;

void exec_credential_done(struct exec_credential *c);

AUTO_DEFINE(exec_credential, struct exec_credential, exec_credential_done)
#define auto_exec_credential AUTO(exec_credential)
