/* SPDX-License-Identifier: Apache-2.0 */

/* Criterion compares texts with libgit2, which reads all certificates that the machine trusts when
 * it starts: in each test's process, and under ASan a third of the time of an empty test. This
 * function takes the place of the one that reads them. Our programs use another library for TLS. */
int mbedtls_x509_crt_parse_file(void *chain, const char *path);

int mbedtls_x509_crt_parse_file(void *chain, const char *path)
{
    (void)chain;
    (void)path;
    return 0;
}
