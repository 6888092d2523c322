/* SPDX-License-Identifier: Apache-2.0 */
#include "partition/vendor.h"

#include <stddef.h>
#include <string.h>

#include "base/auto.h"

#include "api/share_request.h"

const struct vendor vendors[] = {
    {.name = "metax",
     .title = "MetaX",
     .domain = "metax-tech.com/",
     .card = "metax-tech.com/gpu",
     .slice = "metax-tech.com/sgpu",
     .function = "metax-tech.com/vgpu",
     .pci = 0x9999,
     .koordinator = {.model_prefix = "MX", .link = "MetaXLink"}},
    {.name = "nvidia",
     .title = "NVIDIA",
     .domain = "nvidia.com/",
     .card = "nvidia.com/gpu",
     .part = "nvidia.com/mig-",
     .has_mps = true,
     .has_shares = true,
     .pci = 0x10de,
     .module = "nvidia",
     .koordinator =
         {.model_prefix = "NVIDIA ", .link = "NVLink", .has_gpu = true, .tells_driver = true}},
    {0},
};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* True for the word alone, or followed by `more` and anything after it. */
static bool is_named(const char *text, const char *word, const char *more)
{
    return begins(text, word) && (text[strlen(word)] == '\0' || begins(text + strlen(word), more));
}

/* The words by which schedulers count shares (share_numbers.h), and the slots beside others' words. */
static bool is_of_shares(const char *resource)
{
    static const char *const words[] = {SHARE_MEMORY, SHARE_MEMORY_PERCENT, SHARE_COMPUTE,
                                        SHARE_SLOT};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(resource, words[i]) == 0)
            return true;
    return false;
}

static bool offers(const struct vendor *v, const char *resource)
{
    return is_named(resource, v->card, ".shared") || (v->part && begins(resource, v->part)) ||
           (v->slice && is_named(resource, v->slice, "-")) ||
           (v->has_shares && is_of_shares(resource)) ||
           (v->function && strcmp(resource, v->function) == 0);
}

bool vendor_offers(const char *resource)
{
    for (const struct vendor *v = vendors; v->name; v++)
        if (offers(v, resource))
            return true;
    return false;
}

bool vendor_owns(const char *resource)
{
    for (const struct vendor *v = vendors; v->name; v++)
        if (begins(resource, v->domain) || offers(v, resource))
            return true;
    return false;
}

const struct vendor *vendor_find(const char *name)
{
    for (const struct vendor *v = vendors; name && v->name; v++)
        if (strcmp(v->name, name) == 0)
            return v;
    return NULL;
}

const char *vendor_title(const char *name)
{
    const struct vendor *v = vendor_find(name);
    if (v)
        return v->title;
    return name ? name : "unknown";
}
