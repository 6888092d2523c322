/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <assert.h>
#include <jansson.h>

#include "base/err.h"

/*
 * Defines check_<type>(obj): what decodes must encode and decode back equal, what does not must say
 * why. look is called with what was decoded.
 */
#define DEFINE_ROUND_TRIP(type, key, look)                                                         \
    static void check_##type(const json_t *obj)                                                    \
    {                                                                                              \
        auto_err struct err e = {0};                                                               \
        auto_##type struct type first;                                                             \
        int rc = type##_decode(obj, &first, &e);                                                   \
        assert((rc < 0) == (e.msg != NULL));                                                       \
        if (rc < 0)                                                                                \
            return;                                                                                \
        look(&first);                                                                              \
        auto_json json_t *once = json_pack("{s:o}", key, type##_encode(&first));                   \
        auto_##type struct type second;                                                            \
        rc = type##_decode(once, &second, NULL);                                                   \
        auto_json json_t *twice = json_pack("{s:o}", key, type##_encode(&second));                 \
        assert(rc == 0 && json_equal(once, twice));                                                \
    }
