/* SPDX-License-Identifier: Apache-2.0 */
#include "service/metrics_access.h"

#include <string.h>

#include "base/clock.h"

int metrics_access_check(const struct metrics_access *a, bool *ret_token, struct err *e)
{
    bool token = strcmp(a->auth, "token") == 0;
    if (!token && strcmp(a->auth, "none") != 0)
        return err_set(e, ERR_INVALID, "--metrics-auth is \"%s\", neither none nor token", a->auth);
    if (!a->tls.cert != !a->tls.key)
        return err_set(e, ERR_INVALID,
                       "--metrics-tls-cert-file and --metrics-tls-key-file go together; %s is "
                       "missing",
                       a->tls.cert ? "the latter" : "the former");
    if (token && !a->tls.cert)
        return err_set(
            e, ERR_INVALID,
            "--metrics-auth=token takes --metrics-tls-cert-file and "
            "--metrics-tls-key-file: without TLS everybody on the network path could read the "
            "token");
    *ret_token = token;
    return 0;
}

int metrics_page(void *arg, struct sb *body)
{
    metrics_write(arg, body);
    return 200;
}

int metrics_gate_new(struct kc *kc, struct metrics *m, struct access_gate **ret, struct err *e)
{
    const struct access_gate_options o = {.kc = kc,
                                          .clk = clock_real(),
                                          .path = "/metrics",
                                          .metrics = m};
    return access_gate_new(&o, ret, e);
}
