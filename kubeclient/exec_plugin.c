/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/exec_plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/jx.h"
#include "base/rfc3339.h"
#include "base/sb.h"
#include "base/spawn.h"
#include "base/xalloc.h"

#include "kubeclient/base64.h"

#define MAX_OUTPUT_BYTES (1UL << 20)
#define MAX_CA_BYTES     (1UL << 20)

/* A child that is killed and collected when its owner leaves early. */
struct child {
    pid_t pid; /* 0: none */
    int pidfd, stdout_fd;
};

static void child_done(struct child *c)
{
    if (c->pid > 0) {
        (void)kill(c->pid, SIGKILL);
        (void)waitpid(c->pid, NULL, 0);
    }
    if (c->pidfd >= 0)
        (void)close(c->pidfd);
    if (c->stdout_fd >= 0)
        (void)close(c->stdout_fd);
}
#define auto_child __attribute__((cleanup(child_done)))

/* NULL-terminated vector of borrowed strings, and of those that it owns. */
struct vector {
    char **items, **owned;
    size_t count, owned_count;
};

static void vector_done(struct vector *v)
{
    for (size_t i = 0; i < v->owned_count; i++)
        free(v->owned[i]);
    free(v->owned);
    free(v->items);
}
#define auto_vector __attribute__((cleanup(vector_done)))

static void push(struct vector *v, char *borrowed)
{
    *XPUSH(v->items, v->count) = borrowed;
}

static void push_take(struct vector *v, char *text)
{
    *XPUSH(v->owned, v->owned_count) = text;
    push(v, text);
}

static void set_string(json_t *obj, const char *key, const char *value)
{
    if (value)
        (void)json_object_set_new(obj, key, json_string(value));
}

static json_t *cluster_info(const struct kc_config *config)
{
    json_t *cluster = json_object();
    set_string(cluster, "server", config->server);
    set_string(cluster, "tls-server-name", config->tls_server_name);
    set_string(cluster, "proxy-url", config->proxy_url);
    if (config->insecure_skip_tls_verify)
        (void)json_object_set_new(cluster, "insecure-skip-tls-verify", json_true());
    auto_free char *from_file = NULL;
    if (!config->ca_pem && config->ca_file &&
        file_read(config->ca_file, MAX_CA_BYTES, &from_file, /* ret_len= */ NULL, NULL) < 0)
        return cluster;
    const char *pem = config->ca_pem ? config->ca_pem : from_file;
    auto_free char *data = pem ? base64_encode(pem, strlen(pem)) : NULL;
    set_string(cluster, "certificate-authority-data", data);
    return cluster;
}

static char *exec_info(const struct kc_config *config)
{
    auto_json json_t *info = json_pack("{s:s,s:s,s:{s:b}}", "kind", "ExecCredential", "apiVersion",
                                       config->exec.api_version, "spec", "interactive", 0);
    if (config->exec.provide_cluster_info)
        (void)json_object_set_new(json_object_get(info, "spec"), "cluster", cluster_info(config));
    auto_free char *text = jx_dump(info);
    return xasprintf("KUBERNETES_EXEC_INFO=%s", text);
}

static bool is_overridden(const struct kc_exec_config *x, const char *entry)
{
    size_t len = strcspn(entry, "=");
    if (len == strlen("KUBERNETES_EXEC_INFO") && !strncmp(entry, "KUBERNETES_EXEC_INFO", len))
        return true;
    for (size_t i = 0; i < x->env_count; i++)
        if (strlen(x->env[i].name) == len && !strncmp(x->env[i].name, entry, len))
            return true;
    return false;
}

static void make_environment(const struct kc_config *config, struct vector *env)
{
    const struct kc_exec_config *x = &config->exec;
    for (char *const *entry = config->envp; entry && *entry; entry++)
        if (!is_overridden(x, *entry))
            push(env, *entry);
    for (size_t i = 0; i < x->env_count; i++)
        push_take(env, xasprintf("%s=%s", x->env[i].name, x->env[i].value ? x->env[i].value : ""));
    push_take(env, exec_info(config));
    push(env, NULL);
}

static int start(const struct kc_config *config, struct child *ret, struct err *e)
{
    const struct kc_exec_config *x = &config->exec;
    auto_vector struct vector argv = {0};
    auto_vector struct vector env = {0};
    push(&argv, x->command);
    for (size_t i = 0; i < x->arg_count; i++)
        push(&argv, x->args[i]);
    push(&argv, NULL);
    make_environment(config, &env);

    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set_errno(e, errno, "pipe");
    ret->stdout_fd = ends[0];
    auto_fd int write_end = ends[1];
    const int fds[] = {SPAWN_NULL, write_end, SPAWN_OURS};
    int failure = spawn(x->command, argv.items, env.items, fds, &ret->pid);
    if (failure) {
        ret->pid = 0;
        return err_set(e, failure == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, "%s",
                       strerrordesc_np(failure));
    }
    ret->pidfd = pidfd_open(ret->pid, 0);
    return ret->pidfd < 0 ? err_set_errno(e, errno, "pidfd_open") : 0;
}

