/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"
#include "base/err.h"

/*
 * What HAMi's configuration says of NVIDIA's cards, key by key (pkg/device/nvidia/device.go,
 * NvidiaConfig and DevicePluginConfigs; v2.4 to v2.10). A key is translated, or asks for nothing that
 * is not done, or has a notice, or cannot be meant here and is an error. Pure.
 */

/* A key that is not done here, and what to do instead. */
struct hami_notice {
    char *where, *why;
};

enum { HAMI_MAX_NOTICES = 256 };

struct hami_notices {
    struct hami_notice *items; /* the first HAMI_MAX_NOTICES of them */
    size_t n;
    size_t more; /* how many there were beyond */
};
void hami_notices_add(struct hami_notices *to, const char *where, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
void hami_notices_done(struct hami_notices *n);

/* How a card is given out, in a GPUProfile's units and within its bounds. */
struct hami_settings {
    int64_t shares, memory_percent, compute_percent;
};
/* The settings of HAMi's chart, for what a file does not say. */
#define HAMI_SETTINGS_DEFAULT ((struct hami_settings){10, 100, 100})

/* The section nvidia of device-config.yaml. Settings that it does not say, or says as 0, stay.
 * ERR_INVALID names the key. */
int hami_settings_read(const json_t *section, struct hami_settings *s, struct hami_notices *to,
                       struct err *e) MUST_CHECK;
/* An entry of a node in config.json, whose keys HAMi reads in any case; where: its path. "name",
 * "operatingmode" and "filterdevices" are the caller's. */
int hami_settings_read_node(const json_t *entry, const char *where, struct hami_settings *s,
                            struct hami_notices *to, struct err *e) MUST_CHECK;
/* The member of this name in any case, as Go's decoder finds it; NULL: there is none, or it is null.
 * Borrowed. */
const json_t *hami_member(const json_t *obj, const char *name);
