/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "kubectl/agent_pod.h"
#include "kubectl/exposition.h"
#include "kubectl/top_text.h"
#include "kubectl_support.h"

/* --- The text format --- */

static int note(void *arg, const struct exposition_sample *s, struct err *e)
{
    (void)e;
    struct sb *b = arg;
    sb_addf(b, "%s", s->name);
    for (size_t i = 0; i < s->n; i++)
        sb_addf(b, " %s=%s", s->labels[i].name, s->labels[i].value);
    sb_addf(b, " is %g\n", s->value);
    return 0;
}

static void expect_samples(const char *page, const char *samples)
{
    auto_err struct err e = {0};
    auto_free char *text = xstrdup(page);
    auto_sb struct sb b = SB_INIT(4096);
    cr_expect_eq(exposition_each(text, note, &b, &e), 0, "%s", err_msg(&e));
    cr_expect_str_eq(sb_str(&b), samples);
}

Test(exposition, samples_are_read_and_all_else_is_passed_over)
{
    expect_samples("", "");
    expect_samples("# HELP up x\n# TYPE up gauge\n\nup 1\n", "up is 1\n");
    expect_samples("a{} 2\nb{x=\"1\"} -3.5e2 1700000000000\nc{x=\"1\",y=\"2\",} NaN\n",
                   "a is 2\nb x=1 is -350\nc x=1 y=2 is nan\n");
    expect_samples("a { x = \"q\\\"b\\\\s\\nl\" , y=\"}\" }\t+Inf\r\nb 1",
                   "a x=q\"b\\s\nl y=} is inf\nb is 1\n");
}

static void expect_no_sample(const char *page)
{
    auto_err struct err e = {0};
    auto_free char *text = xstrdup(page);
    auto_sb struct sb b = SB_INIT(4096);
    cr_expect_eq(exposition_each(text, note, &b, &e), -ERR_PROTOCOL, "%s", page);
    cr_expect_str_eq(err_msg(&e), "line 2 of the metrics is no sample");
}

Test(exposition, a_line_that_is_no_sample_is_named)
{
    static const char *const lines[] =
        {"<html>",     "a",    "a{",    "a{x}", "a{x=1} 2",   "a{x=\"1", "a{x=\"1\" y=\"2\"} 3",
         "a{x=\"1\"}", "1a 2", "a one", "a 1z", "{x=\"1\"} 2"};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        auto_free char *page = xasprintf("up 1\n%s\nup 1\n", lines[i]);
        expect_no_sample(page);
    }
}

/* --- The page of an agent --- */

#define CARD0     "gpu=\"0\",UUID=\"GPU-0\",modelName=\"NVIDIA H100\",Hostname=\"n1\""
#define CARD1     "gpu=\"1\",UUID=\"GPU-1\",modelName=\"NVIDIA H100\",Hostname=\"n1\""
#define POD(name) "container=\"main\",namespace=\"ml\",pod=\"" name "\""
#define PART(id)  "GPU_I_PROFILE=\"1g.10gb\",GPU_I_ID=\"" id "\""

