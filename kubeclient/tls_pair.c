/* SPDX-License-Identifier: Apache-2.0 */
#include "kubeclient/tls_pair.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

/* The first certificate in a PEM text, or NULL. */
static X509 *first_certificate(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    BIO_free_all(bio);
    return cert;
}

static EVP_PKEY *private_key(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    /* An empty password, so that OpenSSL never prompts on the terminal. */
    char none[] = "";
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, none) : NULL;
    BIO_free_all(bio);
    return key;
}

bool tls_pair_has_certificate(const char *pem)
{
    X509 *cert = first_certificate(pem);
    X509_free(cert);
    return cert;
}

bool tls_pair_is_whole(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    size_t n = 0;
    ERR_clear_error();
    for (X509 *cert; bio && (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL)); n++)
        X509_free(cert);
    bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    ERR_clear_error();
    BIO_free_all(bio);
    return ended && n > 0;
}

bool tls_pair_fits(const char *cert_pem, const char *key_pem)
{
    X509 *cert = first_certificate(cert_pem);
    EVP_PKEY *key = private_key(key_pem);
    bool fit = cert && key && X509_check_private_key(cert, key) == 1;
    EVP_PKEY_free(key);
    X509_free(cert);
    return fit;
}
