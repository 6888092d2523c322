/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/*
 * MIG profile names: `[<C>c.]<G>g.<GB>gb[+attr|-attr]` (go-nvlib pkg/nvlib/device/mig_profile.go).
 * A compute-instance prefix is present only when it differs from the GPU instance's slices.
 */
#define MIG_NAME_BYTES 40
#define MIG_ATTR_BYTES 20

struct mig_name {
    unsigned ci_slices; /* 0: the whole GPU instance */
    unsigned gi_slices;
    unsigned gb;
    char attr[MIG_ATTR_BYTES]; /* "", "+me", "+gfx", "+me.all", "-me", … */
};

/* Accepts the driver's "MIG 1g.10gb" spelling and the label spelling with '.' for '+' only through
 * mig_name_parse_label. ERR_INVALID says what is wrong with the name. */
int mig_name_parse(const char *s, struct mig_name *ret, struct err *e) MUST_CHECK;
/* The spelling in resource names and labels: "1g.5gb.me", "1g.24gb-me". */
int mig_name_parse_label(const char *s, struct mig_name *ret, struct err *e) MUST_CHECK;
/* Canonical text; buf holds MIG_NAME_BYTES. Returns buf. */
char *mig_name_format(const struct mig_name *n, char *buf);
/* The same with '+' written as '.', for resource names (nvidia.com/mig-<this>). */
char *mig_name_format_label(const struct mig_name *n, char *buf);
