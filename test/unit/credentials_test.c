/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "kubeclient/credentials.h"
#include "kubeclient/http.h"
#include "test/unit/api_server_support.h"
#include "test/unit/pki_support.h"

static const struct kc_resource nodes = {"", "v1", "nodes", "Node", false};
static const struct kc_target node = {.res = &nodes, .name = "n"};

/* A folder with a small PKI, and a clock that stands still. */
struct rig {
    struct pki *pki;
    struct clock *clock;
    struct scope *s;
};

static struct rig rig_new(void)
{
    return (struct rig){.pki = pki_new(),
                        .clock = clock_fake_new(1700000000000),
                        .s = scope_new(NULL, 120000)};
}

static void rig_done(struct rig *r)
{
    (void)scope_free(r->s);
    (void)clock_free(r->clock);
    (void)pki_free(r->pki);
}
#define auto_rig __attribute__((cleanup(rig_done)))

static void put(const char *path, const char *text)
{
    auto_err struct err e = {0};
    cr_assert_eq(file_write_atomic(path, text, strlen(text), 0600, &e), 0, "%s", e.msg);
}

static void copy(const char *from, const char *to)
{
    auto_err struct err e = {0};
    auto_free char *text = NULL;
    cr_assert_eq(file_read(from, 1 << 20, &text, NULL, &e), 0, "%s", e.msg);
    put(to, text);
}

static struct credentials *credentials(const struct rig *r, const struct kc_config *config)
{
    auto_err struct err e = {0};
    struct credentials *c = NULL;
    cr_assert_eq(credentials_new(config, r->clock, &c, &e), 0, "%s", e.msg);
    return c;
}

static void expect_token(struct rig *r, struct credentials *c, const char *want)
{
    auto_err struct err e = {0};
    auto_free char *token = NULL;
    auto_tls_material struct tls_material *tls = NULL;
    cr_assert_eq(credentials_get(c, r->s, &token, &tls, &e), 0, "%s", e.msg);
    cr_expect_str_eq(token, want);
}

/* Whether the material is still the one given; *current is replaced by what it is now. */
static bool tls_changed(struct rig *r, struct credentials *c, struct tls_material **current)
{
    auto_err struct err e = {0};
    auto_free char *token = NULL;
    struct tls_material *tls = NULL;
    cr_assert_eq(credentials_get(c, r->s, &token, &tls, &e), 0, "%s", e.msg);
    bool changed = tls != *current;
    (void)tls_material_unref(*current);
    *current = tls;
    return changed;
}

/* ---- files ---- */

Test(credentials, token_file_is_read_again_after_its_time)
{
    auto_rig struct rig r = rig_new();
    char *path = pki_path(r.pki, "token");
    put(path, "  one\n");
    struct kc_config config = {.token_file = path};
    struct credentials *c = credentials(&r, &config);
    put(path, "two");
    expect_token(&r, c, "one");
    clock_fake_advance(r.clock, 60000);
    expect_token(&r, c, "two");
    (void)credentials_free(c);
    free(path);
}

