/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"

#include "runtime/runtime_args.h"

TestSuite(runtime_args);

#define READ(...)                                                                                  \
    ({                                                                                             \
        char *argv[] = {(char[]){"cleave-runtime"}, __VA_ARGS__};                                  \
        struct runtime_args got;                                                                   \
        runtime_args_read((int)ARRAY_LEN(argv), argv, &got);                                       \
        got;                                                                                       \
    })
#define W(word) ((char[]){word})

Test(runtime_args, as_containerds_shim_writes_them)
{
    const struct runtime_args a =
        READ(W("--root"), W("/run/containerd/runc/k8s.io"), W("--log"), W("/run/b/log.json"),
             W("--log-format"), W("json"), W("--systemd-cgroup"), W("create"), W("--bundle"),
             W("/run/b"), W("--pid-file"), W("/run/b/init.pid"), W("id"));
    cr_expect_str_eq(a.bundle, "/run/b");
    cr_expect_str_eq(a.log, "/run/b/log.json");
    cr_expect(a.log_is_json);
}

Test(runtime_args, the_bundle_may_be_named_in_each_way_that_runc_knows)
{
    cr_expect_str_eq(READ(W("run"), W("-b"), W("/run/b"), W("id")).bundle, "/run/b");
    cr_expect_str_eq(READ(W("run"), W("--bundle=/run/b"), W("id")).bundle, "/run/b");
    cr_expect_str_eq(READ(W("restore"), W("-bundle"), W("/run/b"), W("id")).bundle, "/run/b");
    cr_expect_str_eq(READ(W("create"), W("id")).bundle, ".");
}

Test(runtime_args, commands_that_make_no_container_have_no_bundle)
{
    cr_expect_null(READ(W("--root"), W("create"), W("start"), W("id")).bundle);
    cr_expect_null(READ(W("exec"), W("id"), W("create")).bundle);
    cr_expect_null(READ(W("--version")).bundle);
    cr_expect_null(READ(W("--log")).log);
}

Test(runtime_args, a_value_is_not_taken_for_a_flag_nor_what_follows_the_id)
{
    cr_expect_str_eq(READ(W("create"), W("--pid-file"), W("--bundle=/no"), W("id"), W("--bundle"),
                          W("/no"))
                         .bundle,
                     ".");
}
