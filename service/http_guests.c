/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http_guests.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/xalloc.h"

static void send_away(struct guest *g)
{
    g->leaves = true;
    g->until_ms = 0;
    (void)shutdown(g->fd, SHUT_RDWR);
}

/* Closes the oldest until so few stay, other than the newest; known: also those that are known. */
static void close_oldest(struct guests *gs, bool known, size_t *staying)
{
    for (size_t i = 0; i + 1 < gs->n && *staying > HTTP_FRONT_CONNECTIONS; i++) {
        if (gs->all[i]->leaves || gs->all[i]->waits || (gs->all[i]->known && !known))
            continue;
        send_away(gs->all[i]);
        --*staying;
    }
}

/* Slow senders could hold all connections for ever and keep the kubelet's probes out, so the oldest
 * connection is closed to make room for the newest. One that waits for the parent is not slow, and
 * would leave no room before the answer is there. Strangers do not push out who showed his
 * certificate. */
static void make_room(struct guests *gs)
{
    size_t staying = 0;
    for (size_t i = 0; i < gs->n; i++)
        staying += !gs->all[i]->leaves;
    close_oldest(gs, /* known= */ false, &staying);
    close_oldest(gs, /* known= */ true, &staying);
}

struct guest *guests_admit(struct guests *gs, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    assert(info && gs->n < HTTP_FRONT_MAX_CONNECTIONS);
    struct guest *g = xmalloc(sizeof(*g));
    *g = (struct guest){.fd = info->connect_fd};
    gs->all[gs->n++] = g;
    make_room(gs);
    return g;
}

void guests_forget(struct guests *gs, struct guest *g)
{
    for (size_t i = 0; i < gs->n; i++)
        if (gs->all[i] == g) {
            memmove(&gs->all[i], &gs->all[i + 1], (--gs->n - i) * sizeof(g));
            free(g);
            return;
        }
}

struct guest *guest_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

void guests_dismiss_readers(struct guests *gs)
{
    for (size_t i = 0; i < gs->n; i++)
        if (gs->all[i]->reads && !gs->all[i]->leaves)
            send_away(gs->all[i]);
}

void guest_dismiss_idle(struct guest *g, int64_t idle_until_ms)
{
    if (!g->asked || g->asks || g->leaves)
        return;
    if (g->posted)
        g->until_ms = idle_until_ms;
    else
        send_away(g);
}

void guests_dismiss_idle(struct guests *gs, int64_t idle_until_ms)
{
    for (size_t i = 0; i < gs->n; i++)
        guest_dismiss_idle(gs->all[i], idle_until_ms);
}

int64_t guests_dismiss_late(struct guests *gs, int64_t now_ms)
{
    int64_t next_ms = 0;
    for (size_t i = 0; i < gs->n; i++) {
        struct guest *g = gs->all[i];
        if (!g->until_ms)
            continue;
        if (g->until_ms <= now_ms)
            send_away(g);
        else if (!next_ms || g->until_ms < next_ms)
            next_ms = g->until_ms;
    }
    return next_ms;
}
