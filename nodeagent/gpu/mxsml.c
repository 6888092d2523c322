/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/gpu/mxsml.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/gpu/sound.h"

/* After these return codes a number may belong to another card. */
static bool shifts_indices(mxsml_ret rc)
{
    return rc == MXSML_INVALID_DEVICE || rc == MXSML_NO_DEVICE || rc == MXSML_NO_VF;
}

int mxsml_check(struct mxsml *m, const char *call, mxsml_ret rc, int saved_errno, struct err *e)
{
    if (rc == MXSML_SUCCESS)
        return 0;
    m->stale |= shifts_indices(rc);
    return mxsml_lib_error(&m->lib, call, rc, saved_errno, e);
}

/* Versions are for people, so a missing one is no error. One that violates the status's schema is
 * dropped, because it would keep the node's whole status from being written. */
static void read_versions(struct mxsml *m)
{
    unsigned size = sizeof(m->driver) - 1;
    if (MXSML_CALL(m, version, 0, MXSML_UNIT_DRIVER, m->driver, &size) != MXSML_SUCCESS)
        m->driver[0] = '\0';
    sound_text(m->driver, sizeof(m->driver));
    size = sizeof(m->maca) - 1;
    if (MXSML_CALL(m, maca_version, m->maca, &size) != MXSML_SUCCESS)
        m->maca[0] = '\0';
    sound_text(m->maca, sizeof(m->maca));
}

/* An older library cannot be initialised again: it keeps the cards it found first. */
static int initialise(struct mxsml *m, struct err *e)
{
    if (m->open && m->lib.init_again)
        return MXSML_DO(m, e, init_again, MXSML_INIT_AGAIN);
    return m->open ? 0 : MXSML_DO(m, e, init);
}

int mxsml_ensure(struct mxsml *m, struct err *e)
{
    if (m->open && !m->stale)
        return 0;
    if (!m->lib.dl)
        TRY(mxsml_lib_open(m->library, &m->lib, e));
    TRY(initialise(m, e));
    m->open = true;
    m->stale = false;
    read_versions(m);
    return 0;
}

static struct gpu *mxsml_free(struct gpu *g)
{
    struct mxsml *m = (struct mxsml *)g;
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
    .free = mxsml_free,
};

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
    *ret = &m->gpu;
    return 0;
}