static const char page[] = "DCGM_FI_DEV_GPU_UTIL{" CARD1 "," POD(
    "a") "} 40\n"
         "DCGM_FI_DEV_GPU_UTIL{" CARD1 "," POD(
             "b") "} 20\n"
                  "DCGM_FI_DEV_GPU_UTIL{" CARD1 "} 5\n"
                  "DCGM_FI_DEV_FB_USED{" CARD1 "," POD(
                      "a") "} 10240\n"
                           "DCGM_FI_DEV_FB_USED{" CARD1 "," POD(
                               "b") "} 20480\n"
                                    "DCGM_FI_DEV_FB_USED{" CARD1 "} 512\n"
                                    "DCGM_FI_DEV_FB_FREE{" CARD1 "} 50000\n"
                                    "DCGM_FI_DEV_FB_RESERVED{" CARD1 "} 688\n"
                                    "DCGM_FI_DEV_GPU_TEMP{" CARD1 "} 64\n"
                                    "DCGM_FI_DEV_POWER_USAGE{" CARD1 "} 411.6\n"
                                    "DCGM_FI_DEV_GPU_TEMP{" CARD0 "} 30\n"
                                    "DCGM_FI_DEV_FB_USED{" CARD0 "," PART("7") "," POD(
                                        "c") "} 9216\n"
                                             "DCGM_FI_DEV_FB_FREE{" CARD0 "," PART("7") "," POD(
                                                 "c") "} 1024\n"
                                                      "DCGM_FI_PROF_GR_ENGINE_ACTIVE{" CARD0
                                                      "," PART("7") "," POD(
                                                          "c") "} 0.97\n"
                                                               "DCGM_FI_DEV_FB_USED{" CARD0
                                                               "," PART(
                                                                   "8") "} 0\n"
                                                                        "DCGM_FI_DEV_FB_FREE{" CARD0
                                                                        "," PART(
                                                                            "8") "} 10240\n"
                                                                                 "cleave_agent_telemetry_stale{gpu=\"0\",UUID=\"GPU-0\"} 1\n"
                                                                                 "cleave_agent_telemetry_age_seconds{gpu=\"0\",UUID=\"GPU-0\"} 93\n"
                                                                                 "cleave_agent_telemetry_pods_left_out 0\n";

static void read_it(const char *text, struct top_node *ret)
{
    auto_err struct err e = {0};
    auto_free char *copy = xstrdup(text);
    cr_assert_eq(top_read(copy, ret, &e), 0, "%s", err_msg(&e));
}

#define EXPECT_NUMBER(a, b) cr_expect_float_eq(a, b, 1e-6, "%f, not %f", a, b)

Test(top, pods_of_a_shared_card_add_up_to_it)
{
    auto_top_node struct top_node n;
    read_it(page, &n);
    cr_assert_eq(n.n, 2);
    const struct top_card *c = &n.cards[1];
    cr_expect_str_eq(c->uuid, "GPU-1");
    EXPECT_NUMBER(c->v.use, 0.65);
    EXPECT_NUMBER(c->v.memory / 1048576, 31232.0);
    EXPECT_NUMBER(c->v.total / 1048576, 81920.0);
    EXPECT_NUMBER(c->v.celsius, 64.0);
    EXPECT_NUMBER(c->v.watts, 411.6);
    cr_assert_eq(c->n, 2);
    cr_expect_str_eq(c->users[1].pod, "b");
    EXPECT_NUMBER(c->users[1].v.use, 0.2);
    cr_expect(isnan(c->users[1].v.total));
    cr_expect_eq(c->n_parts, 0);
}

Test(top, gpu_instances_stand_below_their_card)
{
    auto_top_node struct top_node n;
    read_it(page, &n);
    const struct top_card *c = &n.cards[0];
    cr_assert_eq(c->n_parts, 2);
    cr_expect_str_eq(c->parts[0].profile, "1g.10gb");
    EXPECT_NUMBER(c->parts[0].v.use, 0.97);
    EXPECT_NUMBER(c->parts[0].v.total / 1048576, 10240.0);
    cr_expect_str_eq(c->parts[0].users[0].pod, "c");
    cr_expect_eq(c->parts[1].n, 0);
    cr_expect(c->is_stale);
    EXPECT_NUMBER(c->age_s, 93.0);
}

Test(top, every_spelling_of_labels_and_the_neutral_names_are_known)
{
    auto_top_node struct top_node n;
    read_it("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",uuid=\"GPU-0\",pod_name=\"a\",pod_namespace=\"ml\","
            "container_name=\"m\"} 50\n"
            "cleave_gpu_utilization_ratio{gpu=\"1\",UUID=\"MX-1\"} 0.5\n"
            "cleave_gpu_memory_used_bytes{gpu=\"1\",UUID=\"MX-1\"} 1000\n"
            "cleave_gpu_memory_total_bytes{gpu=\"1\",UUID=\"MX-1\"} 4000\n",
            &n);
    cr_assert_eq(n.n, 2);
    cr_expect_str_eq(n.cards[0].users[0].pod, "a");
    cr_expect_str_eq(n.cards[0].users[0].ns, "ml");
    EXPECT_NUMBER(n.cards[1].v.use, 0.5);
    EXPECT_NUMBER(n.cards[1].v.total, 4000.0);
}

