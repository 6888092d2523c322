/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "base/auto.h"

#include "runtime/runtime_args.h"

TestSuite(runtime_args);

/* The words are literals, which last as long as main's do; nothing writes them. */
static struct runtime_args read_words(const char *const *words, int n)
{
    static char *argv[32];
    struct runtime_args got;
    cr_assert_leq(n, 32);
    for (int i = 0; i < n; i++)
        argv[i] = (char *)(uintptr_t)words[i];
    runtime_args_read(n, argv, &got);
    return got;
}

#define WORDS(...) ((const char *const[]){"cleave-runtime", __VA_ARGS__})
#define READ(...)  read_words(WORDS(__VA_ARGS__), (int)ARRAY_LEN(WORDS(__VA_ARGS__)))

Test(runtime_args, as_containerds_shim_writes_them)
{
    const struct runtime_args a =
        READ("--root", "/run/containerd/runc/k8s.io", "--log", "/run/b/log.json", "--log-format",
             "json", "--systemd-cgroup", "create", "--bundle", "/run/b", "--pid-file",
             "/run/b/init.pid", "id");
    cr_expect_str_eq(a.bundle, "/run/b");
    cr_expect_str_eq(a.log, "/run/b/log.json");
    cr_expect(a.log_is_json);
}

Test(runtime_args, the_bundle_may_be_named_in_each_way_that_runc_knows)
{
    cr_expect_str_eq(READ("run", "-b", "/run/b", "id").bundle, "/run/b");
    cr_expect_str_eq(READ("run", "--bundle=/run/b", "id").bundle, "/run/b");
    cr_expect_str_eq(READ("restore", "-bundle", "/run/b", "id").bundle, "/run/b");
    cr_expect_str_eq(READ("create", "id").bundle, ".");
}

Test(runtime_args, commands_that_make_no_container_have_no_bundle)
{
    cr_expect_null(READ("--root", "create", "start", "id").bundle);
    cr_expect_null(READ("exec", "id", "create").bundle);
    cr_expect_null(READ("--version").bundle);
    cr_expect_null(READ("--log").log);
}

Test(runtime_args, a_value_is_not_taken_for_a_flag_nor_what_follows_the_id)
{
    cr_expect_str_eq(READ("create", "--pid-file", "--bundle=/no", "id", "--bundle", "/no").bundle,
                     ".");
}
