/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/metax/mxsml_lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "base/auto.h"

#include "nodeagent/gpu/lib_table.h"

/* By name, then the folder of MetaX's driver package, which is not in the loader's paths. */
static const char *const places[] = {"libmxsml.so", "/opt/mxdriver/lib/libmxsml.so",
                                     "/opt/maca/lib/libmxsml.so"};

#define SYMBOL(member, must, name, result, args)                                                   \
    {.newest = (name), .offset = offsetof(struct mxsml_lib, member), .needed = (must)},
#define NAME_OF(member, must, name, result, args) .member = (name),

const struct mxsml_names mxsml_names = {MXSML_FUNCTIONS(NAME_OF)};

static const struct lib_symbol symbols[] = {
    MXSML_FUNCTIONS(SYMBOL){.newest = "mxSmlGetErrorString",
                            .offset = offsetof(struct mxsml_lib, error_string)},
};

static int open_at(const char *path, struct mxsml_lib *ret, struct err *e)
{
    struct mxsml_lib lib = {0};
    TRY(lib_table_open(path, "MetaX", symbols, ARRAY_LEN(symbols), &lib, &lib.dl, e));
    *ret = lib;
    return 0;
}

int mxsml_lib_open(const char *path, struct mxsml_lib *ret, struct err *e)
{
    if (path)
        return open_at(path, ret, e);
    int rc = open_at(places[0], ret, e);
    for (size_t i = 1; i < ARRAY_LEN(places) && rc == -(int)ERR_NOT_FOUND; i++)
        if (open_at(places[i], ret, /* e= */ NULL) == 0) {
            err_clear(e);
            rc = 0;
        }
    return rc;
}

void mxsml_lib_close(struct mxsml_lib *lib)
{
    if (lib->dl)
        (void)dlclose(lib->dl);
    *lib = (struct mxsml_lib){0};
}

/* --- errors --- */

struct meaning {
    enum err_kind kind;
    const char *reason;
};

/* The library is a client of sysfs, so the kernel's errno is the real cause. */
static struct meaning meaning_of_errno(int saved_errno)
{
    switch (saved_errno) {
    case EBUSY:
        return (struct meaning){ERR_UNAVAILABLE, "InUse"};
    case EINVAL:
    case ERANGE:
        return (struct meaning){ERR_INVALID, "Refused"};
    case ENOSPC:
    case ENOMEM:
        return (struct meaning){ERR_CONFLICT, "InsufficientResources"};
    case EACCES:
    case EPERM:
        return (struct meaning){ERR_FORBIDDEN, "NoPermission"};
    case EROFS:
        return (struct meaning){ERR_FORBIDDEN, "ReadOnlySysfs"};
    case ENODEV:
    case ENXIO:
        return (struct meaning){ERR_UNAVAILABLE, "GPULost"};
    default:
        return (struct meaning){ERR_UNAVAILABLE, "MXSMLError"};
    }
}

static struct meaning meaning_of(mxsml_ret rc, int saved_errno)
{
    switch (rc) {
    case MXSML_NO_DEVICE:
        return (struct meaning){ERR_NOT_FOUND, "DriverNotLoaded"};
    case MXSML_INVALID_DEVICE:
    case MXSML_NO_VF:
        return (struct meaning){ERR_NOT_FOUND, "GPULost"};
    case MXSML_NOT_SUPPORTED:
    case MXSML_NO_FUNCTION:
    case MXSML_INVALID_INPUT:
        return (struct meaning){ERR_INVALID, "NotSupported"};
    case MXSML_PERMISSION_DENIED:
        return (struct meaning){ERR_FORBIDDEN, "NoPermission"};
    case MXSML_INSUFFICIENT_SIZE:
        return (struct meaning){ERR_TOO_LARGE, "MXSMLError"};
    case MXSML_BUSY:
        return (struct meaning){ERR_UNAVAILABLE, "InUse"};
    case MXSML_SYSFS_ERROR:
    case MXSML_SYSFS_WRITE_ERROR:
        return meaning_of_errno(saved_errno);
    default:
        return (struct meaning){ERR_UNAVAILABLE, "MXSMLError"};
    }
}

static const char *words(const struct mxsml_lib *lib, mxsml_ret rc)
{
    if (rc == MXSML_NO_FUNCTION)
        return "the library has no such function";
    const char *text = lib->error_string ? lib->error_string(rc) : NULL;
    return text ? text : "unknown error";
}

int mxsml_lib_error(const struct mxsml_lib *lib, const char *call, mxsml_ret rc, int saved_errno,
                    struct err *e)
{
    struct meaning m = meaning_of(rc, saved_errno);
    bool of_sysfs = rc == MXSML_SYSFS_ERROR || rc == MXSML_SYSFS_WRITE_ERROR;
    int ret = err_set(e, m.kind, "%s: %s (MXSML error %u)%s%s", call, words(lib, rc), rc,
                      of_sysfs ? ": " : "", of_sysfs ? strerrordesc_np(saved_errno) : "");
    if (e)
        e->reason = m.reason;
    return ret;
}
