/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/offer/host_setup.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

#include "nodeagent/container/rooted.h"
#include "nodeagent/vendor/vendors.h"
#include "partition/vendor.h"

static void read_module(const char *sys_root, const char *module, struct vendor_setup *ret)
{
    struct stat st;
    auto_free char *folder = xasprintf("%s/module/%s", sys_root, module);
    auto_free char *path = xasprintf("%s/version", folder);
    ret->module = stat(folder, &st) == 0;
    if (file_read_head(path, ret->version, sizeof(ret->version), NULL) < 0)
        ret->version[0] = '\0';
    ret->version[strcspn(ret->version, "\n")] = '\0';
}

/* The first of the paths that leads to something, as it is in the list. */
static void find(const char *host_root, const char *const *paths, char *ret, size_t size)
{
    for (; paths && *paths; paths++) {
        auto_free char *real = NULL;
        if (rooted_resolve(host_root, *paths, &real, NULL) < 0)
            continue;
        assert(strlen(*paths) < size);
        (void)snprintf(ret, size, "%s", *paths);
        return;
    }
}

static void read_vendor(const struct vendor_backend *b, const char *sys_root, const char *host_root,
                        struct vendor_setup *ret)
{
    const struct vendor *v = vendor_find(b->name);
    *ret = (struct vendor_setup){.vendor = b->name};
    if (v && v->module)
        read_module(sys_root, v->module, ret);
    find(host_root, b->libraries, ret->library, sizeof(ret->library));
    find(host_root, b->runtimes, ret->runtime, sizeof(ret->runtime));
}

void host_setup_read(const struct host_setup_where *w, struct host_setup *io)
{
    const struct cri_runtime before = io->runtime;
    const char *host_root = w->host_root ? w->host_root : "/";
    *io = (struct host_setup){.known = true};
    for (size_t i = 0; vendor_backends[i]; i++) {
        assert(i < HOST_MAX_VENDORS);
        read_vendor(vendor_backends[i], w->sys_root ? w->sys_root : "/sys", host_root,
                    &io->vendors[i]);
    }
    cri_runtime_read(w->proc_root ? w->proc_root : "/proc", host_root, &before, &io->runtime);
}

const struct vendor_setup *host_setup_of(const struct host_setup *s, const char *vendor)
{
    for (size_t i = 0; i < HOST_MAX_VENDORS && s->vendors[i].vendor; i++)
        if (strcmp(s->vendors[i].vendor, vendor) == 0)
            return &s->vendors[i];
    return NULL;
}
