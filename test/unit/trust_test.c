/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <curl/curl.h>
#include <errno.h>
#include <openssl/pem.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "kubeclient/http.h"
#include "test/unit/api_server_support.h"
#include "test/unit/pki_support.h"

/*
 * Whom the client trusts and what it takes from its surroundings: the machine's certificate store,
 * the environment, files in the home folder, what a server's headers ask for.
 */

static const struct kc_resource nodes = {"", "v1", "nodes", "Node", false};
static const struct kc_target node = {.res = &nodes, .name = "n"};

#define TOKEN "a-token-that-nobody-else-gets"

/* A TLS server whose certificate is of ca.crt, with any number of answers. */
struct rig {
    struct pki *pki;
    struct api_server *srv;
    struct scope *s;
    struct kc_config config; /* to that server, with a token, without a CA */
};

static struct rig rig_new(void)
{
    struct rig r = {.pki = pki_new(), .s = scope_new(NULL, 120000)};
    auto_free char *cert = pki_path(r.pki, "server.crt");
    auto_free char *key = pki_path(r.pki, "server.key");
    r.srv = api_server_new(&(struct api_server_opts){.cert_file = cert, .key_file = key});
    api_server_add(r.srv, &(struct api_answer){.body = "{}", .times = -1});
    r.config.server = xstrdup(api_server_url(r.srv));
    r.config.token = xstrdup(TOKEN);
    return r;
}

static void rig_done(struct rig *r)
{
    (void)api_server_free(r->srv);
    kc_config_done(&r->config);
    (void)scope_free(r->s);
    (void)pki_free(r->pki);
}
#define auto_rig __attribute__((cleanup(rig_done)))

static struct kc *client(const struct kc_config *config)
{
    auto_err struct err e = {0};
    struct kc *kc = NULL;
    cr_assert_eq(kc_http_new(config, &(struct kc_http_opts){.retry_unit_ms = 1}, &kc, &e), 0, "%s",
                 e.msg);
    return kc;
}

static int get_once(struct rig *r, struct err *e)
{
    auto_kc struct kc *kc = client(&r->config);
    return kc_get(kc, r->s, &node, NULL, e);
}

/* ---- the machine's certificate store ---- */

