/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/certificate.h"

#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/xalloc.h"

#include "kubeclient/tls_pair.h"

enum { MAX_HOST_BYTES = 253, SERIAL_BYTES = 16 };

static void free_cert(X509 **cert)
{
    X509_free(*cert);
}
#define auto_cert __attribute__((cleanup(free_cert)))

static void free_key(EVP_PKEY **key)
{
    EVP_PKEY_free(*key);
}
#define auto_key __attribute__((cleanup(free_key)))

static void free_bio(BIO **bio)
{
    BIO_free_all(*bio);
}
#define auto_bio __attribute__((cleanup(free_bio)))

void certificate_done(struct certificate *c)
{
    free(c->pem);
    *c = (struct certificate){0};
}

/* --- Hosts --- */

static bool is_address(const char *host)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

bool certificate_host_is_sound(const char *host)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
    size_t len = strlen(host);
    return is_address(host) || (len && len <= MAX_HOST_BYTES && strspn(host, letters) == len);
}

/* As those that are made here: for the host, and signing no others. */
static bool is_for(X509 *cert, const char *host)
{
    if (X509_check_ca(cert) != 0)
        return false;
    if (is_address(host))
        return X509_check_ip_asc(cert, host, 0) == 1;
    return X509_check_host(cert, host, 0, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) == 1;
}

/* --- Making --- */

static int failed(const char *what, struct err *e)
{
    char why[256];
    ERR_error_string_n(ERR_get_error(), why, sizeof(why));
    return err_set(e, ERR_SYSTEM, "%s: %s", what, why);
}

static char *text_of(BIO *bio)
{
    char *data;
    long len = BIO_get_mem_data(bio, &data);
    return len > 0 ? xstrndup(data, (size_t)len) : NULL;
}

static char *pem_of(X509 *cert)
{
    auto_bio BIO *bio = BIO_new(BIO_s_mem());
    return bio && PEM_write_bio_X509(bio, cert) ? text_of(bio) : NULL;
}

static char *pem_of_key(EVP_PKEY *key)
{
    auto_bio BIO *bio = BIO_new(BIO_s_secmem());
    return bio && PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) ? text_of(bio)
                                                                                : NULL;
}

static bool extend(X509 *cert, int what, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, what, value);
    bool added = extension && X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
    return added;
}

/* RFC 5280: positive, up to 20 bytes, and of no other certificate of this issuer. */
static bool set_serial(X509 *cert)
{
    unsigned char bytes[SERIAL_BYTES];
    if (RAND_bytes(bytes, sizeof(bytes)) != 1)
        return false;
    bytes[0] &= 0x7f;
    BIGNUM *number = BN_bin2bn(bytes, sizeof(bytes), NULL);
    bool set = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert));
    BN_free(number);
    return set;
}

static bool set_name(X509 *cert)
{
    static const unsigned char name[] = "cleave-webhook";
    X509_NAME *subject = X509_get_subject_name(cert);
    return X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, name, -1, -1, 0) &&
           X509_set_issuer_name(cert, subject);
}

static bool set_times(X509 *cert, int64_t from_ms, int64_t until_ms)
{
    return ASN1_TIME_set(X509_getm_notBefore(cert), (time_t)(from_ms / 1000)) &&
           ASN1_TIME_set(X509_getm_notAfter(cert), (time_t)(until_ms / 1000));
}

static bool set_extensions(X509 *cert, const char *host)
{
    auto_free char *names = xasprintf("%s:%s", is_address(host) ? "IP" : "DNS", host);
    return extend(cert, NID_basic_constraints, "critical,CA:FALSE") &&
           extend(cert, NID_key_usage, "critical,digitalSignature") &&
           extend(cert, NID_ext_key_usage, "serverAuth") &&
           extend(cert, NID_subject_key_identifier, "hash") &&
           extend(cert, NID_subject_alt_name, names);
}

int certificate_make(const char *host, int64_t from_ms, int64_t until_ms, struct tls_pair *ret,
                     struct err *e)
{
    auto_cert X509 *cert = X509_new();
    auto_key EVP_PKEY *key = EVP_EC_gen("P-256");
    if (!cert || !key || !X509_set_version(cert, X509_VERSION_3) || !set_serial(cert) ||
        !set_name(cert) || !set_times(cert, from_ms, until_ms) || !X509_set_pubkey(cert, key) ||
        !set_extensions(cert, host) || !X509_sign(cert, key, EVP_sha256()))
        return failed("making a certificate", e);
    auto_tls_pair struct tls_pair made = {.cert_pem = pem_of(cert), .key_pem = pem_of_key(key)};
    if (!made.cert_pem || !made.key_pem)
        return failed("writing a certificate", e);
    *ret = (struct tls_pair){.cert_pem = TAKE(made.cert_pem), .key_pem = TAKE(made.key_pem)};
    return 0;
}

/* --- Reading --- */

static bool time_of(const ASN1_TIME *t, int64_t *ret_ms)
{
    struct tm tm;
    if (!ASN1_TIME_to_tm(t, &tm))
        return false;
    *ret_ms = (int64_t)timegm(&tm) * 1000;
    return true;
}

static bool view(X509 *cert, struct certificate *ret)
{
    auto_certificate struct certificate c = {.pem = pem_of(cert)};
    if (!c.pem || !time_of(X509_get0_notBefore(cert), &c.from_ms) ||
        !time_of(X509_get0_notAfter(cert), &c.until_ms))
        return false;
    *ret = (struct certificate){TAKE(c.pem), c.from_ms, c.until_ms};
    return true;
}

static X509 *next_of(BIO *bio)
{
    /* An empty password, so that OpenSSL never prompts on the terminal. */
    char none[] = "";
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, none) : NULL;
    ERR_clear_error();
    return cert;
}

size_t certificate_read_all(const char *pem, const char *host, struct certificate *ret, size_t max)
{
    auto_bio BIO *bio = BIO_new_mem_buf(pem, -1);
    size_t n = 0;
    while (n < max) {
        auto_cert X509 *cert = next_of(bio);
        if (!cert)
            break;
        n += is_for(cert, host) && view(cert, &ret[n]);
    }
    return n;
}

bool certificate_read_pair(const char *cert_pem, const char *key_pem, const char *host,
                           struct certificate *ret)
{
    auto_bio BIO *bio = BIO_new_mem_buf(cert_pem, -1);
    auto_cert X509 *cert = next_of(bio);
    return cert && is_for(cert, host) && tls_pair_fits(cert_pem, key_pem) && view(cert, ret);
}
