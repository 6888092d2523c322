/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/metax/mxsml.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/gpu/sound.h"
#include "nodeagent/vendor/metax/mxsml_open.h"

/* After these return codes a number may belong to another card. */
static bool shifts_indices(mxsml_ret rc)
{
    return rc == MXSML_INVALID_DEVICE || rc == MXSML_NO_DEVICE || rc == MXSML_NO_VF;
}

int mxsml_check(struct mxsml *m, const char *call, mxsml_ret rc, int saved_errno, struct err *e)
{
    if (rc == MXSML_SUCCESS)
        return 0;
    if (shifts_indices(rc))
        atomic_store(&m->stale, true);
    return mxsml_lib_error(&m->lib, call, rc, saved_errno, e);
}

/* Versions are for people, so a missing one is no error. One that violates the status's schema is
 * dropped, because it would keep the node's whole status from being written. */
static void read_versions(struct mxsml *m)
{
    char driver[sizeof(m->driver)] = "";
    char maca[sizeof(m->maca)] = "";
    unsigned size = sizeof(driver) - 1;
    if (MXSML_CALL(m, version, 0, MXSML_UNIT_DRIVER, driver, &size) != MXSML_SUCCESS)
        driver[0] = '\0';
    sound_text(driver, sizeof(driver));
    size = sizeof(maca) - 1;
    if (MXSML_CALL(m, maca_version, maca, &size) != MXSML_SUCCESS)
        maca[0] = '\0';
    sound_text(maca, sizeof(maca));
    HOLD(&m->holds.mu);
    memcpy(m->driver, driver, sizeof(driver));
    memcpy(m->maca, maca, sizeof(maca));
}

/* An older library cannot be initialised again: it keeps the cards it found first. */
static int initialise(struct mxsml *m, struct err *e)
{
    if (atomic_load(&m->open) && m->lib.init_again)
        return MXSML_DO(m, e, init_again, MXSML_INIT_AGAIN);
    return atomic_load(&m->open) ? 0 : MXSML_DO(m, e, init);
}

static int open_library(void *arg, struct err *e)
{
    struct mxsml *m = arg;
    if (!m->lib.dl)
        TRY(mxsml_lib_open(m->library, &m->lib, e));
    TRY(initialise(m, e));
    m->epoch++;
    atomic_store(&m->open, true);
    atomic_store(&m->stale, false);
    read_versions(m);
    return 0;
}

/* Numbers stay as they are until the library is initialised again, and a verb asks the card at a
 * number who it is: so they serve while calls of other cards are under way. */
static enum lib_session library_state(const void *arg)
{
    const struct mxsml *m = arg;
    if (!atomic_load(&m->open))
        return LIB_SESSION_NONE;
    return atomic_load(&m->stale) ? LIB_SESSION_WORN : LIB_SESSION_READY;
}

int mxsml_enter(struct mxsml *m, struct lib_pass *p, bool *ret_closed, struct err *e)
{
    return lib_gate_enter_unless_reset(m->gate, p, ret_closed, e);
}

void mxsml_turn_end(struct mxsml_turn *t)
{
    if (t->known) {
        HOLD(&t->m->holds.mu);
        lib_hold_give(&t->m->holds, &TAKE(t->known)->hold);
    }
    lib_gate_leave(&t->pass);
}

static struct gpu *mxsml_free(struct gpu *g)
{
    struct mxsml *m = (struct mxsml *)g;
    m->gate = lib_gate_free(m->gate);
    lib_holds_done(&m->holds);
    gpu_topology_done(&m->topology);
    mxsml_lib_close(&m->lib);
    for (size_t i = 0; i < m->n_known; i++)
        free(m->known[i]);
    free(m->library);
    free(m->proc_root);
    free(m->sys_root);
    free(m);
    return NULL;
}

static const struct gpu_ops mxsml_ops = {
    .read = mxsml_op_read,
    .read_card = mxsml_op_read_card,
    .mode_set = mxsml_op_mode_set,
    .reset = mxsml_op_reset,
    .slice_create = mxsml_op_slice_create,
    .slice_destroy = mxsml_op_slice_destroy,
    .qos_set = mxsml_op_qos_set,
    .timeslice_set = mxsml_op_timeslice_set,
    .measure = mxsml_op_measure,
    .free = mxsml_free,
};

static struct lib_gate *make_gate(struct mxsml *m)
{
    const struct lib_gate_session session = {.vendor = "MetaX",
                                             .state = library_state,
                                             .open = open_library,
                                             .arg = m};
    return lib_gate_new(&session, /* limits= */ NULL);
}

static char *copy_or(const char *s, const char *fallback)
{
    return xstrdup(s ? s : fallback);
}

int gpu_mxsml_open(const struct mxsml_options *o, struct gpu **ret, struct err *e)
{
    assert(o && ret);
    (void)e; /* a failure shows at the first use, and may be gone by the next one */
    struct mxsml *m = xcalloc(1, sizeof(*m));
    m->gpu.ops = &mxsml_ops;
    m->library = xstrdup(o->library);
    m->proc_root = copy_or(o->proc_root, "/proc");
    m->sys_root = copy_or(o->sys_root, "/sys");
    m->gate = make_gate(m);
    lib_holds_init(&m->holds);
    *ret = &m->gpu;
    return 0;
}
