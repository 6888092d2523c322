/* SPDX-License-Identifier: Apache-2.0 */
/* MXSML: events. Contracts are MXSML's own. */
#include <stdio.h>

#include "sim/event_set.h"
#include "sim/mxsml_session.h"

/* A set behind MXSML's handle type. */
static struct event_set *set_of(mxsml_event_set_t set)
{
    return (struct event_set *)(void *)set;
}

unsigned int mxSmlEventSetCreate(mxsml_event_set_t *set)
{
    struct mx_call c = {.id = CALL_mxSmlEventSetCreate};
    int rc = mx_enter(&c, 0, MX_ON_NOTHING);
    if (rc == MXSML_SUCCESS && set == NULL)
        rc = MXSML_INVALID_INPUT;
    struct event_set *s = rc == MXSML_SUCCESS ? event_set_new(c.hw->event_sequence) : NULL;
    if (rc == MXSML_SUCCESS && s == NULL)
        rc = MXSML_FAILURE;
    if (s != NULL)
        *set = (mxsml_event_set_t)(void *)s;
    return mx_leave(&c, rc);
}

/* Assumed: types other than the documented one are refused. */
unsigned int mxSmlDeviceRegisterEvents(unsigned int dev, unsigned long long types,
                                       mxsml_event_set_t set)
{
    struct mx_call c = {.id = CALL_mxSmlDeviceRegisterEvents};
    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
    if (rc == MXSML_SUCCESS && (types == 0 || (types & ~MXSML_EVENT_ERROR_ID) != 0))
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS && !event_set_register(set_of(set), HW_METAX + c.metax, types))
        rc = MXSML_INVALID_INPUT;
    return mx_leave(&c, rc);
}

/* Assumed: the data is text; its content is not documented. */
unsigned int mxSmlEventSetWait(mxsml_event_set_t set, struct mxsml_event *event)
{
    struct mx_call c = {.id = CALL_mxSmlEventSetWait, .waits = true};
    struct hw_event found = {0};
    int rc = mx_enter(&c, 0, MX_ON_NOTHING);
    if (rc == MXSML_SUCCESS && event == NULL)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS &&
        event_set_wait(mx_state(), set_of(set), /* timeout_ms= */ -1, NULL, &found) != EVENT_FOUND)
        rc = MXSML_INVALID_INPUT;
    if (rc == MXSML_SUCCESS) {
        struct mx_inventory inv = mx_inventory();
        *event = (struct mxsml_event){.device_id = (int)mx_index_of(&inv, found.gpu - HW_METAX),
                                      .type = (int)found.type};
        (void)snprintf(event->data, sizeof(event->data), "%s", found.text);
    }
    return mx_leave(&c, rc);
}

unsigned int mxSmlEventSetFree(mxsml_event_set_t set)
{
    struct mx_call c = {.id = CALL_mxSmlEventSetFree};
    int rc = mx_enter(&c, 0, MX_ON_NOTHING);
    if (rc == MXSML_SUCCESS && !event_set_drop(set_of(set)))
        rc = MXSML_INVALID_INPUT;
    return mx_leave(&c, rc);
}
