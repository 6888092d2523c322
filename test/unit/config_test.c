/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "kubeclient/config.h"

static int parse(const char *text, const char *context, struct kc_config *ret, struct err *e)
{
    return kc_config_parse(text, strlen(text), "/etc/kube", context, ret, e);
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

Test(config, every_field_is_read)
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

Test(config, another_context_can_be_named)
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

Test(config, copy_is_deep)
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

Test(config, what_cannot_work_is_refused_by_name)
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

Test(config, user_may_be_left_out)
{
    auto_kc_config struct kc_config c = {0};
    auto_err struct err e = {0};
    cr_expect_eq(parse("current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
                       "clusters: [{name: c, cluster: {server: 'http://h'}}]\nusers: null",
                       NULL, &c, &e),
                 0, "%s", e.msg);
}

Test(config, error_never_repeats_a_secret)
{
    auto_kc_config struct kc_config c = {0};
    auto_err struct err e = {0};
    cr_expect_lt(parse(WITH("server: 'https://h'", "client-key-data: 'c2VjcmV0!'"), NULL, &c, &e),
                 0);
    cr_expect_null(strstr(e.msg, "c2VjcmV0"));
}

/* ---- files and the environment ---- */

static char *write_file(const char *folder, const char *name, const char *text)
{
    auto_err struct err e = {0};
    char *path = xasprintf("%s/%s", folder, name);
    cr_assert_eq(file_write_atomic(path, text, strlen(text), 0600, &e), 0, "%s", e.msg);
    return path;
}

struct folder {
    char path[32];
};

static struct folder folder_new(void)
{
    struct folder f = {"/tmp/cleave-test-XXXXXX"};
    cr_assert_not_null(mkdtemp(f.path));
    return f;
}

static void folder_done(struct folder *f)
{
    static const char *const names[] = {"token", "ca.crt", "namespace", "config", ".kube/config"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        auto_free char *path = xasprintf("%s/%s", f->path, names[i]);
        (void)unlink(path);
    }
    auto_free char *kube = xasprintf("%s/.kube", f->path);
    (void)rmdir(kube);
    (void)rmdir(f->path);
}
#define auto_folder __attribute__((cleanup(folder_done)))

static char *entry(const char *name, const char *value)
{
    return xasprintf("%s=%s", name, value);
}

Test(config, pod_is_recognised_by_its_environment)
{
    auto_folder struct folder f = folder_new();
    auto_free char *token = write_file(f.path, "token", "abc\n");
    auto_free char *ca = write_file(f.path, "ca.crt", "x");
    free(write_file(f.path, "namespace", "cleave-system\n"));
    char host[] = "KUBERNETES_SERVICE_HOST=fd00::1";
    char port[] = "KUBERNETES_SERVICE_PORT=443";
    char *env[] = {host, port, NULL};
    auto_kc_config struct kc_config c = {0};
    auto_err struct err e = {0};
    cr_assert_eq(kc_config_in_cluster(env, f.path, &c, &e), 0, "%s", e.msg);
    cr_expect_str_eq(c.server, "https://[fd00::1]:443");
    cr_expect_str_eq(c.ns, "cleave-system");
    cr_expect_str_eq(c.token_file, token);
    cr_expect_str_eq(c.ca_file, ca);
    char *outside[] = {NULL};
    auto_kc_config struct kc_config none = {0};
    cr_expect_eq(kc_config_in_cluster(outside, f.path, &none, &e), -ERR_NOT_FOUND);
}

#define SERVER(url)                                                                                \
    "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"                           \
    "clusters: [{name: c, cluster: {server: '" url "'}}]\n"

Test(config, flag_wins_over_environment_and_home)
{
    auto_folder struct folder f = folder_new();
    auto_free char *kube = xasprintf("%s/.kube", f.path);
    cr_assert_eq(mkdir(kube, 0700), 0);
    auto_free char *own = write_file(f.path, ".kube/config", SERVER("http://home"));
    auto_free char *other = write_file(f.path, "config", SERVER("http://other"));
    auto_free char *home = entry("HOME", f.path);
    auto_free char *listed = xasprintf("KUBECONFIG=/nowhere/at/all::%s", other);
    char *only_home[] = {home, NULL};
    char *both[] = {home, listed, NULL};
    static const struct {
        bool flag, listed;
        const char *server;
    } rows[] = {{true, true, "http://home"},
                {false, true, "http://other"},
                {false, false, "http://home"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_kc_config struct kc_config c = {0};
        auto_err struct err e = {0};
        cr_assert_eq(kc_config_discover(rows[i].flag ? own : NULL,
                                        rows[i].listed ? both : only_home, &c, &e),
                     0, "%s", e.msg);
        cr_expect_str_eq(c.server, rows[i].server);
    }
}

Test(config, nothing_to_go_by_is_not_found)
{
    auto_kc_config struct kc_config c = {0};
    auto_err struct err e = {0};
    char *none[] = {NULL};
    cr_expect_eq(kc_config_discover(NULL, none, &c, &e), -ERR_NOT_FOUND);
    cr_expect_eq(kc_config_discover("/nowhere/config", none, &c, &e), -ERR_NOT_FOUND);
}

Test(config, another_context_can_be_asked_for_and_is_not_the_pods)
{
    auto_folder struct folder f = folder_new();
    auto_free char *path = write_file(
        f.path, "config",
        "current-context: x\n"
        "contexts: [{name: x, context: {cluster: c}}, {name: y, context: {cluster: d}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://c'}},"
        " {name: d, cluster: {server: 'http://d'}}]\n");
    auto_free char *listed = entry("KUBECONFIG", path);
    char in_pod[] = "KUBERNETES_SERVICE_HOST=10.0.0.1";
    char *listed_only[] = {listed, NULL};
    char *pod_only[] = {in_pod, NULL};
    auto_err struct err e = {0};
    auto_kc_config struct kc_config c = {0};
    auto_kc_config struct kc_config d = {0};
    cr_assert_eq(kc_config_discover_context(NULL, "y", listed_only, &d, &e), 0, "%s", e.msg);
    cr_expect_str_eq(d.server, "http://d");
    cr_expect(kc_config_discover_context(path, "z", listed_only, &c, &e) < 0);
    cr_expect_not_null(strstr(err_msg(&e), "z"), "%s", err_msg(&e));
    cr_expect_eq(kc_config_discover_context(NULL, "y", pod_only, &c, NULL), -ERR_NOT_FOUND);
}

static void note_context(void *arg, const char *name)
{
    char *names = arg;
    size_t len = strlen(names);
    (void)snprintf(names + len, 64 - len, "%s ", name);
}

static void expect_contexts(const char *path, const char *variable, const char *value,
                            const char *names)
{
    char got[64] = "";
    auto_free char *set = entry(variable, value);
    char *env[] = {set, NULL};
    cr_expect_eq(kc_config_contexts(path, env, note_context, got, NULL),
                 *names ? 0 : -ERR_NOT_FOUND);
    cr_expect_str_eq(got, names);
}

Test(config, the_contexts_are_those_of_the_file_that_is_taken)
{
    auto_folder struct folder f = folder_new();
    auto_free char *kube = xasprintf("%s/.kube", f.path);
    cr_assert_eq(mkdir(kube, 0700), 0);
    free(write_file(f.path, ".kube/config", "{contexts: [{name: home}]}"));
    auto_free char *path = write_file(f.path, "k", "{contexts: [{name: east}, {name: west}]}");
    expect_contexts(path, "HOME", f.path, "east west ");
    expect_contexts(NULL, "KUBECONFIG", path, "east west ");
    expect_contexts(NULL, "HOME", f.path, "home ");
    expect_contexts(NULL, "KUBECONFIG", "/nowhere", "");
    expect_contexts(NULL, "PATH", "/bin", "");
}

/* Another cluster than the one that was meant would be worse. */
Test(config, a_list_of_files_that_are_not_there_is_told_and_not_passed_over)
{
    auto_folder struct folder f = folder_new();
    auto_free char *kube = xasprintf("%s/.kube", f.path);
    cr_assert_eq(mkdir(kube, 0700), 0);
    free(write_file(f.path, ".kube/config", SERVER("http://home")));
    auto_free char *home = entry("HOME", f.path);
    auto_free char *nowhere = xasprintf("%s/nowhere", f.path);
    auto_free char *listed = entry("KUBECONFIG", nowhere);
    auto_free char *words = xasprintf("%s does not exist", nowhere);
    char *both[] = {home, listed, NULL};
    auto_kc_config struct kc_config c = {0};
    auto_err struct err e = {0};
    cr_expect_eq(kc_config_discover(NULL, both, &c, &e), -ERR_NOT_FOUND);
    cr_expect_not_null(strstr(err_msg(&e), words), "%s", err_msg(&e));
}
