/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Texts from a vendor's library, before files, objects and other programs are named by them. Pure.
 */

/* A UUID of a card: letters, digits and "-_.:", the first one a letter or digit. */
bool sound_is_name(const char *text);

/* A UUID of a part of a card: as above, and '/' (NVIDIA's drivers before 470 name MIG devices
 * MIG-GPU-…/1/0), but no "..". */
bool sound_is_part_name(const char *text);

/* A PCI address, domain:bus:device.function. */
bool sound_is_bus_id(const char *text);

/* Ends a text for people in its place, with '?' for what is no printable ASCII: as UTF-8 it would
 * become longer than a status may have it. */
void sound_text(char *text, size_t room);

/* Ends a text that fills its place. */
#define SOUND_END(text) ((text)[sizeof(text) - 1] = '\0')
