/* SPDX-License-Identifier: Apache-2.0 */
#include "service/tls_files.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "kubeclient/tls_pair.h"

enum {
    MAX_PEM_BYTES = 64 << 10,
    MAX_PAIR_BYTES = 3 * (MAX_PEM_BYTES + 1),
    /* The kubelet delivers a renewed certificate within a minute. */
    LOOK_MS = 10 * 1000,
};

int tls_files_look_ms(const struct tls_files *f)
{
    return f->look_ms ? f->look_ms : LOOK_MS;
}

static int read_client_ca(const struct tls_files *f, char **ret, struct err *e)
{
    if (!f->client_ca)
        return 0;
    TRY(file_read(f->client_ca, MAX_PEM_BYTES, ret, /* ret_len= */ NULL, e));
    if (!tls_pair_is_whole(*ret))
        return err_set(e, ERR_INVALID, "%s holds no certificate, or one that is broken (want PEM)",
                       f->client_ca);
    return 0;
}

int tls_files_read(const struct tls_files *f, struct tls_pair *ret, struct err *e)
{
    auto_tls_pair struct tls_pair p = {0};
    TRY(file_read(f->cert, MAX_PEM_BYTES, &p.cert_pem, /* ret_len= */ NULL, e));
    TRY(file_read(f->key, MAX_PEM_BYTES, &p.key_pem, /* ret_len= */ NULL, e));
    if (!tls_pair_is_whole(p.cert_pem))
        return err_set(e, ERR_INVALID, "%s holds no certificate (want PEM)", f->cert);
    if (!tls_pair_fits(p.cert_pem, p.key_pem))
        return err_set(e, ERR_INVALID,
                       "%s does not hold the key of the certificate in %s (want PEM that is not "
                       "encrypted)",
                       f->key, f->cert);
    TRY(read_client_ca(f, &p.client_ca_pem, e));
    *ret = (struct tls_pair){TAKE(p.cert_pem), TAKE(p.key_pem), TAKE(p.client_ca_pem)};
    return 0;
}

static const char *client_ca_of(const struct tls_pair *p)
{
    return p->client_ca_pem ? p->client_ca_pem : "";
}

bool tls_pair_equals(const struct tls_pair *a, const struct tls_pair *b)
{
    return strcmp(a->cert_pem, b->cert_pem) == 0 && strcmp(a->key_pem, b->key_pem) == 0 &&
           strcmp(client_ca_of(a), client_ca_of(b)) == 0;
}

static struct iovec part_of(const char *text)
{
    return (struct iovec){(void *)(uintptr_t)text, strlen(text) + 1};
}

/* The texts with their NULs, in memory that belongs to no file; no authority is the empty text. */
int tls_pair_lend(const struct tls_pair *p, int *ret_fd, struct err *e)
{
    const struct iovec parts[] = {part_of(p->cert_pem), part_of(p->key_pem),
                                  part_of(client_ca_of(p))};
    size_t len = 0;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        len += parts[i].iov_len;
    auto_fd int fd = memfd_create("tls", MFD_CLOEXEC);
    if (fd < 0)
        return err_set_errno(e, errno, "memfd_create");
    ssize_t n = pwritev(fd, parts, ARRAY_LEN(parts), 0);
    if (n != (ssize_t)len)
        return err_set_errno(e, n < 0 ? errno : ENOMEM, "writing a certificate and its key");
    *ret_fd = TAKE_FD(fd);
    return 0;
}

/* The text at *at, of which there are whole ones up to the end; NULL: there is none more. */
static const char *next_text(const char **at, const char *end)
{
    const char *text = *at;
    if (text >= end)
        return NULL;
    *at += strlen(text) + 1;
    return text;
}

int tls_pair_receive(int fd, struct tls_pair *ret, struct err *e)
{
    auto_free char *all = xmalloc(MAX_PAIR_BYTES);
    ssize_t n = pread(fd, all, MAX_PAIR_BYTES, 0);
    if (n < 0)
        return err_set_errno(e, errno, "reading a certificate and its key");
    const char *at = all;
    const char *end = n > 0 && all[n - 1] == '\0' ? all + n : all;
    const char *cert = next_text(&at, end);
    const char *key = next_text(&at, end);
    const char *client_ca = next_text(&at, end);
    if (!client_ca || at != end)
        return err_set(e, ERR_PROTOCOL, "no certificate and key were passed on");
    *ret = (struct tls_pair){xstrdup(cert), xstrdup(key), *client_ca ? xstrdup(client_ca) : NULL};
    explicit_bzero(all, MAX_PAIR_BYTES);
    return 0;
}

void tls_pair_done(struct tls_pair *p)
{
    if (p->key_pem)
        explicit_bzero(p->key_pem, strlen(p->key_pem));
    free(p->key_pem);
    free(p->cert_pem);
    free(p->client_ca_pem);
    *p = (struct tls_pair){0};
}
