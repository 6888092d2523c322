/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA: what puts work on the card. */
#include "limiter/gate.h"
#include "limiter/real.h"
#include "limiter/streams.h"

static CUstream launch_stream(const struct launch_config *c)
{
    return c != NULL ? c->stream : NULL;
}

#define GATE(symbol, params, args, stream, name, version)                                          \
    CUresult symbol params                                                                         \
    {                                                                                              \
        struct gate_pass pass;                                                                     \
        if (gate_is_open())                                                                        \
            return real.symbol args;                                                               \
        gate_enter(&pass, stream);                                                                 \
        return gate_leave(&pass, real.symbol args);                                                \
    }
#include "limiter/gated.def"