Test(top, numbers_that_cannot_be_are_not_there)
{
    auto_top_node struct top_node n;
    read_it("DCGM_FI_DEV_GPU_UTIL{" CARD0 "} 250\nDCGM_FI_DEV_GPU_TEMP{" CARD0 "} NaN\n"
            "DCGM_FI_DEV_POWER_USAGE{" CARD0 "} -1\nDCGM_FI_DEV_FB_USED{" CARD0 "} +Inf\n"
            "DCGM_FI_DEV_FB_FREE{" CARD0 "} 1e300\n"
            "cleave_agent_telemetry_age_seconds{" CARD0 "} 1e300\n",
            &n);
    EXPECT_NUMBER(n.cards[0].v.use, 1.0);
    cr_expect(isnan(n.cards[0].v.celsius) && isnan(n.cards[0].v.watts) &&
              isnan(n.cards[0].v.memory) && isnan(n.cards[0].v.unused) && isnan(n.cards[0].age_s));
}

static void expect_bounded(const char *metric, const char *labels, int most)
{
    auto_sb struct sb b = SB_INIT((size_t)1 << 20);
    auto_top_node struct top_node n = {0};
    for (int i = 0; i <= most; i++)
        sb_addf(&b, "%s{%s=\"%d\"} 1\n", metric, labels, i);
    auto_free char *text = sb_take(&b);
    cr_expect_eq(top_read(text, &n, NULL), -ERR_TOO_LARGE, "%s", labels);
}

Test(top, a_page_of_endless_cards_instances_or_pods_is_bounded)
{
    expect_bounded("DCGM_FI_DEV_GPU_UTIL", "UUID", TOP_MAX_CARDS);
    expect_bounded("DCGM_FI_DEV_GPU_UTIL", "UUID=\"GPU-0\",GPU_I_ID", TOP_MAX_PARTS);
    expect_bounded("DCGM_FI_DEV_GPU_UTIL", "UUID=\"GPU-0\",pod", TOP_MAX_USERS);
}

/* --- What a person sees --- */

static void expect_text(size_t columns, const char *text)
{
    auto_top_node struct top_node n;
    read_it(page, &n);
    const struct screen s = {.columns = columns};
    const struct top_view v = {"n1", &n, NULL};
    auto_sb struct sb b = SB_INIT(65536);
    top_text_head(&s, &b);
    top_text(&v, &s, &b);
    cr_expect_str_eq(sb_str(&b), text, "got:\n%s", sb_str(&b));
}

Test(top, a_line_for_each_card_instance_and_pod)
{
    expect_text(80,
                "NODE / CARD / POD                  USE                       MEMORY  TEMP  POWER\n"
                "n1\n"
                "  GPU 0  NVIDIA H100                                                 30 C\n"
                "    not read for 93 s: these are the last values\n"
                "    1g.10gb  ml/c                 97 % [#########-]    9.0/10.0 GiB\n"
                "    1g.10gb                            [----------]    0.0/10.0 GiB\n"
                "  GPU 1  NVIDIA H100              65 % [####------]   30.5/80.0 GiB  64 C  412 W\n"
                "    ml/a                          40 %                     10.0 GiB\n"
                "    ml/b                          20 %                     20.0 GiB\n");
}

