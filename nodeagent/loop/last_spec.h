/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/device.h"

/*
 * The spec that this node's agent followed last: <state-dir>/spec/last.json. An agent that starts
 * while the API server is away offers the kubelet what exists on the cards, according to this spec.
 * It changes nothing: the Device may say something else by now. Versioned as all small files
 * (docs/adr/0020-records-across-versions.md).
 */
#define LAST_SPEC_VERSION 1

/* Replaces the file. A crash of the machine may leave the one before, or none that can be read.
 * ERR_SYSTEM. */
int last_spec_write(const char *state_dir, const struct device_spec *spec,
                    struct err *e) MUST_CHECK;
/* Free *ret with device_spec_done. ERR_NOT_FOUND: there is no file. ERR_CONFLICT, reason
 * OtherVersion: this release does not read its version. ERR_PROTOCOL, ERR_INVALID, ERR_TOO_LARGE:
 * it cannot be used. ERR_SYSTEM. */
int last_spec_read(const char *state_dir, struct device_spec *ret, struct err *e) MUST_CHECK;
