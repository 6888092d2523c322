/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/jx.h"

#include "kubectl/read_ahead.h"
#include "kubectl_support.h"
#include "service/resources.h"

TestSuite(read_ahead, .init = desk_set_up, .fini = desk_tear_down);

/* More than lie between the two threads. */
enum { NODES = 100 };

static void make_nodes(void)
{
    for (int i = 0; i < NODES; i++) {
        char yaml[100];
        (void)snprintf(yaml, sizeof(yaml), "{apiVersion: v1, kind: Node, metadata: {name: n%03d}}",
                       i);
        desk_create(&resource_nodes, yaml);
    }
}

struct seen {
    int n, until;
};

static int see(void *arg, const json_t *obj, struct err *e)
{
    struct seen *s = arg;
    char name[10];
    (void)snprintf(name, sizeof(name), "n%03d", s->n);
    cr_expect_str_eq(JX_STR_AT(obj, "metadata", "name"), name);
    if (++s->n == s->until)
        return err_set(e, ERR_INVALID, "enough");
    return 0;
}

static int read_nodes(struct seen *s, struct err *e)
{
    const struct kc_target t = {.res = &resource_nodes};
    auto_scope struct scope *scope = scope_new(NULL, -1);
    auto_read_ahead struct read_ahead *a = NULL;
    TRY(read_ahead_begin(desk_kc, scope, &t, &(struct kc_list_opts){0}, &a, e));
    return read_ahead_each(a, see, s, /* ret_version= */ NULL, e);
}

Test(read_ahead, every_object_is_seen_in_order)
{
    auto_err struct err e = {0};
    struct seen s = {0};
    make_nodes();
    cr_assert_eq(read_nodes(&s, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(s.n, NODES);
}

Test(read_ahead, a_list_that_nobody_looks_at_ends_all_the_same)
{
    auto_err struct err e = {0};
    const struct kc_target t = {.res = &resource_nodes};
    auto_scope struct scope *scope = scope_new(NULL, -1);
    auto_read_ahead struct read_ahead *a = NULL;
    make_nodes();
    cr_assert_eq(read_ahead_begin(desk_kc, scope, &t, &(struct kc_list_opts){0}, &a, &e), 0, "%s",
                 err_msg(&e));
}

Test(read_ahead, an_empty_list_is_one)
{
    auto_err struct err e = {0};
    struct seen s = {0};
    cr_assert_eq(read_nodes(&s, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(s.n, 0);
}

Test(read_ahead, an_error_of_who_looks_ends_it)
{
    auto_err struct err e = {0};
    struct seen s = {.until = 3};
    make_nodes();
    cr_assert_eq(read_nodes(&s, &e), -ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), "enough");
    cr_expect_eq(s.n, 3);
}

Test(read_ahead, an_error_of_the_list_is_told)
{
    auto_err struct err e = {0};
    struct seen s = {0};
    make_nodes();
    desk_forbid("nodes");
    cr_assert_eq(read_nodes(&s, &e), -ERR_FORBIDDEN);
    cr_expect(strstr(err_msg(&e), "nodes is forbidden"), "got: %s", err_msg(&e));
}