Test(top, narrow_screens_have_fewer_columns)
{
    expect_text(64, "NODE / CARD / POD               USE          MEMORY  TEMP  POWER\n"
                    "n1\n"
                    "  GPU 0  NVIDIA H100                                 30 C\n"
                    "    not read for 93 s: these are the last values\n"
                    "    1g.10gb  ml/c              97 %    9.0/10.0 GiB\n"
                    "    1g.10gb                            0.0/10.0 GiB\n"
                    "  GPU 1  NVIDIA H100           65 %   30.5/80.0 GiB  64 C  412 W\n"
                    "    ml/a                       40 %        10.0 GiB\n"
                    "    ml/b                       20 %        20.0 GiB\n");
    expect_text(40, "NODE / CARD / POD    USE          MEMORY\n"
                    "n1\n"
                    "  GPU 0  NVIDIA H100\n"
                    "    not read for 93 s: these are the last values\n"
                    "    1g.10gb  ml/c   97 %    9.0/10.0 GiB\n"
                    "    1g.10gb                 0.0/10.0 GiB\n"
                    "  GPU 1  NVIDIA H100\n"
                    "                    65 %   30.5/80.0 GiB\n"
                    "    ml/a            40 %        10.0 GiB\n"
                    "    ml/b            20 %        20.0 GiB\n");
}

/* --- The command --- */

#define ARGUMENTS "['run', '--metrics-addr=:8080']"
static int serve(void *arg, struct scope *s, const struct pod_page *at, char **ret, struct err *e)
{
    (void)arg;
    (void)s;
    if (strcmp(at->pod, "broken") == 0)
        return err_set(e, ERR_UNAVAILABLE, "connection refused");
    if (strcmp(at->pod, "wild") == 0)
        *ret = xstrdup("<html>");
    else
        *ret = xasprintf("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-%s\",modelName=\"%u%s\"} 50\n",
                         at->pod, (unsigned int)at->port, at->tls ? " TLS" : "");
    return 0;
}

static int forbid(void *arg, struct scope *s, const struct pod_page *at, char **ret, struct err *e)
{
    (void)arg;
    (void)s;
    (void)at;
    (void)ret;
    e->http_status = 403;
    return err_set(e, ERR_FORBIDDEN, "pods \"%s\" is forbidden", at->pod);
}

TestSuite(top_command, .init = desk_set_up, .fini = desk_tear_down);

Test(top_command, every_nodes_agent_is_asked_at_its_own_port)
{
    desk_agent("b", "n2", "['--metrics-addr=:9000']");
    desk_agent("a", "n1", ARGUMENTS);
    auto_desk_answer struct desk_answer a = desk_top(OUTPUT_TEXT, "cleave-node", NULL, serve);
    cr_expect_eq(a.code, COMMAND_OK, "%s", a.err);
    const char *first = strstr(a.out, "\nn1\n  GPU 0  8080 ");
    cr_assert_not_null(first, "%s", a.out);
    cr_expect_not_null(strstr(first, "\nn2\n  GPU 0  9000 "), "%s", a.out);
}

Test(top_command, of_one_node_that_one_alone_is_asked)
{
    desk_agent("b", "n2", ARGUMENTS);
    desk_agent("broken", "n1", ARGUMENTS);
    auto_desk_answer struct desk_answer a = desk_top(OUTPUT_TEXT, "cleave-node", "n2", serve);
    cr_expect_eq(a.code, COMMAND_OK, "%s", a.err);
    cr_expect_null(strstr(a.out, "n1"), "%s", a.out);
}

Test(top_command, what_one_node_does_not_tell_hides_no_other)
{
    desk_agent("broken", "n1", ARGUMENTS);
    desk_agent("wild", "n2", ARGUMENTS);
    desk_agent("c", "n3", ARGUMENTS);
    desk_agent("d", "n4", "[run]");
    auto_desk_answer struct desk_answer a = desk_top(OUTPUT_TEXT, "cleave-node", NULL, serve);
    cr_expect_eq(a.code, COMMAND_OK, "%s", a.err);
    cr_expect_not_null(strstr(a.out, "n1  connection refused\n"), "%s", a.out);
    cr_expect_not_null(strstr(a.out, "n2  line 1 of the metrics is no sample\n"), "%s", a.out);
    cr_expect_not_null(strstr(a.out, "n3\n  GPU 0"), "%s", a.out);
    cr_expect_not_null(strstr(a.out, "n4  its agent serves no metrics\n"), "%s", a.out);
}