/* A file system view of this process's own. Needs root or user namespaces. */
static bool leave_the_others(void)
{
    if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return false;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* Makes a certificate one that a folder of authorities has, by the names that OpenSSL looks for. */
static void add_to_store(const char *folder, const char *path)
{
    auto_file FILE *f = fopen(path, "re");
    cr_assert_not_null(f);
    X509 *cert = PEM_read_X509(f, NULL, NULL, NULL);
    cr_assert_not_null(cert);
    auto_free char *link = xasprintf("%s/%08lx.0", folder, X509_subject_name_hash(cert));
    X509_free(cert);
    cr_assert_eq(symlink(path, link), 0, "%s", strerror(errno));
}

/* From here on the machine trusts the authority of the rig's server. False: cannot be tried here.
 */
static bool trust_on_this_machine(struct rig *r)
{
    const char *store = curl_version_info(CURLVERSION_NOW)->capath;
    if (!store || !leave_the_others())
        return false;
    auto_free char *folder = pki_path(r->pki, "");
    auto_free char *ca = pki_path(r->pki, "ca.crt");
    add_to_store(folder, ca);
    /* Beside the folder there is a file of all authorities, on Debian in that folder. */
    auto_free char *all = pki_path(r->pki, "ca-certificates.crt");
    cr_assert_eq(symlink(ca, all), 0);
    return mount(folder, store, NULL, MS_BIND, NULL) == 0;
}

Test(trust, an_authority_of_the_machine_is_not_the_clusters)
{
    /* Before any thread is started: a namespace is not left by a process of several. */
    struct rig r = {.pki = pki_new()};
    bool can = trust_on_this_machine(&r);
    struct pki *store = r.pki;
    if (!can) {
        (void)pki_free(store);
        cr_skip_test("this takes root or user namespaces, and a libcurl with a folder of CAs");
    }
    auto_err struct err e = {0};
    auto_free char *cert = pki_path(store, "server.crt");
    auto_free char *key = pki_path(store, "server.key");
    r.srv = api_server_new(&(struct api_server_opts){.cert_file = cert, .key_file = key});
    r.s = scope_new(NULL, 120000);
    r.config = (struct kc_config){.server = xstrdup(api_server_url(r.srv)),
                                  .token = xstrdup(TOKEN),
                                  .ca_file = pki_path(store, "other-ca.crt")};
    api_server_add(r.srv, &(struct api_answer){.body = "{}", .times = -1});
    cr_expect_eq(get_once(&r, &e), -ERR_UNAVAILABLE);
    cr_expect_eq(api_server_count(r.srv), 0, "the token was sent to a stranger");
    /* A kubeconfig without a CA trusts the machine's, as client-go does: and so the store is one.
     */
    xstr_set(&r.config.ca_file, NULL);
    cr_expect_eq(get_once(&r, &e), 0, "%s", e.msg);
    rig_done(&r);
}

Test(trust, an_authority_that_the_environment_names_is_not_the_clusters)
{
    auto_rig struct rig r = rig_new();
    auto_err struct err e = {0};
    auto_free char *ca = pki_path(r.pki, "ca.crt");
    auto_free char *folder = pki_path(r.pki, "");
    add_to_store(folder, ca);
    (void)setenv("SSL_CERT_FILE", ca, 1);
    (void)setenv("SSL_CERT_DIR", folder, 1);
    (void)setenv("CURL_CA_BUNDLE", ca, 1);
    r.config.ca_file = pki_path(r.pki, "other-ca.crt");
    cr_expect_eq(get_once(&r, &e), -ERR_UNAVAILABLE);
    cr_expect_eq(api_server_count(r.srv), 0);
}

Test(trust, a_ca_file_that_is_missing_or_empty_does_not_mean_the_machines)
{
    auto_rig struct rig r = rig_new();
    auto_err struct err e = {0};
    struct kc *kc = NULL;
    r.config.ca_file = pki_path(r.pki, "nobody-wrote-this.crt");
    cr_expect_eq(kc_http_new(&r.config, NULL, &kc, &e), -ERR_NOT_FOUND);
    cr_assert_eq(file_write_atomic(r.config.ca_file, "\n", 1, 0600, &e), 0);
    cr_expect_eq(kc_http_new(&r.config, NULL, &kc, &e), -ERR_INVALID);
}

/* ---- proxies ---- */

/* The request that the proxy got instead of a server that cannot be reached without it. */
static const struct api_request *ask_through(struct rig *r, struct api_server *proxy,
                                             const char *server)
{
    auto_err struct err e = {0};
    xstr_set(&r->config.server, server);
    cr_expect_lt(get_once(r, &e), 0);
    cr_assert_geq(api_server_count(proxy), 1);
    return api_server_request(proxy, 0);
}

Test(trust, a_proxy_of_the_environment_learns_the_server_and_no_token)
{
    auto_rig struct rig r = rig_new();
    struct api_server *proxy = api_server_new(NULL);
    api_server_add(proxy, &(struct api_answer){.status = 403, .times = -1});
    (void)setenv("https_proxy", api_server_url(proxy), 1);
    r.config.ca_file = pki_path(r.pki, "ca.crt");
    const struct api_request *got = ask_through(&r, proxy, "https://api.cleave.test:6443");
    cr_expect_str_eq(got->method, "CONNECT");
    cr_expect_str_eq(got->target, "api.cleave.test:6443");
    cr_expect_null(strstr(got->headers, TOKEN), "%s", got->headers);
    (void)api_server_free(proxy);
}

Test(trust, a_proxy_of_the_environment_is_not_for_this_machine)
{
    auto_rig struct rig r = rig_new();
    auto_err struct err e = {0};
    struct api_server *proxy = api_server_new(NULL);
    (void)setenv("https_proxy", api_server_url(proxy), 1);
    (void)setenv("all_proxy", api_server_url(proxy), 1);
    r.config.ca_file = pki_path(r.pki, "ca.crt");
    cr_expect_eq(get_once(&r, &e), 0, "%s", e.msg);
    cr_expect_eq(api_server_count(proxy), 0);
    (void)api_server_free(proxy);
}

Test(trust, a_name_that_begins_like_this_machine_is_reached_through_the_proxy)
{
    static const char *const others[] = {"127.0.0.1.example.com", "127.example.com",
                                         "localhost.example.com", "localhosts", "[::1:2]"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        auto_rig struct rig r = rig_new();
        struct api_server *proxy = api_server_new(NULL);
        api_server_add(proxy, &(struct api_answer){.status = 403, .times = -1});
        (void)setenv("https_proxy", api_server_url(proxy), 1);
        r.config.ca_file = pki_path(r.pki, "ca.crt");
        auto_free char *server = xasprintf("https://%s:6443", others[i]);
        auto_free char *target = xasprintf("%s:6443", others[i]);
        const struct api_request *got = ask_through(&r, proxy, server);
        cr_expect_str_eq(got->target, target);
        (void)api_server_free(proxy);
    }
}

/* No server listens there: what is seen is that the proxy was not asked. */
Test(trust, every_name_of_this_machine_is_reached_without_the_proxy)
{
    static const char *const names[] = {"127.0.0.1:1", "127.255.255.254:1", "localhost:1",
                                        "LOCALHOST:1", "[::1]:1",           "[::1]"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        auto_rig struct rig r = rig_new();
        auto_err struct err e = {0};
        struct api_server *proxy = api_server_new(NULL);
        api_server_add(proxy, &(struct api_answer){.status = 403, .times = -1});
        (void)setenv("https_proxy", api_server_url(proxy), 1);
        r.config.ca_file = pki_path(r.pki, "ca.crt");
        free(r.config.server);
        r.config.server = xasprintf("https://%s", names[i]);
        cr_expect_lt(get_once(&r, &e), 0, "%s", names[i]);
        cr_expect_eq(api_server_count(proxy), 0, "%s", names[i]);
        (void)api_server_free(proxy);
    }
}

/* ---- what libcurl could take from files and headers ---- */

Test(trust, passwords_in_the_home_folder_are_not_sent)
{
    auto_rig struct rig r = rig_new();
    auto_err struct err e = {0};
    auto_free char *home = pki_path(r.pki, "");
    auto_free char *netrc = pki_path(r.pki, "_netrc");
    auto_free char *link = pki_path(r.pki, ".netrc");
    static const char text[] = "machine 127.0.0.1 login someone password something\n";
    cr_assert_eq(file_write_atomic(netrc, text, strlen(text), 0600, &e), 0, "%s", e.msg);
    cr_assert_eq(symlink(netrc, link), 0);
    (void)setenv("HOME", home, 1);
    (void)setenv("NETRC", netrc, 1);
    r.config.ca_file = pki_path(r.pki, "ca.crt");
    xstr_set(&r.config.token, NULL);
    cr_expect_eq(get_once(&r, &e), 0, "%s", e.msg);
    cr_expect_null(api_request_header(api_server_request(r.srv, 0), "Authorization"));
    (void)unlink(link);
}

/* Neither a cookie is kept, nor another place gone to (RFC 7838, RFC 6797), nor a password tried.
 */
Test(trust, headers_of_an_answer_change_nothing_about_the_next_request)
{
    auto_err struct err e = {0};
    struct api_server *elsewhere = api_server_new(NULL);
    struct api_server *srv = api_server_new(NULL);
    struct scope *s = scope_new(NULL, 120000);
    const char *port = strrchr(api_server_url(elsewhere), ':');
    auto_free char *headers = xasprintf(
        "Set-Cookie: session=1\r\nAlt-Svc: h2=\"127.0.0.1%s\", http/1.1=\"127.0.0.1%s\"\r\n"
        "Strict-Transport-Security: max-age=31536000\r\nRefresh: 0; url=%s\r\n"
        "WWW-Authenticate: Negotiate\r\nContent-Location: %s\r\n",
        port, port, api_server_url(elsewhere), api_server_url(elsewhere));
    api_server_add(srv, &(struct api_answer){.headers = headers, .body = "{}", .times = -1});
    struct kc_config config = {.server = xstrdup(api_server_url(srv)), .token = xstrdup(TOKEN)};
    struct kc *kc = client(&config);
    for (int i = 0; i < 2; i++)
        cr_expect_eq(kc_get(kc, s, &node, NULL, &e), 0, "%s", e.msg);
    cr_expect_eq(api_server_count(srv), 2);
    cr_expect_eq(api_server_count(elsewhere), 0);
    cr_expect_null(api_request_header(api_server_request(srv, 1), "Cookie"));
    (void)kc_free(kc);
    kc_config_done(&config);
    (void)scope_free(s);
    (void)api_server_free(srv);
    (void)api_server_free(elsewhere);
}
