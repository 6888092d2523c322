/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jx.h"

#include "kubectl/checkup.h"
#include "kubectl/command.h"
#include "service/resources.h"

typedef void see_fn(struct checkup *c, const json_t *obj);

static void see_profile(struct checkup *c, const json_t *obj)
{
    checkup_wish(c, "GPUProfile", obj);
}

static void see_config(struct checkup *c, const json_t *obj)
{
    checkup_wish(c, "MIGConfig", obj);
}

static void see_leader(struct checkup *c, const json_t *obj)
{
    (void)c; /* the Lease tells who leads; of this kind only that it is there */
    (void)obj;
}

/* The Devices come after the Nodes, as checkup.h asks. */
static const struct {
    const struct kc_resource *res;
    const char *fields; /* NULL: all */
    see_fn *see;
    bool ours;
    const char *without; /* what is not told, where the kind may not be read */
} kinds[] = {
    {&resource_nodes, NULL, checkup_node, false, "nodes that lack a Device are not seen"},
    {&resource_devices, NULL, checkup_device, true, "the state of nodes and cards is not seen"},
    {&resource_gpuprofiles, NULL, see_profile, true, "profiles that are not Ready are not seen"},
    {&resource_migconfigs, NULL, see_config, true, "MIGConfigs that are not Ready are not seen"},
    {&resource_leaders, NULL, see_leader, true,
     "whether their definition is installed is not known"},
    {&resource_leases, "metadata.name=" CHECKUP_LEASE, checkup_lease, false,
     "whether a controller leads is not known"},
    {&resource_leases, "metadata.name=" CHECKUP_SCHEDULER, checkup_scheduler_lease, false,
     "whether a scheduler leads is not known"},
    {&resource_deployments, "metadata.name=" CHECKUP_SCHEDULER, checkup_scheduler, false,
     "whether the scheduler is ready is not known"},
};

struct visit {
    const struct command *c;
    struct checkup checkup;
    see_fn *see; /* of the kind that is read */
    struct unread unread;
};

static void visit_done(struct visit *v)
{
    unread_done(&v->unread);
    checkup_done(&v->checkup);
}

AUTO_DEFINE(visit, struct visit, visit_done)
#define auto_visit AUTO(visit)

static int see(void *arg, const json_t *obj, struct err *e)
{
    struct visit *v = arg;
    (void)e;
    v->see(&v->checkup, obj);
    return 0;
}

static void note_read(struct checkup *c, const struct kc_resource *res)
{
    c->has_nodes |= res == &resource_nodes;
    c->has_devices |= res == &resource_devices;
    c->has_profiles |= res == &resource_gpuprofiles;
    c->has_leases |= res == &resource_leases;
}

static int look(struct visit *v, size_t i, struct err *e)
{
    auto_err struct err why = {0};
    const struct kc_target t = {.res = kinds[i].res};
    const struct kc_list_opts o = {.resource_version = "0", .fields = kinds[i].fields};
    v->see = kinds[i].see;
    int rc = kc_list_each(v->c->kc, v->c->scope, &t, &o, see, v, /* ret_version= */ NULL, &why);
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

/* "1 node, 1 Device and 0 GPUProfiles": of the kinds that could be read. */
static void add_seen(const struct checkup *c, struct sb *b)
{
    const struct {
        bool has;
        size_t n;
        const char *what;
    } seen[] = {{c->has_nodes, c->n_nodes, "node"},
                {c->has_devices, c->n_devices, "Device"},
                {c->has_profiles, c->n_profiles, "GPUProfile"}};
    size_t left = 0;
    for (size_t i = 0; i < ARRAY_LEN(seen); i++)
        left += seen[i].has;
    for (size_t i = 0; i < ARRAY_LEN(seen); i++) {
        if (!seen[i].has)
            continue;
        left--;
        add_count(b, seen[i].n, seen[i].what, left > 1 ? ", " : left ? " and " : " looked at");
    }
}

static void add_sum(const struct visit *v, struct sb *b)
{
    const struct checkup *c = &v->checkup;
    bool any = c->has_nodes || c->has_devices || c->has_profiles;
    if (c->found.n || any) {
        add_count(b, complaints_count(&c->found, SEVERITY_ERROR), "error", ", ");
        add_count(b, complaints_count(&c->found, SEVERITY_WARNING), "warning", "; ");
    }
    add_seen(c, b);
    sb_add(b, any ? "" : "no node, Device or GPUProfile could be looked at");
    if (v->unread.n)
        sb_addf(b, ": whether all %sis well is not known", any ? "the rest " : "");
    sb_add_char(b, '\n');
}

static int tell_text(const struct visit *v)
{
    const struct checkup *c = &v->checkup;
    auto_sb struct sb b = SB_INIT(COMMAND_MAX_BYTES);
    complaints_text(&c->found, &v->c->screen, &b);
    if (c->found.n)
        sb_add_char(&b, '\n');
    add_sum(v, &b);
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
