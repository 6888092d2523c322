/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/mxsml_session.h"

#include <errno.h>
#include <string.h>

#include "sim/metax.h"
#include "sim/nvml.h"
#include "sim/proc_files.h"
#include "sim/proc_tree.h"

/* First index of cards that the library cannot manage. Assumed: they are counted separately. */
#define FIRST_LIMITED 200

static struct session session = {.mu = PTHREAD_MUTEX_INITIALIZER};

/* Guarded by the session's mutex. */
static struct mx_inventory inventory;

/* When two threads initialise at once, the second waits for the first. */
static pthread_mutex_t init_mu = PTHREAD_MUTEX_INITIALIZER;
static bool initialised; /* guarded by init_mu */

struct state *mx_state(void)
{
    return &session.state;
}

static void forget_after_fork(void)
{
    session_forget(&session);
    (void)pthread_mutex_init(&init_mu, NULL);
    initialised = false;
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

static void list_functions(struct mx_inventory *inv, uint32_t metax, uint32_t vf_count)
{
    inv->pfs[inv->pf_count++] = (struct mx_device){.metax = metax, .vf = HW_NONE};
    for (uint32_t vf = 0; vf < vf_count; vf++)
        inv->devices[inv->device_count++] = (struct mx_device){.metax = metax, .vf = vf};
}

/* Assumed: sorted by bus address, with the virtual functions of a card at its position. */
static struct mx_inventory list_devices(const struct hw *hw)
{
    struct mx_inventory inv = {0};
    for (uint32_t i = 0; i < hw->mx_count; i++) {
        const struct mx_card *card = &hw->mx_cards[i];
        struct mx_device whole = {.metax = i, .vf = HW_NONE};
        if (card->limited)
            inv.limited[inv.limited_count++] = whole;
        else if (card->vf_count > 0)
            list_functions(&inv, i, card->vf_count);
        else
            inv.devices[inv.device_count++] = whole;
    }
    return inv;
}

struct mx_inventory mx_inventory(void)
{
    (void)pthread_mutex_lock(&session.mu);
    struct mx_inventory copy = inventory;
    (void)pthread_mutex_unlock(&session.mu);
    return copy;
}

bool mx_device_at(const struct mx_inventory *inv, unsigned int dev, struct mx_device *ret)
{
    if (dev < inv->device_count)
        *ret = inv->devices[dev];
    else if (dev >= MXSML_FIRST_PF && dev - MXSML_FIRST_PF < inv->pf_count)
        *ret = inv->pfs[dev - MXSML_FIRST_PF];
    else
        return false;
    return true;
}

bool mx_limited_at(const struct mx_inventory *inv, unsigned int dev, uint32_t *ret_metax)
{
    bool there = dev >= FIRST_LIMITED && dev - FIRST_LIMITED < inv->limited_count;
    if (there)
        *ret_metax = inv->limited[dev - FIRST_LIMITED].metax;
    return there;
}

static uint32_t place_in(const struct mx_device *list, uint32_t count, uint32_t metax)
{
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].metax == metax && list[i].vf == HW_NONE)
            return i;
    }
    return HW_NONE;
}

uint32_t mx_index_of(const struct mx_inventory *inv, uint32_t metax)
{
    uint32_t i = place_in(inv->devices, inv->device_count, metax);
    if (i != HW_NONE)
        return i;
    i = place_in(inv->pfs, inv->pf_count, metax);
    if (i != HW_NONE)
        return MXSML_FIRST_PF + i;
    i = place_in(inv->limited, inv->limited_count, metax);
    return i != HW_NONE ? FIRST_LIMITED + i : HW_NONE;
}

/* The device as it is now; it may have gone since it was listed. */
static int resolve(struct mx_call *c, enum mx_on on)
{
    c->card = &c->hw->mx_cards[c->metax];
    if (c->metax >= c->hw->mx_count)
        return MXSML_NO_DEVICE;
    if (c->vf != HW_NONE && c->vf >= c->card->vf_count)
        return MXSML_TARGET_VF_NOT_FOUND;
    bool native = c->vf == HW_NONE && c->card->vf_count == 0;
    return on == MX_ON_CARD && !native ? MXSML_OPERATION_NOT_SUPPORT : MXSML_SUCCESS;
}

