/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "kubeclient/config_source.h"

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

Test(config_source, pod_is_recognised_by_its_environment)
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

Test(config_source, flag_wins_over_environment_and_home)
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

Test(config_source, nothing_to_go_by_is_not_found)
{
    auto_kc_config struct kc_config c = {0};
    auto_err struct err e = {0};
    char *none[] = {NULL};
    cr_expect_eq(kc_config_discover(NULL, none, &c, &e), -ERR_NOT_FOUND);
    cr_expect_eq(kc_config_discover("/nowhere/config", none, &c, &e), -ERR_NOT_FOUND);
}

Test(config_source, another_context_can_be_asked_for_and_is_not_the_pods)
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

Test(config_source, the_contexts_are_those_of_the_file_that_is_taken)
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
Test(config_source, a_list_of_files_that_are_not_there_is_told_and_not_passed_over)
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
