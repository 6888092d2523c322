/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * MetaX's library gone mad. A unit test loads it as a shared object of its own and finds these by
 * name; in a fuzzer it is part of the program (library "", see nvml_mad.h).
 */

/* Static text, one of those in mxsml_mad.c; "" is sane. */
void mxsml_mad_about(const char *what);
/* Bytes that change answers, borrowed until they are used up. The first says whether there is a
 * third card, cut into virtual functions. */
void mxsml_mad_feed(const uint8_t *bytes, size_t n);