/* Assumed: an ordered sysfs error without an errno is EIO. */
static int fail(const struct fault *f)
{
    bool sysfs = f->value == MXSML_SYSFS_ERROR || f->value == MXSML_SYSFS_WRITE_ERROR;
    if (f->sys_errno != 0)
        errno = f->sys_errno;
    else if (sysfs)
        errno = EIO;
    return f->value;
}

static bool find_device(struct mx_call *c, unsigned int dev)
{
    struct mx_device d = {0};
    struct mx_inventory inv = mx_inventory();
    if (!mx_device_at(&inv, dev, &d))
        return false;
    c->metax = d.metax;
    c->vf = d.vf;
    return true;
}

/* Assumed: before mxSmlInit every call fails with Failure. */
int mx_enter(struct mx_call *c, unsigned int dev, enum mx_on on)
{
    struct fault fault = {0};
    if (!turn_begin(&c->turn, &session, c->id))
        return MXSML_FAILURE;
    bool known = on == MX_ON_NOTHING || find_device(c, dev);
    uint32_t card = on == MX_ON_NOTHING || !known ? HW_NONE : HW_METAX + c->metax;
    if (turn_play(&c->turn, card, &fault))
        return fail(&fault);
    if (!known)
        return MXSML_INVALID_DEVICE_ID;
    if (c->waits)
        return MXSML_SUCCESS;
    turn_lock(&c->turn);
    c->hw = c->turn.hw;
    return on == MX_ON_NOTHING ? MXSML_SUCCESS : resolve(c, on);
}

unsigned int mx_leave(struct mx_call *c, int rc)
{
    if (c->turn.session != NULL)
        turn_end(&c->turn, rc);
    return (unsigned int)rc;
}

void mx_args(struct mx_call *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    turn_args(&c->turn, format, args);
    va_end(args);
}

static int boot_machine(const struct hw *hw)
{
    if (hw->mx_count == 0)
        return MXSML_NO_DEVICE;
    if (proc_root() != NULL && proc_tree_boot(hw, state_tree_is_old(&session.state)))
        state_tree_is_new(&session.state);
    struct mx_inventory now = list_devices(hw);
    (void)pthread_mutex_lock(&session.mu);
    inventory = now;
    (void)pthread_mutex_unlock(&session.mu);
    return MXSML_SUCCESS;
}

/* Without a state, and without a fleet to make one from, the machine has no such card. */
static int code_of_session(int rc)
{
    if (rc == NVML_SUCCESS)
        return MXSML_SUCCESS;
    return rc == NVML_ERROR_DRIVER_NOT_LOADED ? MXSML_NO_DEVICE : MXSML_FAILURE;
}

static int open_session(bool was_open, bool anew)
{
    if (!was_open)
        return code_of_session(session_open(&session));
    return anew ? code_of_session(session_reopen(&session)) : MXSML_SUCCESS;
}

/* The library has no shutdown: the state stays open, and is read again only on request. init_mu is
 * held. */
static int init_locked(unsigned int call_id, bool anew)
{
    bool was_open = initialised;
    int rc = open_session(was_open, anew);
    initialised = rc == MXSML_SUCCESS;
    if (rc != MXSML_SUCCESS)
        return rc;
    struct mx_call c = {.id = call_id};
    rc = mx_enter(&c, 0, MX_ON_NOTHING);
    if (rc == MXSML_SUCCESS && (!was_open || anew))
        rc = boot_machine(c.hw);
    rc = (int)mx_leave(&c, rc);
    if (rc != MXSML_SUCCESS && !was_open)
        initialised = !session_close(&session);
    return rc;
}

unsigned int mx_init(unsigned int call_id, bool anew)
{
    (void)pthread_mutex_lock(&init_mu);
    int rc = init_locked(call_id, anew);
    (void)pthread_mutex_unlock(&init_mu);
    return (unsigned int)rc;
}

int mx_copy_text(char *buffer, unsigned int *size, const char *text)
{
    unsigned int needed = (unsigned int)strlen(text) + 1;
    if (size == NULL)
        return MXSML_INVALID_INPUT;
    bool fits = *size >= needed;
    *size = needed;
    if (!fits)
        return MXSML_INSUFFICIENT_SIZE;
    if (buffer == NULL)
        return MXSML_INVALID_INPUT;
    memcpy(buffer, text, needed);
    return MXSML_SUCCESS;
}
