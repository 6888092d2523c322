/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/card_refusal.h"

#include <assert.h>
#include <stdio.h>

static void refuse(struct card_refusal *r, const char *reason, const char *text)
{
    assert(reason && text);
    r->reason = reason;
    (void)snprintf(r->text, sizeof(r->text), "%s", text);
}

void card_refusal_of(const struct card_view *v, const struct device_want *want, const char *illness,
                     const struct sharing_means *means, struct card_wish *ret_wish,
                     struct card_refusal *ret)
{
    auto_err struct err e = {0};
    const char *why = NULL; /* it cannot be shared */
    const char *unshareable = v ? sharing_refusal(v->card.vendor, want, means, &why) : NULL;
    ret->reason = NULL;
    if (!v)
        refuse(ret, "DeviceNotFound", "there is no such card on this node");
    else if (v->card.busy)
        refuse(ret, "Progressing", "the card was not read yet: another call works on it");
    else if (v->card.unread || v->unreadable)
        refuse(ret, "ReadFailed", v->card.unhealthy_message);
    else if (illness)
        refuse(ret, "Unhealthy", illness);
    else if (unshareable)
        refuse(ret, why, unshareable);
    else if (card_wish_of(&v->card, want, ret_wish, &e) < 0)
        refuse(ret, e.kind == ERR_NOT_FOUND ? "UnknownProfile" : "Invalid", err_msg(&e));
}
