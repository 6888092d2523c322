/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>

#include "api/device.h"

/*
 * The resource names that the cluster's nodes offer, and those that its cards could give. By them a
 * pod that asks for a name that there is not is told from one whose cards are taken. Pure.
 */
struct known_names {
    json_t *all; /* an object whose keys are the names */
    size_t n_cards;
};

void known_names_init(struct known_names *k);
void known_names_done(struct known_names *k);
void known_names_add_node(struct known_names *k, const json_t *node);
void known_names_add_device(struct known_names *k, const struct device_status *st);
/* Why no change gives anything of this name, in words that end a sentence: "no card here has the
 * profile 9g.99gb". NULL: one may, or no card was seen. Caller frees. */
char *known_names_refusal(const struct known_names *k, const char *resource);
/* The names that look most like it: "nvidia.com/gpu, …"; NULL: none does. Caller frees. */
char *known_names_near(const struct known_names *k, const char *resource);
