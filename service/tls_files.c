/* SPDX-License-Identifier: Apache-2.0 */
#include "service/tls_files.h"

#include <errno.h>
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
    MAX_PAIR_BYTES = 2 * (MAX_PEM_BYTES + 1),
    /* The kubelet delivers a renewed certificate within a minute. */
    LOOK_MS = 10 * 1000,
};

int tls_files_look_ms(const struct tls_files *f)
{
    return f->look_ms ? f->look_ms : LOOK_MS;
}

int tls_files_read(const struct tls_files *f, struct tls_pair *ret, struct err *e)
{
    auto_tls_pair struct tls_pair p = {0};
    TRY(file_read(f->cert, MAX_PEM_BYTES, &p.cert_pem, /* ret_len= */ NULL, e));
    TRY(file_read(f->key, MAX_PEM_BYTES, &p.key_pem, /* ret_len= */ NULL, e));
    if (!tls_pair_has_certificate(p.cert_pem))
        return err_set(e, ERR_INVALID, "%s holds no certificate (want PEM)", f->cert);
    if (!tls_pair_fits(p.cert_pem, p.key_pem))
        return err_set(e, ERR_INVALID,
                       "%s does not hold the key of the certificate in %s (want PEM that is not "
                       "encrypted)",
                       f->key, f->cert);
    *ret = (struct tls_pair){TAKE(p.cert_pem), TAKE(p.key_pem)};
    return 0;
}

bool tls_pair_equals(const struct tls_pair *a, const struct tls_pair *b)
{
    return strcmp(a->cert_pem, b->cert_pem) == 0 && strcmp(a->key_pem, b->key_pem) == 0;
}

/* Both texts with their NULs, in memory that belongs to no file. */
int tls_pair_lend(const struct tls_pair *p, int *ret_fd, struct err *e)
{
    const struct iovec parts[] = {{p->cert_pem, strlen(p->cert_pem) + 1},
                                  {p->key_pem, strlen(p->key_pem) + 1}};
    auto_fd int fd = memfd_create("tls", MFD_CLOEXEC);
    if (fd < 0)
        return err_set_errno(e, errno, "memfd_create");
    ssize_t n = pwritev(fd, parts, ARRAY_LEN(parts), 0);
    if (n != (ssize_t)(parts[0].iov_len + parts[1].iov_len))
        return err_set_errno(e, n < 0 ? errno : ENOMEM, "writing a certificate and its key");
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int tls_pair_receive(int fd, struct tls_pair *ret, struct err *e)
{
    auto_free char *both = xmalloc(MAX_PAIR_BYTES);
    ssize_t n = pread(fd, both, MAX_PAIR_BYTES, 0);
    if (n < 0)
        return err_set_errno(e, errno, "reading a certificate and its key");
    size_t cert_len = strnlen(both, (size_t)n);
    if (n == 0 || both[n - 1] != '\0' || cert_len + 1 >= (size_t)n)
        return err_set(e, ERR_PROTOCOL, "no certificate and key were passed on");
    *ret = (struct tls_pair){xstrdup(both), xstrdup(both + cert_len + 1)};
    explicit_bzero(both, MAX_PAIR_BYTES);
    return 0;
}

void tls_pair_done(struct tls_pair *p)
{
    if (p->key_pem)
        explicit_bzero(p->key_pem, strlen(p->key_pem));
    free(p->key_pem);
    free(p->cert_pem);
    *p = (struct tls_pair){0};
}
