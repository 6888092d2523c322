/* SPDX-License-Identifier: Apache-2.0 */
#include "service/liveness.h"

int liveness_page(void *arg, struct sb *body)
{
    if (!heartbeats_check(arg, body))
        return 500;
    sb_add(body, "ok\n");
    return 200;
}
