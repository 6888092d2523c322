/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Checks on texts from a vendor's library, before they name files, objects or other programs'
 * arguments. Pure.
 */

/* True for a card's UUID: letters, digits and "-_.:", beginning with a letter or digit, and without
 * "::", behind which a device's id has the number of a replica. */
bool sound_is_name(const char *text);

/* True for a part's UUID: as above, and '/' (NVIDIA's drivers before 470 name MIG devices
 * MIG-GPU-…/1/0), but no "..". */
bool sound_is_part_name(const char *text);

/* True for a PCI address, domain:bus:device.function. */
bool sound_is_bus_id(const char *text);

/* Terminates a text for people within its room, and replaces all but printable ASCII by '?': as
 * UTF-8 it could exceed the length that a status allows. */
void sound_text(char *text, size_t room);

/* Terminates a text that fills its array. */
#define SOUND_END(text) ((text)[sizeof(text) - 1] = '\0')