Test(credentials, token_file_that_is_gone_or_empty_keeps_the_old_token)
{
    auto_rig struct rig r = rig_new();
    char *path = pki_path(r.pki, "token");
    put(path, "one");
    struct kc_config config = {.token_file = path};
    struct credentials *c = credentials(&r, &config);
    static const struct {
        const char *content, *token;
    } rows[] = {
        {"", "one"}, {" \n", "one"}, {"\x01", "one"}, {"two\r\nX-Injected: yes", "two"},
        {"", "two"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        put(path, rows[i].content);
        clock_fake_advance(r.clock, 60000);
        expect_token(&r, c, rows[i].token);
    }
    cr_assert_eq(unlink(path), 0);
    clock_fake_advance(r.clock, 60000);
    expect_token(&r, c, "two");
    (void)credentials_free(c);
    free(path);
}

Test(credentials, refused_token_is_read_again_at_once)
{
    auto_rig struct rig r = rig_new();
    char *path = pki_path(r.pki, "token");
    put(path, "one");
    struct kc_config config = {.token_file = path};
    struct credentials *c = credentials(&r, &config);
    put(path, "two");
    cr_expect(credentials_reject(c, "one"));
    expect_token(&r, c, "two");
    (void)credentials_free(c);
    free(path);
}

Test(credentials, token_of_the_configuration_cannot_be_renewed)
{
    auto_rig struct rig r = rig_new();
    char token[] = "fixed";
    struct kc_config config = {.token = token};
    struct credentials *c = credentials(&r, &config);
    cr_expect_not(credentials_reject(c, "fixed"));
    expect_token(&r, c, "fixed");
    (void)credentials_free(c);
}

Test(credentials, ca_is_read_again_and_garbage_keeps_the_old_one)
{
    auto_rig struct rig r = rig_new();
    char *path = pki_path(r.pki, "current-ca.crt");
    auto_free char *first = pki_path(r.pki, "ca.crt");
    auto_free char *second = pki_path(r.pki, "other-ca.crt");
    copy(first, path);
    struct kc_config config = {.ca_file = path};
    struct credentials *c = credentials(&r, &config);
    struct tls_material *tls = NULL;
    cr_assert(tls_changed(&r, c, &tls));
    copy(second, path);
    cr_expect_not(tls_changed(&r, c, &tls));
    clock_fake_advance(r.clock, 5 * 60000);
    cr_expect(tls_changed(&r, c, &tls));
    put(path, "garbage");
    clock_fake_advance(r.clock, 5 * 60000);
    cr_expect_not(tls_changed(&r, c, &tls));
    copy(second, path);
    clock_fake_advance(r.clock, 5 * 60000);
    cr_expect_not(tls_changed(&r, c, &tls), "the same content is no change");
    (void)tls_material_unref(tls);
    (void)credentials_free(c);
    free(path);
}

Test(credentials, half_rotated_client_certificate_keeps_the_old_pair)
{
    auto_rig struct rig r = rig_new();
    char *cert = pki_path(r.pki, "current.crt");
    char *key = pki_path(r.pki, "current.key");
    auto_free char *cert1 = pki_path(r.pki, "client.crt");
    auto_free char *key1 = pki_path(r.pki, "client.key");
    auto_free char *cert2 = pki_path(r.pki, "server.crt");
    auto_free char *key2 = pki_path(r.pki, "server.key");
    copy(cert1, cert);
    copy(key1, key);
    struct kc_config config = {.cert_file = cert, .key_file = key};
    struct credentials *c = credentials(&r, &config);
    struct tls_material *tls = NULL;
    cr_assert(tls_changed(&r, c, &tls));
    copy(cert2, cert);
    clock_fake_advance(r.clock, 5 * 60000);
    cr_expect_not(tls_changed(&r, c, &tls));
    copy(key2, key);
    clock_fake_advance(r.clock, 5 * 60000);
    cr_expect(tls_changed(&r, c, &tls));
    (void)tls_material_unref(tls);
    (void)credentials_free(c);
    free(cert);
    free(key);
}

Test(credentials, start_with_what_cannot_be_used_is_refused)
{
    auto_rig struct rig r = rig_new();
    char *garbage = pki_path(r.pki, "garbage");
    char *ca = pki_path(r.pki, "ca.crt");
    char *cert = pki_path(r.pki, "client.crt");
    char *other_key = pki_path(r.pki, "server.key");
    char nowhere[] = "/nowhere";
    char bad_token[] = "a\r\nb";
    put(garbage, "garbage");
    const struct {
        struct kc_config config;
        enum err_kind kind;
    } rows[] = {
        {{.ca_file = garbage}, ERR_INVALID},
        {{.ca_file = nowhere}, ERR_NOT_FOUND},
        {{.ca_file = ca, .cert_file = cert, .key_file = other_key}, ERR_INVALID},
        {{.token_file = nowhere}, ERR_NOT_FOUND},
        {{.token = bad_token}, ERR_INVALID},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_err struct err e = {0};
        struct credentials *c = NULL;
        cr_expect_eq(credentials_new(&rows[i].config, r.clock, &c, &e), -(int)rows[i].kind, "%zu",
                     i);
    }
    free(garbage);
    free(ca);
    free(cert);
    free(other_key);
}

/* ---- the credential plugin ---- */

/* A plugin that notes its question and how often it was asked, and answers from a file. */
static void install_plugin(struct rig *r, struct kc_config *config)
{
    static const char script[] = "#!/bin/sh\n"
                                 "cd \"$(dirname \"$0\")\" || exit 1\n"
                                 "echo x >>asked\n"
                                 "printf '%s' \"$KUBERNETES_EXEC_INFO\" >question\n"
                                 "printf '%s %s %s' \"$1\" \"$A\" \"$INHERITED\" >arguments\n"
                                 "cat answer\n";
    static char inherited[] = "INHERITED=i";
    static char *environment[] = {inherited, NULL};
    char *path = pki_path(r->pki, "plugin");
    put(path, script);
    cr_assert_eq(chmod(path, 0700), 0);
    config->exec.command = path;
    config->exec.api_version = xstrdup("client.authentication.k8s.io/v1");
    *XPUSH(config->exec.args, config->exec.arg_count) = xstrdup("arg");
    *XPUSH(config->exec.env, config->exec.env_count) =
        (struct kc_exec_env){xstrdup("A"), xstrdup("a")};
    config->envp = environment;
}

static void answer(struct rig *r, const char *text)
{
    auto_free char *path = pki_path(r->pki, "answer");
    put(path, text);
}

static char *read_back(struct rig *r, const char *name)
{
    auto_err struct err e = {0};
    auto_free char *path = pki_path(r->pki, name);
    char *text = NULL;
    cr_assert_eq(file_read(path, 1 << 20, &text, NULL, &e), 0, "%s", e.msg);
    return text;
}

#define CREDENTIAL(status)                                                                                \
    "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":{" status \
    "}}"

