/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/mode/card_mode.h"

/* A whole card. */
extern const struct card_mode card_mode_native;
const struct card_mode card_mode_native = {.word = "whole", .bare = "whole", .summary = "gpu"};
