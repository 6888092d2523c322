/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"

#include "cluster_support.h"
#include "reconcilers/retired.h"
#include "service/resources.h"

static struct cluster c;

static void setup(void)
{
    cluster_start(&c, NULL);
    cluster_add_node(&c, "n1", 1);
    cluster_agent(&c, "n1");
    cluster_settle(&c);
}

static void teardown(void)
{
    cluster_stop(&c);
}

TestSuite(retired, .init = setup, .fini = teardown);

#define BOTH(names) "{\"status\":{\"capacity\":" names ",\"allocatable\":" names "}}"

static void kubelet_shows(const char *patch)
{
    cluster_patch(&c, &resource_nodes, "n1", "status", patch);
    cluster_settle(&c);
}

static bool has(const char *name)
{
    auto_json json_t *node = cluster_get(&c, &resource_nodes, "n1");
    return JX_AT(node, "status", "capacity", name) || JX_AT(node, "status", "allocatable", name);
}

static void wait_out(void)
{
    clock_fake_advance(c.clk, RETIRED_AFTER_MS);
    cluster_settle(&c);
}

Test(retired, name_that_the_kubelet_left_at_zero_goes_once_the_kubelet_has_forgotten_it)
{
    kubelet_shows(BOTH("{\"nvidia.com/mig-1g.10gb\":\"0\"}"));
    cr_expect(has("nvidia.com/mig-1g.10gb"), "the kubelet would put it back");
    wait_out();
    cr_expect_not(has("nvidia.com/mig-1g.10gb"));
    int writes = cluster_writes(&c);
    wait_out();
    cr_expect_eq(cluster_writes(&c), writes, "and that is all");
}

Test(retired, names_of_another_device_plugin_stay)
{
    cluster_patch(&c, &resource_devices, "n1", "status",
                  "{\"status\":{\"resources\":[{\"name\":\"nvidia.com/gpu\",\"count\":1,"
                  "\"publisher\":\"other\"}]}}");
    kubelet_shows(BOTH("{\"nvidia.com/gpu.shared\":\"0\"}"));
    wait_out();
    cr_expect(has("nvidia.com/gpu.shared"));
}

Test(retired, name_that_is_used_again_meanwhile_stays)
{
    kubelet_shows(BOTH("{\"nvidia.com/mig-1g.10gb\":\"0\"}"));
    kubelet_shows(BOTH("{\"nvidia.com/mig-1g.10gb\":\"7\"}"));
    wait_out();
    cr_expect(has("nvidia.com/mig-1g.10gb"));
}

Test(retired, what_is_offered_or_is_no_card_of_ours_stays)
{
    kubelet_shows(BOTH("{\"nvidia.com/gpu\":\"0\",\"example.com/fpga\":\"0\","
                       "\"nvidia.com/hostdev\":\"0\"}"));
    wait_out();
    cr_expect(has("nvidia.com/gpu"), "the Device lists it");
    cr_expect(has("example.com/fpga"));
    cr_expect(has("nvidia.com/hostdev"), "another plugin's");
}

Test(retired, zero_that_still_has_capacity_is_a_card_that_is_ill)
{
    kubelet_shows("{\"status\":{\"capacity\":{\"nvidia.com/mig-1g.10gb\":\"7\"},"
                  "\"allocatable\":{\"nvidia.com/mig-1g.10gb\":\"0\"}}}");
    wait_out();
    cr_expect(has("nvidia.com/mig-1g.10gb"));
}

/* --- While it is not known whether Koordinator is there --- */

/* Another look at the server, by which nobody can list definitions of kinds until it is let. */
struct veil {
    struct kc kc;
    struct kc *under;
    bool lifted;
};

static int veiled_list(struct kc *kc, struct scope *s, const struct kc_target *t,
                       const struct kc_list_opts *o, kc_item_fn *fn, void *arg, char **ret_version,
                       struct err *e)
{
    struct veil *v = (struct veil *)kc;
    if (t->res == &resource_crds && !v->lifted)
        return err_set(e, ERR_UNAVAILABLE, "not yet");
    return kc_list_each(v->under, s, t, o, fn, arg, ret_version, e);
}

static int veiled_watch(struct kc *kc, struct scope *s, const struct kc_target *t,
                        const struct kc_watch_opts *o, kc_change_fn *fn, void *arg, struct err *e)
{
    struct veil *v = (struct veil *)kc;
    if (t->res == &resource_crds && !v->lifted)
        return err_set(e, ERR_UNAVAILABLE, "not yet");
    return kc_watch(v->under, s, t, o, fn, arg, e);
}

static int veiled_patch(struct kc *kc, struct scope *s, const struct kc_target *t,
                        const struct kc_write *w, json_t **ret_obj, struct err *e)
{
    return kc_patch(((struct veil *)kc)->under, s, t, w, ret_obj, e);
}

Test(retired, what_is_koordinators_goes_when_it_is_known_that_it_is_not_there)
{
    static const struct kc_ops ops = {.list = veiled_list,
                                      .watch = veiled_watch,
                                      .patch = veiled_patch};
    struct veil veil = {.kc = {.ops = &ops}, .under = c.api};
    cluster_patch(&c, &resource_nodes, "n1", "status", BOTH("{\"koordinator.sh/gpu-core\":\"0\"}"));
    c.reader = &veil.kc;
    cluster_restart(&c);
    cr_assert_gt(reconcilers_step(c.reconcilers, c.scope), 0, "it looks at the node");
    veil.lifted = true;
    cluster_settle(&c);
    wait_out();
    wait_out();
    cr_expect_not(has("koordinator.sh/gpu-core"));
}
