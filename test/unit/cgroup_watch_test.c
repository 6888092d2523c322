/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>

#include "base/file.h"

#include "folder_support.h"
#include "nodeagent/slots/cgroup_watch.h"

static struct cgroup_watch *watch;

static void folder(const char *path)
{
    cr_assert_eq(file_make_dirs(path, 0755, NULL), 0, "%s", path);
}

static void set_up(void)
{
    folder_enter();
    folder("root/kubepods.slice");
    watch = cgroup_watch_new("root");
    cr_assert(watch);
}

static void tear_down(void)
{
    watch = cgroup_watch_free(watch);
    folder_leave();
}

TestSuite(cgroup_watch, .init = set_up, .fini = tear_down);

/* Within the time that the kernel may need. */
static bool is_readable(int timeout_ms)
{
    struct pollfd fd = {.fd = cgroup_watch_fd(watch), .events = POLLIN};
    return poll(&fd, 1, timeout_ms) == 1;
}

Test(cgroup_watch, one_that_is_there_is_not_waited_for)
{
    folder("root/kubepods.slice/kubepods-pod1.slice");
    cr_expect(cgroup_watch_has(watch, "1", NULL));
    folder("root/kubepods.slice/kubepods-pod2.slice");
    cr_expect_not(is_readable(0));
}

Test(cgroup_watch, one_that_is_made_later_is_reported)
{
    auto_err struct err why = {0};
    cr_expect_not(cgroup_watch_has(watch, "1", &why));
    cr_expect(strstr(err_msg(&why), "has made no cgroup"), "%s", err_msg(&why));
    cr_expect_not(is_readable(0));
    folder("root/kubepods.slice/kubepods-pod1.slice");
    cr_expect(is_readable(1000));
    cr_expect(cgroup_watch_take(watch));
    cr_expect(cgroup_watch_has(watch, "1", NULL));
}

Test(cgroup_watch, it_may_be_the_first_of_its_class_or_of_all)
{
    cr_expect_not(cgroup_watch_has(watch, "1", NULL));
    folder("root/kubepods.slice/kubepods-burstable.slice");
    cr_expect(is_readable(1000) && cgroup_watch_take(watch));
    cr_expect_not(cgroup_watch_has(watch, "1", NULL));
    folder("root/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice");
    cr_expect(is_readable(1000) && cgroup_watch_take(watch));
    cr_expect(cgroup_watch_has(watch, "1", NULL));
    cr_expect_not(cgroup_watch_has(watch, "2", NULL));
    folder("root/kubepods");
    cr_expect(is_readable(1000) && cgroup_watch_take(watch));
}

Test(cgroup_watch, nothing_is_reported_while_nobody_waits)
{
    cr_expect_not(cgroup_watch_has(watch, "1", NULL));
    folder("root/kubepods.slice/kubepods-pod1.slice");
    cr_expect(is_readable(1000) && cgroup_watch_take(watch));
    while (is_readable(0))
        cr_expect_not(cgroup_watch_take(watch), "the end of a watch is no cgroup");
    folder("root/kubepods.slice/kubepods-pod2.slice");
    cr_expect_not(is_readable(0));
    cr_expect_not(cgroup_watch_take(watch));
}
