/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/gpu/telemetry.h"

#include <math.h>

void telemetry_values_init(struct telemetry_values *v)
{
    for (size_t i = 0; i < TELEMETRY_VALUES; i++)
        v->of[i] = (double)NAN;
}