Test(credentials, plugin_is_asked_once_until_its_answer_expires)
{
    auto_rig struct rig r = rig_new();
    auto_kc_config struct kc_config config = {0};
    install_plugin(&r, &config);
    answer(&r, CREDENTIAL("\"token\":\"one\",\"expirationTimestamp\":\"2023-11-14T22:14:20Z\""));
    struct credentials *c = credentials(&r, &config);
    expect_token(&r, c, "one");
    answer(&r, CREDENTIAL("\"token\":\"two\""));
    clock_fake_advance(r.clock, 59000);
    expect_token(&r, c, "one");
    clock_fake_advance(r.clock, 1000);
    expect_token(&r, c, "two");
    clock_fake_advance(r.clock, 365LL * 86400 * 1000);
    expect_token(&r, c, "two");
    auto_free char *asked = read_back(&r, "asked");
    cr_expect_str_eq(asked, "x\nx\n");
    (void)credentials_free(c);
}

Test(credentials, plugin_gets_its_question_arguments_and_environment)
{
    auto_rig struct rig r = rig_new();
    auto_kc_config struct kc_config config = {.server = xstrdup("https://h"),
                                              .ca_file = pki_path(r.pki, "ca.crt"),
                                              .exec.provide_cluster_info = true};
    install_plugin(&r, &config);
    answer(&r, CREDENTIAL("\"token\":\"t\""));
    struct credentials *c = credentials(&r, &config);
    expect_token(&r, c, "t");
    auto_free char *arguments = read_back(&r, "arguments");
    auto_free char *question = read_back(&r, "question");
    cr_expect_str_eq(arguments, "arg a i");
    cr_expect_not_null(strstr(question, "\"apiVersion\":\"client.authentication.k8s.io/v1\""));
    cr_expect_not_null(strstr(question, "\"interactive\":false"));
    cr_expect_not_null(strstr(question, "\"server\":\"https://h\""));
    cr_expect_not_null(strstr(question, "\"certificate-authority-data\":\"LS0t"));
    (void)credentials_free(c);
}

Test(credentials, refused_token_asks_the_plugin_again)
{
    auto_rig struct rig r = rig_new();
    auto_kc_config struct kc_config config = {0};
    install_plugin(&r, &config);
    answer(&r, CREDENTIAL("\"token\":\"one\""));
    struct credentials *c = credentials(&r, &config);
    expect_token(&r, c, "one");
    answer(&r, CREDENTIAL("\"token\":\"two\""));
    cr_expect(credentials_reject(c, "one"));
    expect_token(&r, c, "two");
    (void)credentials_free(c);
}

