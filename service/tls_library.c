/* SPDX-License-Identifier: Apache-2.0 */
#include "service/tls_library.h"

#include <assert.h>
#include <dlfcn.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libgnutls.so.30"

/* The functions that libmicrohttpd names, and the one by which http_front.c judges visitors'
 * certificates: result, name, parameters, arguments. */
#define FUNCTIONS(X)                                                                               \
    X(int, alpn_set_protocols,                                                                     \
      (gnutls_session_t s, const gnutls_datum_t *p, unsigned n, unsigned flags), (s, p, n, flags)) \
    X(int, bye, (gnutls_session_t s, gnutls_close_request_t how), (s, how))                        \
    X(int, certificate_allocate_credentials, (gnutls_certificate_credentials_t * ret), (ret))      \
    X(int, certificate_set_x509_key_mem,                                                           \
      (gnutls_certificate_credentials_t c, const gnutls_datum_t *cert, const gnutls_datum_t *key,  \
       gnutls_x509_crt_fmt_t kind),                                                                \
      (c, cert, key, kind))                                                                        \
    X(int, certificate_set_x509_key_mem2,                                                          \
      (gnutls_certificate_credentials_t c, const gnutls_datum_t *cert, const gnutls_datum_t *key,  \
       gnutls_x509_crt_fmt_t kind, const char *password, unsigned flags),                          \
      (c, cert, key, kind, password, flags))                                                       \
    X(int, certificate_set_x509_trust_mem,                                                         \
      (gnutls_certificate_credentials_t c, const gnutls_datum_t *ca, gnutls_x509_crt_fmt_t kind),  \
      (c, ca, kind))                                                                               \
    X(int, certificate_verify_peers,                                                               \
      (gnutls_session_t s, gnutls_typed_vdata_st * data, unsigned n, unsigned *ret_faults),        \
      (s, data, n, ret_faults))                                                                    \
    X(gnutls_cipher_algorithm_t, cipher_get, (gnutls_session_t s), (s))                            \
    X(int, credentials_set, (gnutls_session_t s, gnutls_credentials_type_t kind, void *c),         \
      (s, kind, c))                                                                                \
    X(int, dh_params_import_pkcs3,                                                                 \
      (gnutls_dh_params_t p, const gnutls_datum_t *pkcs3, gnutls_x509_crt_fmt_t kind),             \
      (p, pkcs3, kind))                                                                            \
    X(int, dh_params_init, (gnutls_dh_params_t * ret), (ret))                                      \
    X(int, handshake, (gnutls_session_t s), (s))                                                   \
    X(int, init, (gnutls_session_t * ret, unsigned flags), (ret, flags))                           \
    X(int, priority_init, (gnutls_priority_t * ret, const char *text, const char **ret_at),        \
      (ret, text, ret_at))                                                                         \
    X(int, priority_set, (gnutls_session_t s, gnutls_priority_t p), (s, p))                        \
    X(gnutls_protocol_t, protocol_get_version, (gnutls_session_t s), (s))                          \
    X(int, psk_allocate_server_credentials, (gnutls_psk_server_credentials_t * ret), (ret))        \
    X(size_t, record_check_pending, (gnutls_session_t s), (s))                                     \
    X(int, record_get_direction, (gnutls_session_t s), (s))                                        \
    X(ssize_t, record_recv, (gnutls_session_t s, void *to, size_t n), (s, to, n))                  \
    X(ssize_t, record_send, (gnutls_session_t s, const void *from, size_t n), (s, from, n))        \
    X(void *, session_get_ptr, (gnutls_session_t s), (s))                                          \
    X(const char *, strerror, (int error), (error))                                                \
    X(void, certificate_free_credentials, (gnutls_certificate_credentials_t c), (c))               \
    X(void, certificate_server_set_request,                                                        \
      (gnutls_session_t s, gnutls_certificate_request_t what), (s, what))                          \
    X(void, certificate_set_dh_params, (gnutls_certificate_credentials_t c, gnutls_dh_params_t p), \
      (c, p))                                                                                      \
    X(void, certificate_set_retrieve_function2,                                                    \
      (gnutls_certificate_credentials_t c, gnutls_certificate_retrieve_function2 * f), (c, f))     \
    X(void, certificate_set_retrieve_function3,                                                    \
      (gnutls_certificate_credentials_t c, gnutls_certificate_retrieve_function3 * f), (c, f))     \
    X(void, deinit, (gnutls_session_t s), (s))                                                     \
    X(void, dh_params_deinit, (gnutls_dh_params_t p), (p))                                         \
    X(void, priority_deinit, (gnutls_priority_t p), (p))                                           \
    X(void, psk_free_server_credentials, (gnutls_psk_server_credentials_t c), (c))                 \
    X(void, psk_set_server_credentials_function,                                                   \
      (gnutls_psk_server_credentials_t c, gnutls_psk_server_credentials_function * f), (c, f))     \
    X(void, session_set_ptr, (gnutls_session_t s, void *p), (s, p))                                \
    X(void, transport_set_int2, (gnutls_session_t s, int in, int out), (s, in, out))

#define FIELD(result, name, parameters, arguments) __typeof__(gnutls_##name) *name;
#define NAME(result, name, parameters, arguments)                                                  \
    {"gnutls_" #name, offsetof(struct functions, name)},

struct functions {
    FUNCTIONS(FIELD)
};

static const struct {
    const char *name;
    size_t at; /* its member of struct functions */
} names[] = {FUNCTIONS(NAME)};

/* Written once, before the process has a second thread. All NULL: not loaded. */
static struct functions loaded;

#define FORWARD(result, name, parameters, arguments)                                               \
    result gnutls_##name parameters                                                                \
    {                                                                                              \
        assert(loaded.name);                                                                       \
        return loaded.name arguments;                                                              \
    }
FUNCTIONS(FORWARD)

/* libmicrohttpd calls these two in every process. The library needs neither: it is initialised by
 * being loaded. */
int gnutls_global_init(void)
{
    return 0;
}

void gnutls_global_deinit(void)
{
}

/* A variable of the library, with its value there. */
gnutls_alloc_function gnutls_malloc = malloc;

/* The note of https://systemd.io/ELF_DLOPEN_METADATA. */
#define NOTE                                                                                       \
    "[{\"soname\":[\"" LIBRARY                                                                     \
    "\"],\"feature\":\"tls\",\"description\":\"metrics over TLS\",\"priority\":\"recommended\"}]"

static const struct {
    uint32_t owner_len, text_len, type;
    char owner[4];
    _Alignas(4) char text[sizeof(NOTE)];
} note __attribute__((used, retain, section(".note.dlopen"), aligned(4))) = {
    .owner_len = 4,
    .text_len = sizeof(NOTE),
    .type = 0x407c0c0a,
    .owner = "FDO",
    .text = NOTE,
};

int tls_library_load(struct err *e)
{
    struct functions found = {0};
    if (loaded.init)
        return 0;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return err_set(e, ERR_UNAVAILABLE, "TLS needs " LIBRARY ": %s", dlerror());
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        void *f = dlsym(library, names[i].name);
        if (!f)
            return err_set(e, ERR_UNAVAILABLE, LIBRARY " has no %s", names[i].name);
        memcpy((char *)&found + names[i].at, &f, sizeof(f));
    }
    loaded = found;
    return 0;
}