/* Reads what is available; false at the end of the output. */
static bool read_some(int fd, struct sb *out)
{
    char chunk[4096];
    ssize_t n = read(fd, chunk, sizeof(chunk));
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    sb_add_mem(out, chunk, (size_t)n);
    return !out->overflow;
}

/* Reads until the end of output, or until the plugin has exited: processes that it left running may
 * keep the pipe open. */
static int read_output(const struct child *c, struct scope *s, struct sb *out, struct err *e)
{
    (void)fcntl(c->stdout_fd, F_SETFL, O_NONBLOCK);
    for (;;) {
        TRY(scope_check(s, e));
        struct pollfd p[] = {{.fd = c->stdout_fd, .events = POLLIN},
                             {.fd = c->pidfd, .events = POLLIN},
                             {.fd = scope_cancel_fd(s), .events = POLLIN}};
        if (poll(p, ARRAY_LEN(p), scope_poll_ms(s)) <= 0)
            continue;
        if (p[0].revents) {
            if (!read_some(c->stdout_fd, out))
                return sb_check(out, e);
        } else if (p[1].revents) {
            return 0;
        }
    }
}

static int collect(struct child *c, struct scope *s, struct err *e)
{
    TRY(scope_wait_readable(s, c->pidfd, e));
    int status = 0;
    if (waitpid(c->pid, &status, 0) < 0)
        return err_set_errno(e, errno, "waitpid");
    c->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFSIGNALED(status))
        return err_set(e, ERR_PROTOCOL, "ended by signal %d", WTERMSIG(status));
    return err_set(e, ERR_PROTOCOL, "ended with status %d", WEXITSTATUS(status));
}

static const struct jx_field status_fields[] = {
    JX_F(exec_credential, token, "token", JX_STR),
    JX_F(exec_credential, cert_pem, "clientCertificateData", JX_STR),
    JX_F(exec_credential, key_pem, "clientKeyData", JX_STR),
    JX_F(exec_credential, expires_wall_ms, "expirationTimestamp", JX_TIME),
    {0},
};

static int decode(const struct kc_exec_config *x, const struct sb *out, struct exec_credential *ret,
                  struct err *e)
{
    auto_json json_t *answer = NULL;
    if (jx_parse(sb_str(out), out->len, MAX_OUTPUT_BYTES, &answer, NULL) < 0)
        return err_set(e, ERR_PROTOCOL, "its output is not JSON");
    const char *version = JX_STR_AT(answer, "apiVersion");
    if (!version || strcmp(version, x->api_version) != 0)
        return err_set(e, ERR_PROTOCOL, "its answer is not of %s", x->api_version);
    ret->expires_wall_ms = INT64_MAX;
    const json_t *status = JX_AT(answer, "status");
    if (!status || jx_decode(status, status_fields, ret, NULL) < 0)
        return err_set(e, ERR_PROTOCOL, "its answer has no readable status");
    if (!ret->cert_pem != !ret->key_pem || !(ret->token || ret->cert_pem))
        return err_set(e, ERR_PROTOCOL,
                       "its answer has neither a token nor a certificate with its key");
    return 0;
}

static int run(const struct kc_config *config, struct scope *s, struct exec_credential *ret,
               struct err *e)
{
    auto_child struct child c = {.pidfd = -1, .stdout_fd = -1};
    auto_sb struct sb out = SB_INIT(MAX_OUTPUT_BYTES);
    auto_exec_credential struct exec_credential made = {0};
    TRY(start(config, &c, e));
    TRY(read_output(&c, s, &out, e));
    TRY(collect(&c, s, e));
    int rc = decode(&config->exec, &out, &made, e);
    if (out.data)
        explicit_bzero(out.data, out.room);
    TRY(rc);
    *ret = made;
    made = (struct exec_credential){0};
    return 0;
}

int exec_plugin_run(const struct kc_config *config, struct scope *s, struct exec_credential *ret,
                    struct err *e)
{
    return run(config, s, ret, e) < 0
               ? err_wrap(e, "credential plugin \"%s\"", config->exec.command)
               : 0;
}

void exec_credential_done(struct exec_credential *c)
{
    if (c->token)
        explicit_bzero(c->token, strlen(c->token));
    if (c->key_pem)
        explicit_bzero(c->key_pem, strlen(c->key_pem));
    jx_free(status_fields, c);
}
