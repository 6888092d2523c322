/* SPDX-License-Identifier: Apache-2.0 */
#include "api/feature_label.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "api/label_value.h"

const char *const feature_label_nvidia[] = {
    "cuda.driver-version.full",
    "cuda.driver-version.major",
    "cuda.driver-version.minor",
    "cuda.driver-version.revision",
    "cuda.driver.major",
    "cuda.driver.minor",
    "cuda.driver.rev",
    "cuda.runtime-version.full",
    "cuda.runtime-version.major",
    "cuda.runtime-version.minor",
    "cuda.runtime.major",
    "cuda.runtime.minor",
    "gfd.timestamp",
    "gpu.clique",
    "gpu.compute.major",
    "gpu.compute.minor",
    "gpu.family",
    "gpu.machine",
    "gpu.mode",
    "mig.capable",
    "mig.strategy",
    "mps.capable",
    "vgpu.host-driver-branch",
    "vgpu.host-driver-version",
    "vgpu.present",
    NULL,
};

const char *const feature_label_resource[] = {
    ".count",
    ".engines.copy",
    ".engines.decoder",
    ".engines.encoder",
    ".engines.jpeg",
    ".engines.ofa",
    ".memory",
    ".multiprocessors",
    ".product",
    ".replicas",
    ".sharing-strategy",
    ".slices.ci",
    ".slices.gi",
    NULL,
};

const char *const feature_label_metax[] = {
    "driver.major", "driver.minor", "driver.patch", "family",
    "installed",    "memory",       "product",      NULL,
};
static const char *const of_pci[] = {".present", ".sriov.capable", NULL};
const char *const feature_label_model[] = {".count", ".memory", NULL};

static bool is_one_of(const char *s, const char *const *list)
{
    for (size_t i = 0; list[i]; i++)
        if (strcmp(s, list[i]) == 0)
            return true;
    return false;
}

/* The text after the prefix, or NULL. */
static const char *behind(const char *s, const char *prefix)
{
    size_t len = strlen(prefix);
    return strncmp(s, prefix, len) == 0 ? s + len : NULL;
}

/* The length of the text before one of these endings; 0: it has none of them. */
static size_t before_ending(const char *s, const char *const *endings)
{
    size_t len = strlen(s);
    for (size_t i = 0; endings[i]; i++) {
        size_t end = strlen(endings[i]);
        if (len > end && strcmp(s + len - end, endings[i]) == 0)
            return len - end;
    }
    return 0;
}

static size_t digits(const char *s)
{
    return strspn(s, "0123456789");
}

/* "1g.10gb", "1c.3g.40gb", "1g.24gb.me.all", "1g.24gb-me": [<C>c.]<G>g.<GB>gb[.word…|-word]. */
static bool is_profile(const char *s, size_t len)
{
    const char *at = s;
    size_t n = digits(at);
    if (n && at[n] == 'c' && at[n + 1] == '.') {
        at += n + 2;
        n = digits(at);
    }
    if (!n || at[n] != 'g' || at[n + 1] != '.')
        return false;
    at += n + 2;
    n = digits(at);
    if (!n || at[n] != 'g' || at[n + 1] != 'b')
        return false;
    at += n + 2;
    for (; at < s + len; at++)
        if (!islower((unsigned char)*at) && *at != '.' && *at != '-')
            return false;
    return at == s + len;
}

static bool is_nvidia(const char *name)
{
    if (is_one_of(name, feature_label_nvidia))
        return true;
    const char *gpu = behind(name, "gpu");
    if (gpu && is_one_of(gpu, feature_label_resource))
        return true;
    const char *mig = behind(name, "mig-");
    size_t profile = mig ? before_ending(mig, feature_label_resource) : 0;
    return profile && is_profile(mig, profile);
}

static size_t hex_digits(const char *s)
{
    return strspn(s, "0123456789abcdef");
}

static bool is_pci(const char *s)
{
    size_t len = before_ending(s, of_pci);
    if (len == 4)
        return hex_digits(s) == 4;
    return len == 9 && hex_digits(s) == 4 && s[4] == '_' && hex_digits(s + 5) == 4;
}

/* True for the keys of a model's number of cards and memory, with a number as the value. */
static bool is_model(const char *s, const char *value)
{
    return before_ending(s, feature_label_model) && *value && value[digits(value)] == '\0';
}

bool feature_label_allowed(const char *key, const char *value)
{
    const char *name = strchr(key, '/');
    if (!name || strlen(name + 1) > LABEL_NAME_MAX || !name[1] || !label_value_legal(name + 1) ||
        !label_value_legal(value))
        return false;
    const char *nvidia = behind(key, FEATURE_NVIDIA);
    const char *metax = behind(key, FEATURE_METAX);
    const char *pci = behind(key, FEATURE_PCI);
    const char *model = behind(key, FEATURE_MODEL);
    if (nvidia)
        return is_nvidia(nvidia);
    if (metax)
        return is_one_of(metax, feature_label_metax);
    return (pci && is_pci(pci) && strcmp(value, "true") == 0) || (model && is_model(model, value));
}

bool feature_label_discovered(const char *key)
{
    return behind(key, FEATURE_NVIDIA) || behind(key, FEATURE_METAX) || behind(key, FEATURE_PCI);
}
