/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * For clang-tidy alone (hack/lint.sh includes it everywhere but in base/err.c). The analyzer sees
 * one file at a time: without being told that err_set and its kin return a negative number it walks
 * on behind TRY as if the call had gone well, and finds outs that nobody set.
 */
static inline int tidy_failed(int rc)
{
    return rc < 0 ? rc : -1;
}

#define err_set(...)       tidy_failed((err_set)(__VA_ARGS__))
#define err_set_errno(...) tidy_failed((err_set_errno)(__VA_ARGS__))
#define err_wrap(...)      tidy_failed((err_wrap)(__VA_ARGS__))
#define err_move(...)      tidy_failed((err_move)(__VA_ARGS__))
