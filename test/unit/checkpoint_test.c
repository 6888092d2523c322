/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sb.h"
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

/* The answer of a plugin for /dev/nvidiactl and /dev/nvidia1, as a kubelet keeps it. */
#define ANSWER                                                                                     \
    "Ch8KFk5WSURJQV9WSVNJQkxFX0RFVklDRVMSBU1JRy1hGiQKDi9kZXYvbnZpZGlhY3RsEg4vZGV2L252aWRpYWN0"     \
    "bBoCcncaIAoML2Rldi9udmlkaWExEgwvZGV2L252aWRpYTEaAnJ3"

Test(checkpoint, the_files_of_each_answer_are_read)
{
    auto_checkpoint struct checkpoint c = {0};
    static const char text[] = FILE_OF("[" ENTRY("[]") "," ENTRY(
        "[\"GPU-1\"]") ",{\"PodUID\":\"1\",\"ContainerName\":\"a\","
                       "\"ResourceName\":\"x\",\"DeviceIDs\":{\"0\":[\"b\"],\"1\":[\"c\"]},\"AllocResp\":\"" ANSWER
                       "\"}]");
    cr_assert_eq(parse(text, &c), 0);
    cr_assert_eq(c.n_grants, 2, "an entry without devices is none");
    cr_expect_eq(c.grants[0].n_files, 0, "what is no answer names no files");
    cr_expect_eq(c.grants[1].first, 1);
    cr_expect_eq(c.grants[1].n, 2);
    cr_assert_eq(c.grants[1].n_files, 2);
    cr_expect_str_eq(c.grants[1].files[0], "/dev/nvidiactl");
    cr_expect_str_eq(c.grants[1].files[1], "/dev/nvidia1");
}

/* The same for /dev/nvidia1 and a mount: the mark of GPU-1, and one that is mounted where a mark
 * comes from. */
#define MARKED                                                                                     \
    "EjkKIC9ydW4vY2xlYXZlL2RldmljZXMvbnZpZGlhL0dQVS0xEhMvcnVuL2NsZWF2ZS9ncmFudGVkGAEaIAoML2Rldi9udmlkaWExEgwvZGV2L252aWRpYTEaAnJ3"
#define MOUNTED                                                                                    \
    "Eh0KEy9ydW4vY2xlYXZlL2dyYW50ZWQSBC90bXAYARogCgwvZGV2L252aWRpYTESDC9kZXYvbnZpZGlhMRoCcnc="
#define ANSWERED(answer)                                                                           \
    "{\"PodUID\":\"1\",\"ResourceName\":\"x\",\"DeviceIDs\":[\"b\"],\"AllocResp\":\"" answer "\"}"

Test(checkpoint, an_answer_with_a_mark_for_cleave_runtime_is_known)
{
    auto_checkpoint struct checkpoint c = {0};
    cr_assert_eq(parse(FILE_OF("[" ANSWERED(MARKED) "," ANSWERED(MOUNTED) "]"), &c), 0);
    cr_assert_eq(c.n_files, 2);
    cr_expect(c.grants[0].is_marked);
    cr_expect_not(c.grants[1].is_marked);
}

/* An entry whose answer has three times so many files, all without a path. Caller frees. */
static char *entry_with_files(size_t thirds)
{
    auto_sb struct sb answer = SB_INIT(1 << 16);
    for (size_t i = 0; i < thirds; i++)
        sb_add(&answer, "GgAaABoA");
    return xasprintf("{\"PodUID\":\"1\",\"ResourceName\":\"x\",\"DeviceIDs\":[\"b\"],"
                     "\"AllocResp\":\"%s\"}",
                     sb_str(&answer));
}

Test(checkpoint, an_answer_with_too_many_files_counts_as_one_without)
{
    auto_checkpoint struct checkpoint c = {0};
    auto_free char *few = entry_with_files(341);
    auto_free char *many = entry_with_files(342);
    auto_free char *text = xasprintf(FILE_OF("[%s,%s]"), few, many);
    cr_assert_eq(parse(text, &c), 0);
    cr_assert_eq(c.n_grants, 2);
    cr_expect_eq(c.grants[0].n_files, 1023);
    cr_expect_eq(c.grants[1].n_files, 0);
}

Test(checkpoint, the_files_of_all_answers_have_a_bound)
{
    auto_checkpoint struct checkpoint c = {0};
    auto_sb struct sb entries = SB_INIT(1 << 20);
    auto_free char *entry = entry_with_files(341);
    for (int i = 0; i < 70; i++)
        sb_addf(&entries, "%s%s", i ? "," : "", entry);
    auto_free char *text = xasprintf(FILE_OF("[%s]"), sb_str(&entries));
    cr_assert_eq(parse(text, &c), 0);
    cr_assert_eq(c.n_grants, 70, "the devices count all the same");
    cr_expect_eq(c.n_files, 64 * 1023);
    cr_expect_eq(c.grants[63].n_files, 1023);
    cr_expect_eq(c.grants[64].n_files, 0);
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

/* A pipe that nobody writes would hold the agent's loop for ever. */
Test(checkpoint, what_is_no_regular_file_is_refused, .timeout = 10)
{
    char dir[] = "/tmp/checkpoint-XXXXXX";
    cr_assert_not_null(mkdtemp(dir));
    auto_free char *pipe = xasprintf("%s/pipe", dir);
    auto_free char *link = xasprintf("%s/link", dir);
    cr_assert_eq(mkfifo(pipe, 0600), 0);
    cr_assert_eq(symlink(pipe, link), 0);
    const char *const paths[] = {pipe, link};
    auto_checkpoint struct checkpoint c = {0};
    cr_assert_eq(parse(FILE_OF("[" ENTRY("[\"GPU-1\"]") "]"), &c), 0);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        auto_err struct err e = {0};
        cr_expect_eq(checkpoint_refresh(&c, paths[i], &e), -(int)ERR_INVALID);
        cr_expect(strstr(err_msg(&e), "is no regular file"), "%s", err_msg(&e));
        cr_expect_eq(c.n, 1);
    }
    (void)unlink(pipe);
    (void)unlink(link);
    (void)rmdir(dir);
}
