/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/auto.h"

#include "kubectl/operand.h"

static void expect_pod(const char *word, const char *ns, const char *name)
{
    auto_free char *got_ns = NULL;
    const char *got = NULL;
    cr_assert_eq(operand_pod(word, &got_ns, &got, NULL), 0, "%s", word);
    cr_expect_str_eq(got, name);
    cr_expect_str_eq(got_ns ? got_ns : "none", ns);
}

Test(operand, a_pod_has_its_name_alone_or_its_type_or_its_namespace)
{
    expect_pod("train", "none", "train");
    expect_pod("pod/train", "none", "train");
    expect_pod("pods/train", "none", "train");
    expect_pod("po/train", "none", "train");
    expect_pod("ml/train", "ml", "train");
    expect_pod("pod-2/train", "pod-2", "train");
}

static void expect_no_pod(const char *word, const char *message)
{
    auto_err struct err e = {0};
    char *ns = NULL;
    const char *name = NULL;
    cr_expect_eq(operand_pod(word, &ns, &name, &e), -(int)ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), message);
    cr_expect_null(ns);
}

Test(operand, what_names_no_pod_says_how_one_is_named)
{
#define FORMS " names no pod: it is NAME, pod/NAME or NAMESPACE/NAME"
    expect_no_pod("", "\"\"" FORMS);
    expect_no_pod("/train", "\"/train\"" FORMS);
    expect_no_pod("ml/", "\"ml/\"" FORMS);
    expect_no_pod("pod/ml/train", "\"pod/ml/train\"" FORMS);
}

Test(operand, a_node_has_its_name_alone_or_its_type)
{
    auto_err struct err e = {0};
    const char *name = NULL;
    cr_expect_eq(operand_node("n1", &name, NULL), 0);
    cr_expect_str_eq(name, "n1");
    cr_expect_eq(operand_node("node/n1", &name, NULL), 0);
    cr_expect_str_eq(name, "n1");
    cr_expect_eq(operand_node("pod/n1", &name, &e), -(int)ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), "\"pod/n1\" names no node: it is NAME or node/NAME");
    cr_expect_eq(operand_node("", &name, NULL), -(int)ERR_INVALID);
    cr_expect_eq(operand_node("a/b/c", &name, NULL), -(int)ERR_INVALID);
}
