/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"

#include "kubeclient/kubeconfig.h"

static int parse(const char *text, const char *context, struct kc_config *ret, struct err *e)
{
    return kubeconfig_parse(text, strlen(text), "/etc/kube", context, ret, e);
}

static const char full[] = //
    "apiVersion: v1\n"
    "kind: Config\n"
    "current-context: one\n"
    "preferences: {}\n"
    "contexts:\n"
    "- name: zero\n"
    "  context: {cluster: c0, user: u0}\n"
    "- name: one\n"
    "  context: {cluster: c1, user: u1, namespace: team}\n"
    "clusters:\n"
    "- name: c0\n"
    "  cluster: {server: 'http://127.0.0.1:8080/'}\n"
    "- name: c1\n"
    "  cluster:\n"
    "    server: https://api.example:6443/prefix//\n"
    "    certificate-authority: pki/ca.crt\n"
    "    tls-server-name: kubernetes\n"
    "    proxy-url: http://gateway.example:3128\n"
    "    insecure-skip-tls-verify: true\n"
    "users:\n"
    "- name: u0\n"
    "  user: {token: t0, tokenFile: /var/token}\n"
    "- name: u1\n"
    "  user:\n"
    "    client-certificate-data: LS0tLS1DRVJU\n"
    "    client-key: ../key.pem\n"
    "    exec:\n"
    "      apiVersion: client.authentication.k8s.io/v1\n"
    "      command: ./bin/login\n"
    "      args: [get, token]\n"
    "      env: [{name: A, value: b}, {name: EMPTY}]\n"
    "      provideClusterInfo: true\n"
    "      interactiveMode: Never\n";

Test(kubeconfig, every_field_is_read)
{
    auto_kc_config struct kc_config c = {0};
    auto_err struct err e = {0};
    cr_assert_eq(parse(full, NULL, &c, &e), 0, "%s", e.msg);
    cr_expect_str_eq(c.server, "https://api.example:6443/prefix");
    cr_expect_str_eq(c.ns, "team");
    cr_expect_str_eq(c.ca_file, "/etc/kube/pki/ca.crt");
    cr_expect_str_eq(c.tls_server_name, "kubernetes");
    cr_expect_str_eq(c.proxy_url, "http://gateway.example:3128");
    cr_expect(c.insecure_skip_tls_verify);
    cr_expect_str_eq(c.cert_pem, "-----CERT");
    cr_expect_str_eq(c.key_file, "/etc/kube/../key.pem");
    cr_expect_str_eq(c.exec.command, "/etc/kube/./bin/login");
    cr_expect_eq(c.exec.arg_count, 2);
    cr_expect_str_eq(c.exec.args[1], "token");
    cr_expect_eq(c.exec.env_count, 2);
    cr_expect_str_eq(c.exec.env[0].value, "b");
    cr_expect_null(c.exec.env[1].value);
    cr_expect(c.exec.provide_cluster_info);
}

Test(kubeconfig, another_context_can_be_named)
{
    auto_kc_config struct kc_config c = {0};
    auto_err struct err e = {0};
    cr_assert_eq(parse(full, "zero", &c, &e), 0, "%s", e.msg);
    cr_expect_str_eq(c.server, "http://127.0.0.1:8080");
    cr_expect_str_eq(c.token, "t0");
    cr_expect_str_eq(c.token_file, "/var/token");
    cr_expect_null(c.ns);
    cr_expect_null(c.exec.command);
}

Test(kubeconfig, copy_is_deep)
{
    auto_kc_config struct kc_config copy = {0};
    auto_err struct err e = {0};
    {
        auto_kc_config struct kc_config c = {0};
        cr_assert_eq(parse(full, NULL, &c, &e), 0, "%s", e.msg);
        kc_config_copy(&copy, &c);
    }
    cr_expect_str_eq(copy.exec.env[0].name, "A");
    cr_expect_str_eq(copy.server, "https://api.example:6443/prefix");
}

#define WITH(cluster, user)                                                                        \
    "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"                  \
    "clusters: [{name: c, cluster: {" cluster "}}]\nusers: [{name: u, user: {" user "}}]\n"

Test(kubeconfig, what_cannot_work_is_refused_by_name)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "kubeconfig"},
        {"{}", "no current-context"},
        {"current-context: x", "no context \"x\""},
        {"current-context: x\ncontexts: [{name: x, context: {cluster: c}}]", "names no cluster"},
        {"current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
         "clusters: [{name: c, cluster: {server: 'https://h'}}]",
         "names no user"},
        {WITH("", ""), "has no http or https server"},
        {WITH("server: 'ftp://h'", ""), "has no http or https server"},
        {WITH("server: 'https://h', certificate-authority-data: '***'", ""),
         "certificate-authority-data is not base64"},
        {WITH("server: 'https://h', certificate-authority-data: 'AAAA'", ""),
         "certificate-authority-data is not base64"},
        {WITH("server: 'https://h'", "client-certificate: c.pem"), "needs both"},
        {WITH("server: 'https://h'", "username: me"), "has a password"},
        {WITH("server: 'https://h'", "auth-provider: {name: gcp}"), "has an auth-provider"},
        {WITH("server: 'https://h'", "exec: {command: x}"), "apiVersion"},
        {WITH("server: 7", ""), "server"},
        {"clusters: 7\ncurrent-context: x", "clusters"},
        {"a: [", "kubeconfig"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_kc_config struct kc_config c = {0};
        auto_err struct err e = {0};
        cr_expect_eq(parse(rows[i].text, NULL, &c, &e), -ERR_INVALID, "%s", rows[i].text);
        cr_expect(e.msg && strstr(e.msg, rows[i].says), "%s: %s", rows[i].says, e.msg);
        cr_expect_null(c.server);
    }
}

Test(kubeconfig, user_may_be_left_out)
{
    auto_kc_config struct kc_config c = {0};
    auto_err struct err e = {0};
    cr_expect_eq(parse("current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
                       "clusters: [{name: c, cluster: {server: 'http://h'}}]\nusers: null",
                       NULL, &c, &e),
                 0, "%s", e.msg);
}

Test(kubeconfig, error_never_repeats_a_secret)
{
    auto_kc_config struct kc_config c = {0};
    auto_err struct err e = {0};
    cr_expect_lt(parse(WITH("server: 'https://h'", "client-key-data: 'c2VjcmV0!'"), NULL, &c, &e),
                 0);
    cr_expect_null(strstr(e.msg, "c2VjcmV0"));
}
