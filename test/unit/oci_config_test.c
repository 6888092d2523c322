/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

#include "base/auto.h"
#include "base/jx.h"
#include "base/xalloc.h"

#include "nodeagent/cdi/cdi.h"
#include "runtime/description.h"
#include "runtime/oci_config.h"

/* --- Helpers --- */

/* JSON with ' for ". */
static json_t *json(const char *text)
{
    auto_free char *quoted = xstrdup(text);
    for (char *c = quoted; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    json_t *value = json_loads(quoted, 0, NULL);
    cr_assert(value, "%s", text);
    return value;
}

static int look(void *arg, const char *path, struct oci_node *ret, struct err *e)
{
    (void)arg;
    if (strcmp(path, "/dev/gone") == 0)
        return err_set(e, ERR_NOT_FOUND, "%s is gone", path);
    *ret = (struct oci_node){'c', 195, (unsigned)strlen(path)};
    return 0;
}

static void expect_json(const json_t *got, const char *want)
{
    auto_json json_t *wanted = json(want);
    auto_free char *text = jx_dump(got);
    cr_expect(json_equal(got, wanted), "%s, not %s", text, want);
}

/* Applies the edits to the configuration. */
static void expect_applied(const char *config, const char *edits, const char *want)
{
    auto_err struct err e = {0};
    auto_json json_t *c = json(config);
    auto_json json_t *ed = json(edits);
    cr_expect_eq(oci_apply(c, ed, look, NULL, &e), 0, "%s", err_msg(&e));
    expect_json(c, want);
}

static void expect_refused(const char *config, const char *edits, enum err_kind kind,
                           const char *words)
{
    auto_err struct err e = {0};
    auto_json json_t *c = json(config);
    auto_json json_t *ed = json(edits);
    cr_expect_eq(oci_apply(c, ed, look, NULL, &e), -(int)kind, "%s", edits);
    cr_expect(strstr(err_msg(&e), words), "%s", err_msg(&e));
}

TestSuite(oci_config);

/* --- Marks --- */

#define MARK(name) "{'destination':'/run/cleave/devices/" name "','source':'/run/cleave/granted'}"

Test(oci_config, each_device_that_marks_name_counts_once_in_their_order)
{
    auto_json json_t *c = json("{'mounts':[{'destination':'/proc'}," MARK("metax/b-1.x") "," MARK(
        "nvidia/a") "," MARK("nvidia/a") "]}");
    auto_free struct grant_mark *grants = NULL;
    size_t n = 0;
    cr_assert_eq(oci_grants(c, &grants, &n, NULL), 0);
    cr_assert_eq(n, 2);
    cr_expect_str_eq(grants[0].vendor, "metax");
    cr_expect_str_eq(grants[0].name, "b-1.x");
    cr_expect_str_eq(grants[1].name, "a");
    oci_remove_marks(c);
    expect_json(c, "{'mounts':[{'destination':'/proc'}]}");
}

Test(oci_config, the_source_alone_makes_a_mark)
{
    auto_json json_t *c = json(
        "{'mounts':[{'destination':'/run/cleave/devices/nvidia/a','source':'/x/run/cleave/granted'}],"
        "'process':{'env':['X=/run/cleave/granted']},'annotations':{'/run/cleave/granted':'a'}}");
    auto_free struct grant_mark *grants = NULL;
    size_t n = 1;
    cr_assert_eq(oci_grants(c, &grants, &n, NULL), 0);
    cr_expect_eq(n, 0);
}

Test(oci_config, a_mark_that_names_no_device_is_an_error)
{
    static const char *const bad[] = {MARK("nvidia/.."), MARK("nvidia/a/b"),
                                      MARK("nvidia/"),   MARK("../nvidia/a"),
                                      MARK("nvidia/a="), "{'source':'/run/cleave/granted'}"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        auto_free char *text = xasprintf("{'mounts':[%s]}", bad[i]);
        auto_json json_t *c = json(text);
        struct grant_mark *grants = NULL;
        size_t n = 0;
        cr_expect_eq(oci_grants(c, &grants, &n, NULL), -ERR_INVALID, "%s", bad[i]);
        cr_expect_null(grants);
    }
}

Test(oci_config, a_mark_names_the_device_that_the_answer_named)
{
    struct grant_mark m;
    auto_free char *path = grant_mark_path("nvidia", "GPU-5f0c-1g.10gb.me-0");
    cr_assert(grant_mark_parse(path, &m));
    cr_expect_str_eq(m.vendor, "nvidia");
    cr_expect_str_eq(m.name, "GPU-5f0c-1g.10gb.me-0");
}

/* --- Edits --- */

Test(oci_config, a_variable_replaces_the_containers)
{
    expect_applied("{'process':{'env':['PATH=/bin','A=1','AB=2','A=3']}}", "{'env':['A=x=y']}",
                   "{'process':{'env':['PATH=/bin','AB=2','A=x=y']}}");
    expect_applied("{}", "{'env':['A=1']}", "{'process':{'env':['A=1']}}");
}

Test(oci_config, a_device_file_comes_with_the_right_to_use_it)
{
    expect_applied(
        "{'linux':{'devices':[{'path':'/dev/a','type':'b'}],'resources':{'devices':[{'allow':false}]}}}",
        "{'deviceNodes':[{'path':'/dev/a','hostPath':'/h/dev/a','permissions':'rw'}]}",
        "{'linux':{'devices':[{'path':'/dev/a','type':'c','major':195,'minor':8}],'resources':{"
        "'devices':[{'allow':false},{'allow':true,'type':'c','major':195,'minor':8,'access':'rw'}]}}}");
}

Test(oci_config, a_device_file_belongs_to_the_process_as_with_cdi)
{
    auto_json json_t *c = json("{'process':{'user':{'uid':1000,'gid':0}}}");
    auto_json json_t *edits = json("{'deviceNodes':[{'path':'/dev/a'}]}");
    cr_assert_eq(oci_apply(c, edits, look, NULL, NULL), 0);
    expect_json(JX_AT(c, "linux", "devices"),
                "[{'path':'/dev/a','type':'c','major':195,'minor':6,'uid':1000}]");
}

Test(oci_config, a_mount_replaces_what_has_its_place_and_comes_last)
{
    expect_applied(
        "{'mounts':[{'destination':'/a','source':'pod'},{'destination':'/b'}]}",
        "{'mounts':[{'hostPath':'/h','containerPath':'/a','options':['ro','rbind']}]}",
        "{'mounts':[{'destination':'/b'},{'destination':'/a','type':'bind','source':'/h',"
        "'options':['ro','rbind']}]}");
}

Test(oci_config, a_hook_is_added_to_those_of_its_kind)
{
    expect_applied("{'hooks':{'createContainer':[{'path':'/x'}]}}",
                   "{'hooks':[{'hookName':'createContainer','path':'/y','args':['y','v']}]}",
                   "{'hooks':{'createContainer':[{'path':'/x'},{'path':'/y','args':['y','v']}]}}");
}

Test(oci_config, null_counts_as_absent)
{
    expect_applied("{'mounts':null}", "{'mounts':[{'hostPath':'/h','containerPath':'/a'}]}",
                   "{'mounts':[{'destination':'/a','type':'bind','source':'/h'}]}");
}

Test(oci_config, what_is_not_of_its_shape_is_refused_and_named)
{
    static const struct {
        const char *config, *edits, *words;
    } bad[] = {
        {"{}", "{'intelRdt':{}}", "intelRdt"},
        {"{}", "{'env':{}}", "\"env\" is not a list"},
        {"{}", "{'env':['A']}", "\"A\" is no KEY=value"},
        {"{}", "{'env':[1]}", "no KEY=value"},
        {"{'process':[]}", "{'env':['A=1']}", "\"process\" is not an object"},
        {"{'process':{'env':{}}}", "{'env':['A=1']}", "\"env\" is not a list"},
        {"[]", "{'env':['A=1']}", "not an object"},
        {"{}", "{'deviceNodes':[{'path':'dev'}]}", "path \"dev\" is no absolute path"},
        {"{}", "{'deviceNodes':[{'path':'/dev/a','uid':1}]}", "uid"},
        {"{}", "{'deviceNodes':['a']}", "does not know"},
        {"{'linux':{'resources':1}}", "{'deviceNodes':[{'path':'/dev/a'}]}", "resources"},
        {"{}", "{'mounts':[{'hostPath':'/h'}]}", "containerPath"},
        {"{}", "{'mounts':[{'hostPath':'/h','containerPath':'/a','options':[1]}]}", "options"},
        {"{}", "{'hooks':[{'hookName':'x','path':'/y'}]}", "no hook \"x\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        expect_refused(bad[i].config, bad[i].edits, ERR_INVALID, bad[i].words);
    expect_refused("{}", "{'deviceNodes':[{'path':'/dev/gone'}]}", ERR_NOT_FOUND, "/dev/gone");
}

/* --- What an old answer left --- */

#define NODES(path) "{'deviceNodes':[{'path':'" path "'}]}"

Test(oci_config, device_files_of_other_devices_of_the_description_are_taken_out)
{
    auto_json json_t *d = json(
        "{'containerEdits':" NODES("/dev/ctl") ",'devices':[{'name':'a','containerEdits':" NODES(
            "/dev/a") "},{'name':'b','containerEdits':" NODES("/dev/b") "}]}");
    auto_json json_t *mine = json(NODES("/dev/a"));
    auto_json json_t *c = json(
        "{'linux':{'devices':[{'path':'/dev/b','type':'c','major':195,'minor':1},{'path':'/dev/a'},"
        "{'path':'/dev/fuse'}],'resources':{'devices':[{'allow':false},{'allow':true,'type':'c',"
        "'major':195,'minor':1},{'allow':true,'type':'c','major':195,'minor':2}]}}}");
    oci_drop_others(c, d, (const json_t *[]){mine}, 1);
    expect_json(JX_AT(c, "linux", "devices"), "[{'path':'/dev/a'},{'path':'/dev/fuse'}]");
    expect_json(JX_AT(c, "linux", "resources", "devices"),
                "[{'allow':false},{'allow':true,'type':'c','major':195,'minor':2}]");
}

/* --- Descriptions --- */

Test(oci_config, a_device_is_described_where_the_agent_writes_it)
{
    const struct cdi_options o = {.folder = "/tmp/nowhere"};
    auto_cdi struct cdi *agents = cdi_new(&o);
    const struct grant_mark card = {"nvidia", "GPU-1"};
    const struct grant_mark slot = {"metax", "slot.3"};
    auto_free char *of_card = description_path("/tmp/nowhere", &card);
    auto_free char *of_slot = description_path("/f", &slot);
    cr_expect_str_eq(of_card, cdi_path(agents, "nvidia"));
    cr_expect_str_eq(of_slot, "/f/slot.3.gpu.cleave.dev-metax-slot.json");
}

Test(oci_config, a_description_of_another_vendor_version_or_shape_is_refused)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"{\"cdiVersion\":\"0.5.0\",\"kind\":\"gpu.cleave.dev/metax\"}",
         "not gpu.cleave.dev/nvidia"},
        {"{\"cdiVersion\":\"0.8.0\",\"kind\":\"gpu.cleave.dev/nvidia\"}", "0.8.0"},
        {"{\"cdiVersion\":\"0.5.0\",\"kind\":\"gpu.cleave.dev/nvidia\",\"x\":1}", "\"x\""},
        {"[]", "cdiVersion"},
        {"{", "line 1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        auto_err struct err e = {0};
        json_t *d = NULL;
        cr_expect_neq(description_parse(bad[i].text, strlen(bad[i].text), "nvidia", &d, &e), 0);
        cr_expect(strstr(err_msg(&e), bad[i].words), "%s", err_msg(&e));
        cr_expect_null(d);
    }
}