Test(credentials, plugin_that_answers_nonsense_fails_without_quoting_it)
{
    static const char *const answers[] = {
        "secret",
        "{\"secret\":1}",
        CREDENTIAL(""),
        CREDENTIAL("\"clientCertificateData\":\"secret\""),
        CREDENTIAL("\"token\":\"secret\\nX: y\""),
        CREDENTIAL("\"token\":\"secret\",\"expirationTimestamp\":\"soon\""),
        "{\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\"status\":{\"token\":\"secret\"}}",
    };
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        auto_rig struct rig r = rig_new();
        auto_kc_config struct kc_config config = {0};
        auto_err struct err e = {0};
        auto_free char *token = NULL;
        struct tls_material *tls = NULL;
        install_plugin(&r, &config);
        answer(&r, answers[i]);
        struct credentials *c = credentials(&r, &config);
        cr_expect_eq(credentials_get(c, r.s, &token, &tls, &e), -ERR_PROTOCOL, "%s", answers[i]);
        cr_expect_null(strstr(e.msg, "secret"), "%s", e.msg);
        (void)credentials_free(c);
    }
}

static void expect_plugin_failure(const char *script, int64_t timeout_ms, enum err_kind kind)
{
    auto_rig struct rig r = rig_new();
    auto_kc_config struct kc_config config = {0};
    auto_err struct err e = {0};
    auto_free char *token = NULL;
    struct tls_material *tls = NULL;
    install_plugin(&r, &config);
    if (script)
        put(config.exec.command, script);
    else
        (void)unlink(config.exec.command);
    (void)chmod(config.exec.command, 0700);
    struct scope *s = scope_new(r.s, timeout_ms);
    struct credentials *c = credentials(&r, &config);
    cr_expect_eq(credentials_get(c, s, &token, &tls, &e), -(int)kind, "%s", e.msg);
    (void)credentials_free(c);
    (void)scope_free(s);
}

Test(credentials, plugin_that_fails_hangs_or_is_missing_is_an_error)
{
    expect_plugin_failure("#!/bin/sh\nexit 3\n", 10000, ERR_PROTOCOL);
    expect_plugin_failure("#!/bin/sh\nkill -9 $$\n", 10000, ERR_PROTOCOL);
    expect_plugin_failure("#!/bin/sh\nexec cat </dev/zero\n", 10000, ERR_TOO_LARGE);
    expect_plugin_failure("#!/bin/sh\nexec sleep 1000\n", 100, ERR_TIMEOUT);
    expect_plugin_failure(NULL, 10000, ERR_NOT_FOUND);
}

/* ---- over the wire ---- */

static struct kc *client(const struct kc_config *config)
{
    auto_err struct err e = {0};
    struct kc *kc = NULL;
    cr_assert_eq(kc_http_new(config, &(struct kc_http_opts){.retry_unit_ms = 1}, &kc, &e), 0, "%s",
                 e.msg);
    return kc;
}

static void expect_bearer(struct api_server *srv, size_t i, const char *value)
{
    auto_free char *got = api_request_header(api_server_request(srv, i), "Authorization");
    cr_assert_not_null(got);
    cr_expect_str_eq(got, value);
}

Test(credentials, unauthorized_call_is_repeated_once_with_the_new_token)
{
    auto_rig struct rig r = rig_new();
    auto_err struct err e = {0};
    char *path = pki_path(r.pki, "token");
    put(path, "one");
    struct api_server *srv = api_server_new(NULL);
    char *url = xstrdup(api_server_url(srv));
    struct kc *kc = client(&(struct kc_config){.server = url, .token_file = path});
    put(path, "two");
    api_server_add(srv, &(struct api_answer){.status = 401});
    api_server_add_json(srv, NULL, NULL, "{}");
    api_server_add(srv, &(struct api_answer){.status = 401, .times = -1});
    cr_expect_eq(kc_get(kc, r.s, &node, NULL, &e), 0, "%s", e.msg);
    expect_bearer(srv, 0, "Bearer one");
    expect_bearer(srv, 1, "Bearer two");
    cr_expect_eq(kc_get(kc, r.s, &node, NULL, &e), -ERR_FORBIDDEN);
    cr_expect_eq(e.http_status, 401);
    cr_expect_eq(api_server_count(srv), 4);
    (void)kc_free(kc);
    (void)api_server_free(srv);
    free(url);
    free(path);
}

/* A TLS server of the PKI, and the configuration that reaches it. */
struct tls_rig {
    struct rig r;
    struct api_server *srv;
    struct kc_config config;
};

