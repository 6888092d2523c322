/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/commands/limiter_install.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "nodeagent/commands/host_copy.h"
#include "nodeagent/slots/limiter_files.h"
#include "nodeagent/vendor/vendors.h"

enum { FILE_BYTES = 16 << 20, FOLDER_MODE = 0755, FILE_MODE = 0644 };

/* Calls fn with the path of each library in the folder. */
static int for_each(const char *from, int (*fn)(void *arg, const char *path, struct err *e),
                    void *arg, struct err *e)
{
    for (size_t v = 0; vendor_backends[v]; v++) {
        const struct container_vendor *c = vendor_backends[v]->container;
        for (const struct container_shim *s = c->shims; s && s->library; s++) {
            auto_free char *path = xasprintf("%s/%s", from, s->file);
            TRY(fn(arg, path, e));
        }
    }
    return 0;
}

/* --- The name of a version --- */

static void free_digest(EVP_MD_CTX **d)
{
    EVP_MD_CTX_free(*d);
}

static int add_file(void *arg, const char *path, struct err *e)
{
    EVP_MD_CTX *digest = arg;
    auto_free char *text = NULL;
    size_t len = 0;
    TRY(file_read(path, FILE_BYTES, &text, &len, e));
    if (EVP_DigestUpdate(digest, text, len) != 1)
        return err_set(e, ERR_SYSTEM, "digest of %s", path);
    return 0;
}

static int name_of(const char *from, char ret[LIMITER_NAME_BYTES], struct err *e)
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *digest __attribute__((cleanup(free_digest))) = EVP_MD_CTX_new();
    if (!digest || EVP_DigestInit_ex(digest, EVP_sha256(), NULL) != 1)
        return err_set(e, ERR_SYSTEM, "digest of the limiter's libraries");
    TRY(for_each(from, add_file, digest, e));
    if (EVP_DigestFinal_ex(digest, bytes, NULL) != 1)
        return err_set(e, ERR_SYSTEM, "digest of the limiter's libraries");
    for (size_t i = 0; i + 1 < LIMITER_NAME_BYTES; i += 2)
        (void)snprintf(&ret[i], 3, "%02x", bytes[i / 2]);
    return 0;
}

/* --- Copying --- */

static int copy(void *arg, const char *path, struct err *e)
{
    return host_copy(path, arg, FILE_MODE, e);
}

int limiter_install(const char *from, const char *to, char **ret, struct err *e)
{
    char name[LIMITER_NAME_BYTES];
    if (access(from, F_OK) < 0 && errno == ENOENT) {
        *ret = NULL;
        return 0;
    }
    TRY(name_of(from, name, e));
    auto_free char *folder = xasprintf("%s/%s", to, name);
    TRY(file_make_dirs(folder, FOLDER_MODE, e));
    TRY(for_each(from, copy, folder, e));
    *ret = TAKE(folder);
    return 0;
}