Test(top_command, a_document_has_what_the_text_has)
{
    desk_agent("broken", "n1", ARGUMENTS);
    desk_agent("c", "n3", ARGUMENTS);
    auto_desk_answer struct desk_answer a = desk_top(OUTPUT_JSON, "cleave-node", NULL, serve);
    auto_json json_t *doc = json_loads(a.out, 0, NULL);
    cr_assert_not_null(doc, "%s%s", a.out, a.err);
    const json_t *nodes = json_object_get(doc, "nodes");
    cr_expect_str_eq(JX_STR_AT(doc, "kind"), "Top");
    cr_expect_str_eq(JX_STR_AT(json_array_get(nodes, 0), "error"), "connection refused");
    const json_t *card = json_array_get(JX_AT(json_array_get(nodes, 1), "cards"), 0);
    EXPECT_NUMBER(json_real_value(json_object_get(card, "use")), 0.5);
}

Test(top_command, what_may_not_be_read_anywhere_is_the_commands_error)
{
    desk_agent("a", "n1", ARGUMENTS);
    desk_agent("b", "n2", ARGUMENTS);
    auto_desk_answer struct desk_answer a = desk_top(OUTPUT_TEXT, "cleave-node", NULL, forbid);
    cr_expect_eq(a.code, COMMAND_FAILED);
    cr_expect_str_eq(a.out, "");
    cr_expect_str_eq(a.err, "Error from server (Forbidden): pods \"a\" is forbidden\n");
}

static void expect_nobody(const char *ns, const char *node, const char *message)
{
    auto_desk_answer struct desk_answer a = desk_top(OUTPUT_TEXT, ns, node, serve);
    cr_expect_eq(a.code, COMMAND_FAILED);
    cr_expect_str_eq(a.err, message);
}

Test(top_command, without_agents_it_says_where_it_looked)
{
    desk_node("n7", 1);
    desk_agent("a", "n1", ARGUMENTS);
    expect_nobody("other", NULL,
                  "error: no agent runs as a pod in the namespace other (-n names another)\n");
    expect_nobody("cleave-node", "n7",
                  "error: no agent runs as a pod on node n7 in the namespace cleave-node (-n names "
                  "another)\n");
}

Test(top_command, a_node_that_is_not_there_is_named)
{
    desk_agent("a", "n1", ARGUMENTS);
    expect_nobody("cleave-node", "n8", "error: nodes \"n8\" not found\n");
    desk_forbid_get("nodes");
    expect_nobody("cleave-node", "n8",
                  "error: no agent runs as a pod on node n8 in the namespace cleave-node (-n names "
                  "another)\n");
}

Test(top_command, of_agents_that_are_not_ready_it_says_how_to_look)
{
    desk_sick_agent("a", "n1");
    expect_nobody("cleave-node", "n1",
                  "error: 1 agent found on node n1, none Ready: kubectl get pods -n cleave-node\n");
    desk_sick_agent("b", "n2");
    expect_nobody("cleave-node", NULL,
                  "error: 2 agents found, none Ready: kubectl get pods -n cleave-node\n");
}

/* The answers of an agent to a watch, one a round, which ends with the last: the use of its card in
 * percent; "": it is too slow. */
static const char *const *answers;
static int64_t asked_ms; /* the time that it had for the last one */

static int serve_next(void *arg, struct scope *s, const struct pod_page *at, char **ret,
                      struct err *e)
{
    const char *use = *answers++;
    (void)arg;
    (void)at;
    asked_ms = scope_left_ms(s);
    if (!*answers)
        desk_end();
    if (!*use)
        return err_set(e, ERR_TIMEOUT, "too slow");
    *ret = xasprintf("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-0\"} %s\n", use);
    return 0;
}

static struct desk_answer watch(const char *const *given)
{
    answers = given;
    desk_agent("a", "n1", ARGUMENTS);
    return desk_top_watch(OUTPUT_TEXT, serve_next);
}

