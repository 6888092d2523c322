/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"

#include "scheduler/extender_words.h"

/* The bodies are as kube-scheduler 1.34.4 sends them. */

static void check_filter(const char *body, const char *expected)
{
    auto_err struct err e = {0};
    auto_filter_args struct filter_args a = {0};
    auto_sb struct sb got = SB_INIT(1000);
    int rc = filter_args_parse(body, strlen(body), &a, &e);
    if (rc < 0)
        sb_add(&got, err_msg(&e));
    for (size_t i = 0; rc == 0 && i < a.n_names; i++)
        sb_addf(&got, "%s ", a.names[i]);
    cr_expect(strstr(sb_str(&got), expected), "%s: %s", body, sb_str(&got));
}

Test(extender_words, a_question_names_the_pod_and_the_nodes)
{
    check_filter("{\"Pod\":{\"metadata\":{}},\"Nodes\":null,\"NodeNames\":[\"a\",\"b\"]}", "a b ");
    check_filter("{\"pod\":{},\"nodes\":null,\"nodenames\":[\"a\"]}", "a ");
    check_filter("{\"Pod\":{},\"NodeNames\":[]}", "");
    check_filter("{ \"NodeNames\" : [ \"a\" , \"b-1.c\" ] , \"Pod\" : {} }", "a b-1.c ");
}

Test(extender_words, names_are_read_wherever_they_stand_and_however_they_are_written)
{
    check_filter(
        "{\"Pod\":{\"NodeNames\":[\"x\"],\"a\":\"\\\"NodeNames\\\":[\"},\"NodeNames\":[\"a\"]}",
        "a ");
    check_filter("{\"Pod\":{},\"NodeNames\":[\"\\u0061\"]}", "a ");
    check_filter("{\"NodeNames\":[\"a\"],\"Pod\":{}}x", "no JSON");
    check_filter("{\"Pod\":{},\"NodeNames\":[\"a\",]}", "no JSON");
    check_filter("{\"Pod\":{},\"NodeNames\":[\"a\"", "no JSON");
    check_filter("{\"Pod\":{},\"NodeNames\":[\"a", "no JSON");
    check_filter("{\"Pod\":{},\"NodeNames\"", "no JSON");
    check_filter("{\"Pod\":{},\"NodeNames\":[\"\"]}", "item 0 of NodeNames is no name");
}

Test(extender_words, what_is_no_question_is_said)
{
    check_filter("", "no JSON");
    check_filter("[]", "no JSON object");
    check_filter("{\"Pod\":{}", "no JSON");
    check_filter("{\"NodeNames\":[]}", "no Pod");
    check_filter("{\"Pod\":[],\"NodeNames\":[]}", "no Pod");
    check_filter("{\"Pod\":{},\"Nodes\":{\"items\":[]},\"NodeNames\":null}",
                 "set nodeCacheCapable: true");
    check_filter("{\"Pod\":{},\"NodeNames\":{}}", "NodeNames is no list");
    check_filter("{\"Pod\":{},\"NodeNames\":[\"a\",1]}", "item 1 of NodeNames is no name");
}

Test(extender_words, a_binding_names_pod_and_node)
{
    static const char body[] =
        "{\"PodName\":\"p\",\"PodNamespace\":\"ns\",\"PodUID\":\"u\",\"Node\":\"n\"}";
    auto_err struct err e = {0};
    auto_bind_args struct bind_args a = {0};
    cr_assert_eq(bind_args_parse(body, sizeof(body) - 1, &a, &e), 0, "%s", err_msg(&e));
    cr_expect_str_eq(a.ns, "ns");
    cr_expect_str_eq(a.name, "p");
    cr_expect_str_eq(a.uid, "u");
    cr_expect_str_eq(a.node, "n");
    bind_args_done(&a);
    cr_expect_eq(bind_args_parse("{\"PodName\":\"p\"}", 15, &a, &e), -ERR_PROTOCOL);
    cr_expect_str_eq(err_msg(&e), "the request has no PodNamespace");
}

Test(extender_words, an_answer_has_the_kept_nodes_and_why_the_others_are_refused)
{
    const char *kept[] = {"a"};
    char now[] = "full", never[] = "no cards";
    struct choice_refusal refused[] = {{"b", now, false}, {"c", never, true}};
    const struct choice c = {kept, 1, refused, 2};
    auto_sb struct sb out = SB_INIT(1000);
    filter_result_write(&c, &out);
    cr_expect_str_eq(sb_str(&out),
                     "{\"NodeNames\":[\"a\"],\"FailedNodes\":{\"b\":\"full\"},"
                     "\"FailedAndUnresolvableNodes\":{\"c\":\"no cards\"},\"Error\":\"\"}");
}

Test(extender_words, an_error_is_told_and_success_is_no_error)
{
    auto_sb struct sb out = SB_INIT(1000);
    error_result_write("why \"not\"", &out);
    error_result_write(NULL, &out);
    cr_expect_str_eq(sb_str(&out), "{\"Error\":\"why \\\"not\\\"\"}{\"Error\":\"\"}");
}
