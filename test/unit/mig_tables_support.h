/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "partition/mig.h"

/*
 * The models' tables as their drivers print them (`nvidia-smi mig -lgip`, `-lgipp`; where no print
 * was seen, NVIDIA's MIG user guide). For tests and the bench.
 */
struct mig_model {
    const char *name;
    struct mig_table table;
};

/* All models, ending with one whose name is NULL. */
extern const struct mig_model mig_models[];

/* The model of that name; aborts when there is none. */
const struct mig_table *mig_model(const char *name);

/* Index of a profile by its exact name; aborts when there is none. */
unsigned mig_profile_index(const struct mig_table *t, const char *name);
