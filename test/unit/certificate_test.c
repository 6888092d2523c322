/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "scheduler/certificate.h"
#include "test/unit/pki_support.h"

#define HOST "cleave-webhook.cleave-system.svc"
#define FROM INT64_C(1700000000000)
#define TO   (FROM + INT64_C(90) * 24 * 3600 * 1000)

static struct tls_pair made(const char *host)
{
    auto_err struct err e = {0};
    struct tls_pair p = {0};
    cr_assert_eq(certificate_make(host, FROM, TO, &p, &e), 0, "%s", err_msg(&e));
    return p;
}

static X509 *parsed(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    BIO_free(bio);
    cr_assert(cert);
    return cert;
}

Test(certificate, a_pair_is_read_as_it_was_made)
{
    auto_tls_pair struct tls_pair p = made(HOST);
    auto_certificate struct certificate c = {0};
    cr_assert(certificate_read_pair(p.cert_pem, p.key_pem, HOST, &c));
    cr_expect_str_eq(c.pem, p.cert_pem);
    cr_expect_eq(c.from_ms, FROM);
    cr_expect_eq(c.until_ms, TO);
}

Test(certificate, it_is_for_its_host_alone)
{
    auto_tls_pair struct tls_pair p = made(HOST);
    auto_tls_pair struct tls_pair v4 = made("127.0.0.1");
    auto_tls_pair struct tls_pair v6 = made("::1");
    auto_certificate struct certificate c = {0};
    cr_expect_not(certificate_read_pair(p.cert_pem, p.key_pem, "other.cleave-system.svc", &c));
    cr_expect_not(certificate_read_pair(p.cert_pem, p.key_pem, "127.0.0.1", &c));
    cr_expect_not(certificate_read_pair(v4.cert_pem, v4.key_pem, HOST, &c));
    cr_expect(certificate_read_pair(v4.cert_pem, v4.key_pem, "127.0.0.1", &c));
    certificate_done(&c);
    cr_expect(certificate_read_pair(v6.cert_pem, v6.key_pem, "::1", &c));
}

Test(certificate, two_have_neither_key_nor_number_in_common)
{
    auto_tls_pair struct tls_pair a = made(HOST);
    auto_tls_pair struct tls_pair b = made(HOST);
    auto_certificate struct certificate c = {0};
    X509 *one = parsed(a.cert_pem);
    X509 *other = parsed(b.cert_pem);
    cr_expect_neq(ASN1_INTEGER_cmp(X509_get0_serialNumber(one), X509_get0_serialNumber(other)), 0);
    cr_expect_not(certificate_read_pair(a.cert_pem, b.key_pem, HOST, &c));
    X509_free(one);
    X509_free(other);
}

/* Signed by itself, for servers alone, and no authority over other certificates. */
Test(certificate, it_serves_and_signs_nothing)
{
    auto_tls_pair struct tls_pair p = made(HOST);
    X509 *cert = parsed(p.cert_pem);
    cr_expect_eq(X509_check_ca(cert), 0);
    cr_expect_eq(X509_check_purpose(cert, X509_PURPOSE_SSL_SERVER, 0), 1);
    cr_expect_eq(X509_check_purpose(cert, X509_PURPOSE_SSL_CLIENT, 0), 0);
    cr_expect_eq(X509_get_key_usage(cert), KU_DIGITAL_SIGNATURE);
    EVP_PKEY *key = X509_get0_pubkey(cert);
    cr_expect_eq(X509_verify(cert, key), 1);
    cr_expect_eq(EVP_PKEY_bits(key), 256);
    X509_free(cert);
}

Test(certificate, all_of_a_text_are_read_up_to_the_first_that_is_none)
{
    auto_tls_pair struct tls_pair a = made(HOST);
    auto_tls_pair struct tls_pair b = made(HOST);
    struct certificate all[3] = {0};
    auto_sb struct sb text = SB_INIT(100000);
    sb_addf(&text,
            "a line\n%s\n%s%s-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n%s",
            a.cert_pem, a.key_pem, b.cert_pem, a.cert_pem);
    cr_assert_eq(certificate_read_all(text.data, HOST, all, ARRAY_LEN(all)), 2);
    cr_expect_str_eq(all[0].pem, a.cert_pem);
    cr_expect_str_eq(all[1].pem, b.cert_pem);
    certificate_done(&all[0]);
    certificate_done(&all[1]);
    cr_expect_eq(certificate_read_all(text.data, HOST, all, 1), 1);
    certificate_done(&all[0]);
    cr_expect_eq(certificate_read_all("", HOST, all, 3), 0);
    cr_expect_eq(certificate_read_all("garbage", HOST, all, 3), 0);
}

/* No authority stays behind of who had the Secret for a moment. */
Test(certificate, of_a_text_those_for_others_and_authorities_are_passed_over)
{
    auto_tls_pair struct tls_pair ours = made(HOST);
    auto_tls_pair struct tls_pair other = made("other");
    struct pki *pki = pki_new();
    auto_free char *path = pki_path(pki, "ca.crt");
    auto_free char *ca = NULL;
    struct certificate all[3] = {0};
    auto_sb struct sb text = SB_INIT(100000);
    cr_assert_eq(file_read(path, 1 << 16, &ca, NULL, NULL), 0);
    sb_addf(&text, "%s%s%s", other.cert_pem, ca, ours.cert_pem);
    cr_assert_eq(certificate_read_all(text.data, HOST, all, ARRAY_LEN(all)), 1);
    cr_expect_str_eq(all[0].pem, ours.cert_pem);
    certificate_done(&all[0]);
    (void)pki_free(pki);
}

Test(certificate, hosts_are_names_and_addresses)
{
    auto_free char *longest = xmalloc(255);
    memset(longest, 'a', 254);
    cr_expect(certificate_host_is_sound(HOST));
    cr_expect(certificate_host_is_sound("10.0.0.1"));
    cr_expect(certificate_host_is_sound("fd00::1"));
    cr_expect(certificate_host_is_sound(longest + 1));
    cr_expect_not(certificate_host_is_sound(longest));
    cr_expect_not(certificate_host_is_sound(""));
    cr_expect_not(certificate_host_is_sound("a,DNS:b"));
    cr_expect_not(certificate_host_is_sound("a b"));
    cr_expect_not(certificate_host_is_sound("a:b"));
    cr_expect_not(certificate_host_is_sound("*.a"));
}
