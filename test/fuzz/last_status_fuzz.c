/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "nodeagent/report/koord_infos.h"
#include "nodeagent/report/last_status.h"
#include "nodeagent/report/node_status.h"

/*
 * Input: a Device as JSON whose status somebody wrote. The agent that starts with it, before it has
 * read a card, and with cards that cannot be read, publishes a status that the API server takes.
 */
#define MAX_BYTES (1UL << 20)
#define NOW_MS    1700000000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_published(const struct node_state *s, const struct device_status *last)
{
    auto_node_offer struct node_offer offer;
    auto_device_status struct device_status made = {0};
    auto_device_status struct device_status got = {0};
    node_offer_build(s, NOW_MS, &offer);
    node_status_build(s, &offer, last, NOW_MS, &made);
    auto_json json_t *obj = json_pack("{s:o}", "status", device_status_encode(&made));
    assert(device_status_decode(obj, &got, NULL) == 0);
    free(koord_infos_text(&made, s->spec));
}

/* Cards that are there and have not answered since the agent started. */
static void check_unread(struct node_state s, const struct device_status *last)
{
    auto_free struct card_view *views = xcalloc(last->n_devices, sizeof(*views));
    struct gpu_inventory inventory = {0};
    for (size_t i = 0; i < last->n_devices; i++) {
        struct gpu_card *c = &views[i].card;
        (void)snprintf(c->uuid, sizeof(c->uuid), "%s", last->devices[i].uuid);
        c->vendor = "nvidia";
        c->unread = true;
        c->index = (unsigned)i;
    }
    s.inventory = &inventory;
    s.cards = views;
    s.n_cards = last->n_devices;
    check_published(&s, last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_json json_t *obj = NULL;
    auto_device_status struct device_status last = {0};
    auto_device_spec struct device_spec spec = {0};
    if (jx_parse((const char *)data, len, MAX_BYTES, &obj, NULL) < 0 ||
        !last_status_read(json_object_get(obj, "status"), &last))
        return 0;
    (void)!device_spec_decode(obj, &spec, NULL);
    const struct node_state state = {.spec = &spec,
                                     .generation = 1,
                                     .spec_seen = true,
                                     .read_reason = "ReadFailed",
                                     .read_error = "the driver does not answer",
                                     .agent_version = "v1"};
    check_published(&state, &last);
    check_unread(state, &last);
    return 0;
}
