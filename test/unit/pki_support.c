/* SPDX-License-Identifier: Apache-2.0 */
#include "test/unit/pki_support.h"

#include <assert.h>
#include <dirent.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/xalloc.h"

#define DAY_S 86400L

struct pki {
    char folder[32];
    long serial;
};

/* A certificate with its key. */
struct identity {
    X509 *cert;
    EVP_PKEY *key;
};

static void identity_done(struct identity *id)
{
    X509_free(id->cert);
    EVP_PKEY_free(id->key);
}
#define auto_identity __attribute__((cleanup(identity_done)))

char *pki_path(const struct pki *p, const char *name)
{
    return xasprintf("%s/%s", p->folder, name);
}

static FILE *create(const struct pki *p, const char *name)
{
    auto_free char *path = pki_path(p, name);
    FILE *f = fopen(path, "we");
    assert(f);
    return f;
}

static void write_cert(const struct pki *p, const char *name, X509 *cert)
{
    auto_file FILE *f = create(p, name);
    int ok = PEM_write_X509(f, cert);
    assert(ok);
    (void)ok;
}

static void write_key(const struct pki *p, const char *name, EVP_PKEY *key)
{
    auto_file FILE *f = create(p, name);
    int ok = PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL);
    assert(ok);
    (void)ok;
}

static void extend(X509 *cert, X509 *issuer, int what, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, what, value);
    assert(ext);
    (void)X509_add_ext(cert, ext, -1);
    X509_EXTENSION_free(ext);
}

/* names NULL: an authority. by NULL: signed by itself. */
static struct identity issue(struct pki *p, const char *name, const char *names,
                             const struct identity *by)
{
    struct identity id = {.cert = X509_new(), .key = EVP_EC_gen("P-256")};
    assert(id.cert && id.key);
    const struct identity *issuer = by ? by : &id;
    X509_NAME *subject = X509_get_subject_name(id.cert);
    (void)X509_set_version(id.cert, X509_VERSION_3);
    (void)ASN1_INTEGER_set(X509_get_serialNumber(id.cert), ++p->serial);
    (void)X509_gmtime_adj(X509_getm_notBefore(id.cert), -DAY_S);
    (void)X509_gmtime_adj(X509_getm_notAfter(id.cert), DAY_S);
    (void)X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1,
                                     -1, 0);
    (void)X509_set_issuer_name(id.cert, X509_get_subject_name(issuer->cert));
    (void)X509_set_pubkey(id.cert, id.key);
    if (names)
        extend(id.cert, issuer->cert, NID_subject_alt_name, names);
    else
        extend(id.cert, issuer->cert, NID_basic_constraints, "critical,CA:TRUE");
    int size = X509_sign(id.cert, issuer->key, EVP_sha256());
    assert(size > 0);
    (void)size;
    return id;
}

struct pki *pki_new(void)
{
    struct pki *p = xmalloc(sizeof(*p));
    memcpy(p->folder, "/tmp/cleave-test-XXXXXX", sizeof("/tmp/cleave-test-XXXXXX"));
    const char *made = mkdtemp(p->folder);
    assert(made);
    (void)made;
    auto_identity struct identity ca = issue(p, "ca", NULL, NULL);
    auto_identity struct identity other = issue(p, "other-ca", NULL, NULL);
    auto_identity struct identity server =
        issue(p, "server", "IP:127.0.0.1,DNS:api.cleave.test", &ca);
    auto_identity struct identity client = issue(p, "client", "DNS:client", &ca);
    write_cert(p, "ca.crt", ca.cert);
    write_cert(p, "other-ca.crt", other.cert);
    write_cert(p, "server.crt", server.cert);
    write_key(p, "server.key", server.key);
    write_cert(p, "client.crt", client.cert);
    write_key(p, "client.key", client.key);
    return p;
}

struct pki *pki_free(struct pki *p)
{
    if (!p)
        return NULL;
    DIR *dir = opendir(p->folder);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        auto_free char *path = pki_path(p, entry->d_name);
        if (entry->d_name[0] != '.')
            (void)unlink(path);
    }
    if (dir)
        (void)closedir(dir);
    (void)rmdir(p->folder);
    free(p);
    return NULL;
}
