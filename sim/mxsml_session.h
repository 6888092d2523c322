/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process's side of MXSML: initialisation, the device indices, and the common parts of all
 * calls (session.h has those shared with other vendors' calls).
 *
 * Each MXSML function is written
 *
 *    struct mx_call c = {.id = CALL_mxSmlGetDeviceState};
 *    int rc = mx_enter(&c, dev, MX_ON_DEVICE);
 *    if (rc == MXSML_SUCCESS)
 *        rc = ...                     (reads c.hw, c.card, c.metax, c.vf)
 *    return mx_leave(&c, rc);
 *
 * The library reads the list of devices when it is initialised, and again only when
 * mxSmlInitWithFlags requests it. So a device index keeps its meaning, and its device may be gone.
 */
#pragma once

#include "sim/hw.h"
#include "sim/mxsml.h"
#include "sim/session.h"

/*
 * The kind of device that the index must have. MX_ON_CARD: a card that is not virtualised, else
 * OPERATION_NOT_SUPPORT; for slices and their settings.
 */
enum mx_on { MX_ON_NOTHING, MX_ON_DEVICE, MX_ON_CARD };

/* The device of an index as it was read: a card, or a virtual function of one. */
struct mx_device {
    uint32_t metax, vf; /* the card among MetaX's; vf HW_NONE: not a virtual function */
};

#define MX_MAX_DEVICES (MX_MAX_CARDS * MX_MAX_VFS)

/* The devices at the initialisation: native cards and virtual functions; physical functions of
 * virtualised cards; cards that the library cannot manage. */
struct mx_inventory {
    uint32_t device_count, pf_count, limited_count;
    struct mx_device devices[MX_MAX_DEVICES];
    struct mx_device pfs[MX_MAX_CARDS];
    struct mx_device limited[MX_MAX_CARDS];
};

/* Used by the caller's thread only. The pointers are into the locked hardware, valid until
 * mx_leave. */
struct mx_call {
    unsigned int id;
    bool waits; /* set by the caller: it takes the lock itself, as a call that waits must */
    struct hw *hw;
    struct mx_card *card;
    uint32_t metax, vf;
    struct turn turn;
};

/* Begins the call `c->id`; SUCCESS, or the return code with which to end it. */
int mx_enter(struct mx_call *c, unsigned int dev, enum mx_on on);

/* Ends it; call it in any case. Returns the MXSML function's result. errno stays. */
unsigned int mx_leave(struct mx_call *c, int rc);

/* Notes the arguments for the log. */
__attribute__((format(printf, 2, 3))) void mx_args(struct mx_call *c, const char *format, ...);

/* Opens the state at the first call; with `anew` reads the hardware again. */
unsigned int mx_init(unsigned int call_id, bool anew);

/* The open state of this process; valid inside an entered call. */
struct state *mx_state(void);

/* A copy of the list that the library read when it was initialised. Only inside a call. */
struct mx_inventory mx_inventory(void);

/* The device of an index; false when it is out of range, or a limited card's. */
bool mx_device_at(const struct mx_inventory *inventory, unsigned int dev, struct mx_device *ret);

/* The card of an index that the library cannot manage; false for another. */
bool mx_limited_at(const struct mx_inventory *inventory, unsigned int dev, uint32_t *ret_metax);

/* The index of a card: native, a physical function or limited; HW_NONE when it has none. */
uint32_t mx_index_of(const struct mx_inventory *inventory, uint32_t metax);

/* Copies text into a caller's buffer of *size: INSUFFICIENT_SIZE with *size what it needs. */
int mx_copy_text(char *buffer, unsigned int *size, const char *text);
