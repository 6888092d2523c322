/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jx.h"

#include "kubectl/checkup.h"
#include "kubectl/command.h"
#include "service/resources.h"

struct visit {
    const struct command *c;
    struct checkup checkup;
    struct unread unread;
};

static void visit_done(struct visit *v)
{
    unread_done(&v->unread);
    checkup_done(&v->checkup);
}

AUTO_DEFINE(visit, struct visit, visit_done)
#define auto_visit AUTO(visit)

static int see_node(void *arg, const json_t *obj, struct err *e)
{
    (void)e;
    checkup_node(&((struct visit *)arg)->checkup, obj);
    return 0;
}

static int see_device(void *arg, const json_t *obj, struct err *e)
{
    (void)e;
    checkup_device(&((struct visit *)arg)->checkup, obj);
    return 0;
}

static int see_profile(void *arg, const json_t *obj, struct err *e)
{
    (void)e;
    checkup_wish(&((struct visit *)arg)->checkup, "GPUProfile", obj);
    return 0;
}

static int see_config(void *arg, const json_t *obj, struct err *e)
{
    (void)e;
    checkup_wish(&((struct visit *)arg)->checkup, "MIGConfig", obj);
    return 0;
}

static int see_leader(void *arg, const json_t *obj, struct err *e)
{
    (void)arg;
    (void)obj;
    (void)e;
    return 0; /* the Lease tells who leads; of this kind only that it is there */
}

static int see_lease(void *arg, const json_t *obj, struct err *e)
{
    (void)e;
    checkup_lease(&((struct visit *)arg)->checkup, obj);
    return 0;
}

/* The Devices come after the Nodes, as checkup.h asks. */
static const struct {
    const struct kc_resource *res;
    const char *fields; /* NULL: all */
    kc_item_fn *fn;
    bool ours;
    const char *without; /* what is not told, where the kind may not be read */
} kinds[] = {
    {&resource_nodes, NULL, see_node, false, "nodes that lack a Device are not seen"},
    {&resource_devices, NULL, see_device, true, "the state of nodes and cards is not seen"},
    {&resource_gpuprofiles, NULL, see_profile, true, "profiles that are not Ready are not seen"},
    {&resource_migconfigs, NULL, see_config, true, "MIGConfigs that are not Ready are not seen"},
    {&resource_leaders, NULL, see_leader, true,
     "whether their definition is installed is not known"},
    {&resource_leases, "metadata.name=" CHECKUP_LEASE, see_lease, false,
     "whether a controller leads is not known"},
};

static void note_read(struct checkup *c, const struct kc_resource *res)
{
    c->has_nodes |= res == &resource_nodes;
    c->has_devices |= res == &resource_devices;
    c->has_leases |= res == &resource_leases;
}

static int look(struct visit *v, size_t i, struct err *e)
{
    auto_err struct err why = {0};
    const struct kc_target t = {.res = kinds[i].res};
    const struct kc_list_opts o = {.resource_version = "0", .fields = kinds[i].fields};
    int rc =
        kc_list_each(v->c->kc, v->c->scope, &t, &o, kinds[i].fn, v, /* ret_version= */ NULL, &why);
    if (rc == 0)
        note_read(&v->checkup, kinds[i].res);
    if (rc == -ERR_NOT_FOUND && kinds[i].ours) {
        checkup_lacks(&v->checkup, kinds[i].res->plural);
        return 0;
    }
    return unread_note(&v->unread, rc, kinds[i].res->plural, kinds[i].without, &why, e);
}

/* --- Telling --- */

static int tell_json(const struct visit *v)
{
    auto_json json_t *doc =
        json_pack("{s:s, s:o, s:I, s:o}", "kind", "Checkup", "notRead", unread_json(&v->unread),
                  "more", (json_int_t)v->checkup.found.more, "findings",
                  complaints_json(&v->checkup.found));
    return command_print(v->c, doc);
}

static void add_count(struct sb *b, size_t n, const char *what, const char *then)
{
    sb_addf(b, "%zu %s%s%s", n, what, n == 1 ? "" : "s", then);
}

static int tell_text(const struct visit *v)
{
    const struct checkup *c = &v->checkup;
    auto_sb struct sb b = SB_INIT(COMMAND_MAX_BYTES);
    complaints_text(&c->found, &v->c->screen, &b);
    if (c->found.n)
        sb_add_char(&b, '\n');
    add_count(&b, complaints_count(&c->found, SEVERITY_ERROR), "error", ", ");
    add_count(&b, complaints_count(&c->found, SEVERITY_WARNING), "warning", "; ");
    add_count(&b, c->n_nodes, "node", ", ");
    add_count(&b, c->n_devices, "Device", " and ");
    add_count(&b, c->n_profiles, "GPUProfile", " looked at\n");
    return command_print_text(v->c, &b);
}

/* A kind that may not be read may hold what is wrong: without findings that is a failure. */
static int verdict(const struct visit *v)
{
    if (v->checkup.found.n)
        return COMMAND_CHANGES;
    return v->unread.n ? COMMAND_FAILED : COMMAND_OK;
}

int command_doctor(const struct command *c)
{
    auto_err struct err e = {0};
    auto_visit struct visit v = {.c = c};
    checkup_init(&v.checkup, clock_wall_ms(c->clock));
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (look(&v, i, &e) < 0)
            return command_fail(c->err, c->server, &e);
    checkup_end(&v.checkup);
    command_notes(c, &v.unread);
    int code = c->output == OUTPUT_TEXT ? tell_text(&v) : tell_json(&v);
    return code == COMMAND_OK ? verdict(&v) : code;
}
