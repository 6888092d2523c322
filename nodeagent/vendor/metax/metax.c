/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/metax/metax.h"

#include "nodeagent/vendor/metax/container_metax.h"
#include "nodeagent/vendor/metax/mxsml_open.h"

enum { LIBRARY };

static const struct vendor_option options[] = {
    [LIBRARY] = {"mxsml-library", "CLEAVE_MXSML_LIBRARY", "PATH",
                 "MetaX's library; absent: libmxsml.so"},
    {0},
};

static int open_cards(const struct vendor_host *h, struct gpu **ret, struct err *e)
{
    const struct mxsml_options o = {.library = h->values[LIBRARY],
                                    .proc_root = h->proc_root,
                                    .sys_root = h->sys_root};
    return gpu_mxsml_open(&o, ret, e);
}

/* As mx-smi topo prints them. */
static const struct vendor_links links = {
    .abbreviation = "MX",
    .legend = "MX    joined by MetaXLink\n",
};

static const char *const libraries[] = {
    "/opt/mxdriver/lib/libmxsml.so",
    "/opt/maca/lib/libmxsml.so",
    NULL,
};

const struct vendor_backend vendor_metax = {
    .name = "metax",
    .options = options,
    .open = open_cards,
    .container = &container_metax,
    .links = &links,
    .libraries = libraries,
    .cards_at_once = 16,
};
