/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/gpu/gpu.h"

/*
 * A machine with the simulator's cards for one test: a fleet, a state file, a /proc and a /sys of
 * its own. The test program must depend on the target `sim`.
 */

/* For TestSuite's init and fini. */
void sim_machine_start(void);
void sim_machine_stop(void);
/* The machine's folder: what would be /sys is below it, "sys", and /proc, "proc". */
const char *sim_machine_dir(void);
/* The cards, as the list of a fleet file: "[{model: h100-80, count: 2, mig: true}]". */
void sim_fleet(const char *gpus);
/* The library of the simulator behind struct gpu, as an agent opens NVIDIA's. Caller frees. */
struct gpu *sim_open(void);
/* The same for MetaX's library. */
struct gpu *sim_open_metax(void);
/* What happens to the hardware from outside: words of cleave-simctl, which must succeed. */
void sim_control(const char *words);
/* A function of one of the simulated libraries, as another program would call it. */
void *sim_symbol(const char *library, const char *name);
/* Reads all cards; fails the test when that fails. Caller: gpu_inventory_done. */
struct gpu_inventory sim_read(struct gpu *g);
/* Cuts a card into a named layout ("all-balanced"); MIG must be on, and nothing cut. */
void sim_cut_named(struct gpu *g, const struct gpu_card *card, const char *layout);
/* Makes one GPU instance by the name of its profile, with one compute instance of these slices. */
void sim_cut_part(struct gpu *g, const struct gpu_card *card, const char *profile, unsigned start,
                  unsigned ci_slices);