static struct tls_rig tls_rig_new(bool wants_client)
{
    struct tls_rig t = {.r = rig_new()};
    auto_free char *cert = pki_path(t.r.pki, "server.crt");
    auto_free char *key = pki_path(t.r.pki, "server.key");
    auto_free char *ca = pki_path(t.r.pki, "ca.crt");
    t.srv = api_server_new(&(struct api_server_opts){.cert_file = cert,
                                                     .key_file = key,
                                                     .client_ca_file = wants_client ? ca : NULL});
    api_server_add(t.srv, &(struct api_answer){.body = "{}", .times = -1});
    t.config.server = xstrdup(api_server_url(t.srv));
    t.config.ca_file = pki_path(t.r.pki, "ca.crt");
    return t;
}

static void tls_rig_done(struct tls_rig *t)
{
    (void)api_server_free(t->srv);
    kc_config_done(&t->config);
    rig_done(&t->r);
}
#define auto_tls_rig __attribute__((cleanup(tls_rig_done)))

static int get_once(struct tls_rig *t, struct err *e)
{
    auto_kc struct kc *kc = client(&t->config);
    return kc_get(kc, t->r.s, &node, NULL, e);
}

Test(credentials, server_is_verified_by_the_ca)
{
    auto_tls_rig struct tls_rig t = tls_rig_new(/* wants_client= */ false);
    auto_err struct err e = {0};
    cr_expect_eq(get_once(&t, &e), 0, "%s", e.msg);
    free(t.config.ca_file);
    t.config.ca_file = pki_path(t.r.pki, "other-ca.crt");
    cr_expect_eq(get_once(&t, &e), -ERR_UNAVAILABLE);
    cr_expect_not_null(strstr(e.msg, "certificate"), "%s", e.msg);
    t.config.insecure_skip_tls_verify = true;
    cr_expect_eq(get_once(&t, &e), 0, "%s", e.msg);
}

Test(credentials, tls_server_name_is_what_the_certificate_must_say)
{
    auto_tls_rig struct tls_rig t = tls_rig_new(/* wants_client= */ false);
    auto_err struct err e = {0};
    t.config.tls_server_name = xstrdup("api.cleave.test");
    cr_expect_eq(get_once(&t, &e), 0, "%s", e.msg);
    auto_free char *host = api_request_header(api_server_request(t.srv, 0), "Host");
    cr_expect_str_eq(host, api_server_url(t.srv) + strlen("https://"));
    xstr_set(&t.config.tls_server_name, "other.cleave.test");
    cr_expect_eq(get_once(&t, &e), -ERR_UNAVAILABLE);
}

Test(credentials, client_certificate_is_shown)
{
    auto_tls_rig struct tls_rig t = tls_rig_new(/* wants_client= */ true);
    auto_err struct err e = {0};
    cr_expect_lt(get_once(&t, &e), 0);
    t.config.cert_file = pki_path(t.r.pki, "client.crt");
    t.config.key_file = pki_path(t.r.pki, "client.key");
    cr_expect_eq(get_once(&t, &e), 0, "%s", e.msg);
}

Test(credentials, ca_that_rotated_is_read_when_the_server_does_not_verify)
{
    auto_tls_rig struct tls_rig t = tls_rig_new(/* wants_client= */ false);
    auto_err struct err e = {0};
    auto_free char *good = xstrdup(t.config.ca_file);
    auto_free char *other = pki_path(t.r.pki, "other-ca.crt");
    free(t.config.ca_file);
    t.config.ca_file = pki_path(t.r.pki, "current-ca.crt");
    copy(other, t.config.ca_file);
    auto_kc struct kc *kc = client(&t.config);
    cr_expect_eq(kc_get(kc, t.r.s, &node, NULL, &e), -ERR_UNAVAILABLE);
    copy(good, t.config.ca_file);
    cr_expect_eq(kc_get(kc, t.r.s, &node, NULL, &e), 0, "%s", e.msg);
}

Test(credentials, proxy_is_used_and_told_the_target)
{
    auto_rig struct rig r = rig_new();
    auto_err struct err e = {0};
    struct api_server *proxy = api_server_new(NULL);
    api_server_add_json(proxy, NULL, NULL, "{}");
    char *url = xstrdup(api_server_url(proxy));
    char server[] = "http://api.cleave.test:8080";
    struct kc *kc = client(&(struct kc_config){.server = server, .proxy_url = url});
    cr_expect_eq(kc_get(kc, r.s, &node, NULL, &e), 0, "%s", e.msg);
    cr_expect_str_eq(api_server_request(proxy, 0)->target,
                     "http://api.cleave.test:8080/api/v1/nodes/n");
    (void)kc_free(kc);
    (void)api_server_free(proxy);
    free(url);
}