Test(top_command, a_watch_draws_what_is_another_than_before_until_it_is_ended)
{
    static const char *const given[] = {"10", "20", "20", "20", NULL};
    auto_desk_answer struct desk_answer a = watch(given);
    cr_expect_eq(a.code, COMMAND_OK, "%s", a.err);
    const char *first = strstr(a.out, "10 %\n\nNODE");
    cr_assert_not_null(first, "%s", a.out);
    cr_expect_str_eq(strstr(first, "20 %"), "20 %\n", "%s", a.out);
    cr_expect_str_eq(a.err, "");
}

Test(top_command, a_watch_goes_on_after_a_round_in_which_no_agent_answered)
{
    static const char *const given[] = {"", "10", "10", NULL};
    auto_desk_answer struct desk_answer a = watch(given);
    cr_expect_eq(a.code, COMMAND_OK, "%s", a.err);
    const char *first = strstr(a.out, "n1  too slow\n\nNODE");
    cr_assert_not_null(first, "%s", a.out);
    cr_expect_not_null(strstr(first, "10 %\n"), "%s", a.out);
}

Test(top_command, a_watch_waits_less_for_the_slowest_agent)
{
    static const char *const given[] = {"10", "10", NULL};
    answers = given;
    desk_agent("a", "n1", ARGUMENTS);
    auto_desk_answer struct desk_answer once =
        desk_top(OUTPUT_TEXT, "cleave-node", NULL, serve_next);
    cr_expect_eq(once.code, COMMAND_OK, "%s", once.err);
    cr_expect_gt(asked_ms, 5000);
    auto_desk_answer struct desk_answer watched = desk_top_watch(OUTPUT_TEXT, serve_next);
    cr_expect_eq(watched.code, COMMAND_OK, "%s", watched.err);
    cr_expect_leq(asked_ms, 5000);
}

/* --- The agents' pods --- */

static bool read_pod(const char *text, struct agent_pod *ret)
{
    auto_json json_t *pod = json_loads(text, 0, NULL);
    cr_assert_not_null(pod);
    return agent_pod_read(pod, ret);
}

#define AGENT_POD(meta, arguments, ready)                                                          \
    "{\"metadata\":{\"name\":\"p\"" meta "},\"spec\":{\"nodeName\":\"n1\",\"containers\":"         \
    "[{\"args\":[" arguments                                                                       \
    "]}]},\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"" ready "\"}]}}"

Test(agent_pod, its_arguments_say_how_its_page_is_reached)
{
    auto_agent_pod struct agent_pod p;
    cr_assert(read_pod(AGENT_POD("",
                                 "\"--metrics-addr=[::]:9090\",\"--metrics-auth=token\","
                                 "\"--metrics-tls-cert-file=/x\"",
                                 "True"),
                       &p));
    cr_expect(p.port == 9090 && p.tls && p.token);
    auto_agent_pod struct agent_pod q;
    cr_assert(
        read_pod(AGENT_POD("", "\"--metrics-addr=:x\",\"--metrics-auth=none\",7", "True"), &q));
    cr_expect(q.port == 0 && !q.tls && !q.token);
}

Test(agent_pod, a_container_that_the_cluster_adds_is_not_the_agent)
{
    auto_agent_pod struct agent_pod p;
    cr_assert(
        read_pod("{\"metadata\":{\"name\":\"p\"},\"spec\":{\"nodeName\":\"n1\",\"containers\":["
                 "{\"name\":\"mesh\",\"args\":[\"--metrics-addr=:1\"]},"
                 "{\"name\":\"agent\",\"args\":[\"--metrics-addr=:9090\"]}]},"
                 "\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}",
                 &p));
    cr_expect_eq(p.port, 9090);
}

Test(agent_pod, one_that_ends_or_is_not_ready_is_not_asked)
{
    struct agent_pod p;
    cr_expect_not(read_pod(AGENT_POD("", "", "False"), &p));
    cr_expect_not(read_pod(AGENT_POD(",\"deletionTimestamp\":\"x\"", "", "True"), &p));
    cr_expect_not(read_pod("{}", &p));
}
