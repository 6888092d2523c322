/* SPDX-License-Identifier: Apache-2.0 */
/* cleave-simctl: the parts that its commands share. One thread; an error ends the program with a
 * message. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/state.h"

/* The command line after the command's name. Options may be anywhere among the words. */
struct args {
    int count;
    char **words;
};

/* Prints "cleave-simctl: ..." and exits with 2. */
_Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...);

/* Takes "--name VALUE" out of the words: NULL when absent. */
const char *take_option(struct args *a, const char *name);

/* Takes "--name" out of the words. */
bool take_flag(struct args *a, const char *name);

/* The next plain word, or NULL; and the check that no word is left. */
const char *take_word(struct args *a);
void take_end(const struct args *a);

/* A number option; `otherwise` when absent. */
uint32_t take_number(struct args *a, const char *name, uint32_t otherwise);

/* --gpu as index ("metax:0" of a MetaX card), UUID or bus id: the number of a card of any vendor
 * (hw.h). Must be given. */
uint32_t take_card(struct args *a, const struct hw *hw);

/* The same for a card that must be NVIDIA's, or MetaX's: its index among those. */
uint32_t take_gpu(struct args *a, const struct hw *hw);
uint32_t take_metax(struct args *a, const struct hw *hw);

/* The path of a name below a folder that serves as the root, with its folders made. */
void place_file(const char *root, const char *name, char *ret, size_t size);

/* Counts ECC errors of a MetaX card, as given by the remaining words. */
void metax_ecc(struct hw *hw, uint32_t metax, struct args *a);

/* The MetaX cards of a machine, as text and as JSON. */
struct json_t;
void metax_show(const struct hw *hw);
struct json_t *metax_json(const struct hw *hw);

/* The next word as a number; must be there. */
uint32_t word_number(struct args *a);

/* Ends the program when an NVML code is a failure. */
void check(int code, const char *what);

/* Commands: each gets the open state and its words. */
typedef void command_fn(struct state *s, struct args *a);
command_fn show, attach, detach, xid, ecc, remap, nvlink, temperature, recovery_action, lost,
    fault_command, latency, log_command, calls_command, reboot_command, driver_root, dev_root,
    sys_root, unavailable, vfs, event_command, limited, slice_command, driver_lock, persistence,
    timeslices_command;
