/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * Upper bounds of MIG on one card: today's drivers, with room. Tables of profiles beyond them are
 * refused where they are read (mig_table_check), and objects by the schema: crds/ has the same
 * numbers, and api_tables_test compares them.
 */
#define MIG_MAX_MEMORY_SLICES 32                  /* memory slices in the grid of a card */
#define MIG_MAX_PROFILES      32                  /* in a table */
#define MIG_MAX_PLACEMENTS    16                  /* of one profile */
#define MIG_MAX_INSTANCES     16                  /* GPU instances of a card */
#define MIG_MAX_CIS           8                   /* compute instances of a GPU instance */
#define MIG_MAX_SLICES        8                   /* compute slices of a card */
#define MIG_MAX_WANTS         32                  /* kinds of partitions in the want of a card */
#define MIG_MAX_MEMORY_MIB    (UINT64_C(1) << 24) /* 16 TiB, for one card */
