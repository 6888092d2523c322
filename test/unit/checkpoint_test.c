/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "nodeagent/kubelet/checkpoint.h"

#define ENTRY(ids)                                                                                 \
    "{\"PodUID\":\"0b7c\",\"ContainerName\":\"main\",\"ResourceName\":\"nvidia.com/gpu\","         \
    "\"DeviceIDs\":" ids ",\"AllocResp\":\"Qis=\"}"
#define FILE_OF(entries)                                                                           \
    "{\"Data\":{\"PodDeviceEntries\":" entries ",\"RegisteredDevices\":{}},\"Checksum\":1}"

static int parse(const char *text, struct checkpoint *c)
{
    return checkpoint_parse(text, strlen(text), c, NULL);
}

Test(checkpoint, devices_are_listed_by_numa_node)
{
    auto_checkpoint struct checkpoint c = {0};
    cr_assert_eq(parse(FILE_OF("[" ENTRY("{\"-1\":[\"GPU-1\"],\"0\":[\"GPU-2\"]}") "]"), &c), 0);
    cr_assert_eq(c.n, 2);
    cr_expect_str_eq(c.devices[0].id, "GPU-1");
    cr_expect_str_eq(c.devices[1].id, "GPU-2");
    cr_expect_str_eq(c.devices[1].uid, "0b7c");
    cr_expect_str_eq(c.devices[1].container, "main");
    cr_expect_str_eq(c.devices[1].resource, "nvidia.com/gpu");
}

Test(checkpoint, older_kubelets_write_a_plain_list)
{
    auto_checkpoint struct checkpoint c = {0};
    cr_assert_eq(parse(FILE_OF("[" ENTRY("[\"GPU-1\"]") "]"), &c), 0);
    cr_expect_eq(c.n, 1);
}

Test(checkpoint, a_kubelet_without_pods_writes_null)
{
    auto_checkpoint struct checkpoint c = {0};
    cr_assert_eq(parse(FILE_OF("null"), &c), 0);
    cr_expect_eq(c.n, 0);
    cr_assert_eq(parse(FILE_OF("[" ENTRY("{\"0\":null}") "]"), &c), 0);
    cr_expect_eq(c.n, 0);
}

Test(checkpoint, what_cannot_be_read_changes_nothing)
{
    static const char *const odd[] = {
        "",
        "{",
        "[]",
        FILE_OF("7"),
        FILE_OF("[7]"),
        FILE_OF("[{}]"),
        FILE_OF("[" ENTRY("{\"0\":7}") "]"),
        FILE_OF("[" ENTRY("{\"0\":[7]}") "]"),
    };
    auto_checkpoint struct checkpoint c = {0};
    cr_assert_eq(parse(FILE_OF("[" ENTRY("[\"GPU-1\"]") "]"), &c), 0);
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        cr_expect(parse(odd[i], &c) < 0, "%s", odd[i]);
        cr_assert_eq(c.n, 1, "%s", odd[i]);
    }
}

/* As the kubelet does it: atomically. */
static void write_file(const char *path, const char *text)
{
    cr_assert_eq(file_write_atomic(path, text, strlen(text), 0600, NULL), 0);
}

Test(checkpoint, file_is_read_again_when_it_is_another)
{
    char path[] = "/tmp/checkpoint-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    (void)close(fd);
    auto_checkpoint struct checkpoint c = {0};
    write_file(path, FILE_OF("[" ENTRY("[\"GPU-1\"]") "]"));
    cr_assert_eq(checkpoint_refresh(&c, path, NULL), 0);
    cr_assert_eq(c.n, 1);
    struct checkpoint_device *before = c.devices;
    cr_assert_eq(checkpoint_refresh(&c, path, NULL), 0);
    cr_expect_eq(c.devices, before, "the same file is not read twice");
    write_file(path, FILE_OF("[" ENTRY("[\"GPU-1\",\"GPU-2\"]") "]"));
    cr_assert_eq(checkpoint_refresh(&c, path, NULL), 0);
    cr_expect_eq(c.n, 2);
    (void)unlink(path);
    cr_assert_eq(checkpoint_refresh(&c, path, NULL), 0);
    cr_expect_eq(c.n, 0, "none says nothing");
}
