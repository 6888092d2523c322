/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubectl/picture.h"
#include "kubectl/screen.h"

/*
 * A card as a bar of parts: "[2g.20gb##|1g.10gb-|.......]". Each part is as wide as its weight
 * says, and at least one column; its name is cut to what fits. After the name: '#' used, '-' free,
 * '!' ill, '.' room that is not cut. Pure.
 */

/* Appends the bar, of so many columns with its brackets. More parts than columns: as many as there
 * are columns for, and '>'. */
void bar_add(const struct picture *p, size_t columns, const struct screen *s, struct sb *ret);
