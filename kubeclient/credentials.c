/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/credentials.h"

#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "base/xalloc.h"

#include "kubeclient/exec_plugin.h"
#include "kubeclient/tls_pair.h"

#define TOKEN_PERIOD_MS (50 * 1000)
#define TLS_PERIOD_MS   (5 * 60 * 1000)
#define MAX_TOKEN_BYTES (64UL << 10)
#define MAX_PEM_BYTES   (1UL << 20)

/*
 * `turn` is a semaphore of one that is taken while files are read or the plugin runs: unlike a
 * mutex, a thread can wait for it under a scope. The rest is guarded by mu, which is held briefly.
 */
struct credentials {
    const struct kc_config *config;
    const struct clock *clock;
    int turn;
    pthread_mutex_t mu;
    char *token;
    struct tls_material *tls;
    int64_t token_due_mono_ms, tls_due_mono_ms;
    int64_t plugin_expires_wall_ms; /* 0: it has not run yet */
};

struct tls_material *tls_material_ref(struct tls_material *m)
{
    (void)__atomic_add_fetch(&m->refs, 1, __ATOMIC_RELAXED);
    return m;
}

static void free_secret(char *s)
{
    if (s)
        explicit_bzero(s, strlen(s));
    free(s);
}

struct tls_material *tls_material_unref(struct tls_material *m)
{
    if (!m || __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return NULL;
    free(m->ca_pem);
    free(m->cert_pem);
    free_secret(m->key_pem);
    free(m);
    return NULL;
}

static int read_or_copy(const char *pem, const char *file, char **ret, struct err *e)
{
    if (pem)
        *ret = xstrdup(pem);
    else if (file)
        return file_read(file, MAX_PEM_BYTES, ret, /* ret_len= */ NULL, e);
    return 0;
}

static int check_tls(const struct tls_material *m, struct err *e)
{
    if (m->ca_pem && !tls_pair_has_certificate(m->ca_pem))
        return err_set(e, ERR_INVALID, "no certificate in the certificate authority's text");
    if (m->cert_pem && !tls_pair_fits(m->cert_pem, m->key_pem))
        return err_set(e, ERR_INVALID, "client certificate and key are no pair");
    return 0;
}

/* From the configuration, and the plugin's certificate if it gave one. */
static int load_tls(const struct kc_config *config, const struct exec_credential *plugin,
                    struct tls_material **ret, struct err *e)
{
    auto_tls_material struct tls_material *m = xmalloc(sizeof(*m));
    m->refs = 1;
    TRY(read_or_copy(config->ca_pem, config->ca_file, &m->ca_pem, e));
    if (plugin && plugin->cert_pem) {
        m->cert_pem = xstrdup(plugin->cert_pem);
        m->key_pem = xstrdup(plugin->key_pem);
    } else {
        TRY(read_or_copy(config->cert_pem, config->cert_file, &m->cert_pem, e));
        TRY(read_or_copy(config->key_pem, config->key_file, &m->key_pem, e));
    }
    TRY(check_tls(m, e));
    *ret = TAKE(m);
    return 0;
}

static bool same_tls(const struct tls_material *a, const struct tls_material *b)
{
    return text_same(a->ca_pem, b->ca_pem) && text_same(a->cert_pem, b->cert_pem) &&
           text_same(a->key_pem, b->key_pem);
}

/* True when the text cannot end a header's line. */
static bool is_token(const char *s)
{
    for (; *s; s++)
        if (*s <= ' ' || *s > '~')
            return false;
    return true;
}

static int read_token(const char *file, char **ret, struct err *e)
{
    auto_free char *text = NULL;
    TRY(file_read(file, MAX_TOKEN_BYTES, &text, /* ret_len= */ NULL, e));
    char *begin = text + strspn(text, " \t\r\n");
    begin[strcspn(begin, " \t\r\n")] = '\0';
    if (!*begin || !is_token(begin))
        return err_set(e, ERR_INVALID, "%s holds no token", file);
    *ret = xstrdup(begin);
    return 0;
}

static void set_token_take(struct credentials *c, char *token)
{
    free_secret(c->token);
    c->token = token;
}

/* Replaces the material if the contents differ. */
static void set_tls_take(struct credentials *c, struct tls_material *m)
{
    if (c->tls && same_tls(c->tls, m)) {
        (void)tls_material_unref(m);
        return;
    }
    (void)tls_material_unref(c->tls);
    c->tls = m;
}

static void refresh_token(struct credentials *c)
{
    auto_err struct err e = {0};
    char *token = NULL;
    int rc = read_token(c->config->token_file, &token, &e);
    if (rc < 0)
        log_debug("Kept the old token", kv_err(&e));
    HOLD(&c->mu);
    c->token_due_mono_ms = clock_mono_ms(c->clock) + TOKEN_PERIOD_MS;
    if (rc == 0)
        set_token_take(c, token);
}

static void refresh_tls(struct credentials *c)
{
    auto_err struct err e = {0};
    struct tls_material *m = NULL;
    int rc = load_tls(c->config, /* plugin= */ NULL, &m, &e);
    if (rc < 0)
        log_debug("Kept the old certificates", kv_err(&e));
    HOLD(&c->mu);
    c->tls_due_mono_ms = clock_mono_ms(c->clock) + TLS_PERIOD_MS;
    if (rc == 0)
        set_tls_take(c, m);
}

static int refresh_plugin(struct credentials *c, struct scope *s, struct err *e)
{
    auto_exec_credential struct exec_credential got = {0};
    struct tls_material *m = NULL;
    TRY(exec_plugin_run(c->config, s, &got, e));
    if (got.token && !is_token(got.token))
        return err_set(e, ERR_PROTOCOL, "the credential plugin's token is none");
    TRY(load_tls(c->config, &got, &m, e));
    HOLD(&c->mu);
    set_token_take(c, TAKE(got.token));
    set_tls_take(c, m);
    c->plugin_expires_wall_ms = got.expires_wall_ms;
    return 0;
}

struct due {
    bool token, tls, plugin;
};

static struct due what_is_due(struct credentials *c)
{
    const struct kc_config *g = c->config;
    bool has_files = (g->ca_file && !g->ca_pem) || (g->cert_file && !g->cert_pem) ||
                     (g->key_file && !g->key_pem);
    int64_t now = clock_mono_ms(c->clock);
    HOLD(&c->mu);
    return (struct due){
        .token = g->token_file && now >= c->token_due_mono_ms,
        /* With a plugin the certificate is the plugin's; the CA is read again when the plugin
         * runs. */
        .tls = has_files && !g->exec.command && now >= c->tls_due_mono_ms,
        .plugin = g->exec.command && clock_wall_ms(c->clock) >= c->plugin_expires_wall_ms,
    };
}

static int refresh(struct credentials *c, struct scope *s, struct err *e)
{
    /* Checked again: another thread may have renewed it meanwhile. */
    struct due due = what_is_due(c);
    if (due.token)
        refresh_token(c);
    if (due.tls)
        refresh_tls(c);
    return due.plugin ? refresh_plugin(c, s, e) : 0;
}

/* Takes the turn by reading from the semaphore. */
static int take_turn(struct credentials *c, struct scope *s, struct err *e)
{
    eventfd_t one;
    do
        TRY(scope_wait_readable(s, c->turn, e));
    while (eventfd_read(c->turn, &one) < 0);
    return 0;
}

int credentials_get(struct credentials *c, struct scope *s, char **ret_token,
                    struct tls_material **ret_tls, struct err *e)
{
    struct due due = what_is_due(c);
    if (due.token || due.tls || due.plugin) {
        TRY(take_turn(c, s, e));
        int rc = refresh(c, s, e);
        (void)eventfd_write(c->turn, 1);
        TRY(rc);
    }
    HOLD(&c->mu);
    *ret_token = xstrdup(c->token);
    *ret_tls = tls_material_ref(c->tls);
    return 0;
}

bool credentials_reject(struct credentials *c, const char *token)
{
    HOLD(&c->mu);
    if (!token) {
        c->tls_due_mono_ms = 0;
        return c->config->ca_file != NULL;
    }
    if (c->token && strcmp(c->token, token) != 0)
        return true; /* another thread has renewed it already */
    c->token_due_mono_ms = 0;
    c->plugin_expires_wall_ms = 0;
    return c->config->token_file || c->config->exec.command;
}

static int load_first(struct credentials *c, struct err *e)
{
    const struct kc_config *g = c->config;
    TRY(load_tls(g, /* plugin= */ NULL, &c->tls, e));
    c->tls_due_mono_ms = clock_mono_ms(c->clock) + TLS_PERIOD_MS;
    if (g->token_file) {
        TRY(read_token(g->token_file, &c->token, e));
        c->token_due_mono_ms = clock_mono_ms(c->clock) + TOKEN_PERIOD_MS;
    } else if (g->token) {
        if (!is_token(g->token))
            return err_set(e, ERR_INVALID, "the token has characters that no token has");
        c->token = xstrdup(g->token);
    }
    return 0;
}

int credentials_new(const struct kc_config *config, const struct clock *clock,
                    struct credentials **ret, struct err *e)
{
    struct credentials *c = xmalloc(sizeof(*c));
    c->config = config;
    c->clock = clock;
    (void)pthread_mutex_init(&c->mu, NULL);
    c->turn = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    int rc = c->turn < 0 ? err_set(e, ERR_SYSTEM, "eventfd") : load_first(c, e);
    if (rc < 0)
        (void)credentials_free(c);
    else
        *ret = c;
    return rc;
}

struct credentials *credentials_free(struct credentials *c)
{
    if (!c)
        return NULL;
    free_secret(c->token);
    (void)tls_material_unref(c->tls);
    (void)pthread_mutex_destroy(&c->mu);
    if (c->turn >= 0)
        (void)close(c->turn);
    free(c);
    return NULL;
}
