/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/container/slot_pool.h"
#include "nodeagent/slots/share_bind.h"
#include "nodeagent/slots/slot_record.h"
#include "nodeagent/vendor/nvidia/container_nvidia.h"
#include "nodeagent/vendor/nvidia/nvidia_nodes.h"

#define FILE_OF(name) "cdi/" name ".gpu.cleave.dev-nvidia-slot.json"

static struct cdi_slots *cdi;
static struct nvidia_nodes own;
static struct device_nodes nodes;
static char no_root[] = "", ns[] = "ns", pod[] = "pod", uid[] = "u1", next_uid[] = "u2";
static char main_name[] = "main", card_a[] = "GPU-a", card_b[] = "GPU-b", bus_id[] = "0000:05:00.0";

static void set_up(void)
{
    folder_enter();
    cdi = cdi_slots_new(&(struct cdi_options){.folder = "cdi"});
    own = (struct nvidia_nodes){.host_dev_root = no_root, .ctl = true};
    nodes = (struct device_nodes){.own = {{&container_nvidia, &own}}, .dri.host_dev_root = no_root};
}

static void tear_down(void)
{
    cdi = cdi_slots_free(cdi);
    folder_leave();
}

TestSuite(share_bind, .init = set_up, .fini = tear_down);

static unsigned slot(unsigned number)
{
    return slot_at(SLOT_POOL_SHARE, number);
}

static struct slot_deps deps(void)
{
    return (struct slot_deps){.state_dir = "state", .cdi = cdi, .nodes = &nodes};
}

/* Shares of so many MiB and 30 %, of the slots from 3 on: the first of card a, the second of b. */
static int bind_for(char *of, unsigned memory_mib, size_t n, struct err *e)
{
    static char *const cards[] = {card_a, card_b};
    static char first[] = "share.3", second[] = "share.4";
    static char *const names[] = {first, second};
    struct bound_slot bound[2] = {0};
    struct entry_device entries[2];
    for (unsigned i = 0; i < n; i++) {
        bound[i] = (struct bound_slot){.slot = slot(3 + i), .quota = {memory_mib, 30}, .qos = -1};
        (void)snprintf(bound[i].card, sizeof(bound[i].card), "%s", cards[i]);
        entries[i] = (struct entry_device){.vendor = "nvidia",
                                           .cdi_name = names[i],
                                           .card_uuid = cards[i],
                                           .uuid = cards[i],
                                           .pci_bus_id = bus_id,
                                           .minor = i,
                                           .has_slice = true,
                                           .slice = {.memory_mib = memory_mib,
                                                     .card_mib = 81559,
                                                     .compute_percent = 30}};
    }
    const struct slot_binding b = {ns, pod, of, main_name, bound, n, .entries = entries};
    const struct slot_deps d = deps();
    return share_bind(&d, &b, e);
}

static char *text_of(const char *path)
{
    char *text = NULL;
    cr_assert_eq(file_read(path, 1 << 20, &text, NULL, NULL), 0, "%s", path);
    return text;
}

static struct shares all_records(void)
{
    struct shares all = {0};
    unsigned *slots = NULL;
    size_t n = 0;
    cr_assert_eq(slot_records_list("state", &slots, &n, NULL), 0);
    cr_assert_eq(share_records_read("state", slots, n, &all, NULL), 0);
    free(slots);
    return all;
}

Test(share_bind, a_share_is_a_record_and_a_file_for_the_runtime)
{
    auto_err struct err e = {0};
    cr_assert_eq(bind_for(uid, 3000, 2, &e), 0, "%s", err_msg(&e));
    auto_free char *first = text_of(FILE_OF("share.3"));
    auto_free char *second = text_of(FILE_OF("share.4"));
    cr_expect(strstr(first, "CUDA_DEVICE_MEMORY_LIMIT_0=3000m"), "%s", first);
    cr_expect(strstr(first, "CUDA_DEVICE_SM_LIMIT=30"), "%s", first);
    cr_expect(strstr(first, "ALIYUN_COM_GPU_MEM_CONTAINER=2\""), "%s", first);
    cr_expect(strstr(first, "ALIYUN_COM_GPU_MEM_DEV=79\""), "%s", first);
    cr_expect(strstr(first, "ALIYUN_COM_GPU_MEM_IDX=0\""), "%s", first);
    cr_expect(strstr(first, "/dev/nvidia0\""), "%s", first);
    cr_expect(strstr(first, "/dev/nvidiactl"), "%s", first);
    cr_expect(strstr(second, "CUDA_DEVICE_MEMORY_LIMIT_1=3000m"), "%s", second);
    cr_expect(strstr(second, "/dev/nvidia1\""), "%s", second);
    cr_expect_null(strstr(second, "ALIYUN"), "a container of gpushare's has one share");
    auto_shares struct shares all = all_records();
    cr_assert_eq(all.n, 2);
    cr_expect(share_is_of(shares_find(&all, slot(4)), uid, main_name));
    cr_expect_str_eq(shares_find(&all, slot(4))->card, card_b);
    cr_expect_eq(shares_on(&all, card_a).memory_mib, 3000);
}

Test(share_bind, the_same_again_changes_nothing)
{
    struct stat before, after;
    cr_assert_eq(bind_for(uid, 3000, 1, NULL), 0);
    cr_assert_eq(stat(FILE_OF("share.3"), &before), 0);
    cr_assert_eq(bind_for(uid, 3000, 1, NULL), 0);
    cr_assert_eq(stat(FILE_OF("share.3"), &after), 0);
    cr_expect_eq(before.st_ino, after.st_ino);
}

Test(share_bind, the_next_pod_of_the_slot_replaces_what_was_left)
{
    cr_assert_eq(bind_for(uid, 3000, 1, NULL), 0);
    cr_assert_eq(bind_for(next_uid, 5000, 1, NULL), 0);
    auto_free char *text = text_of(FILE_OF("share.3"));
    cr_expect(strstr(text, "CUDA_DEVICE_MEMORY_LIMIT_0=5000m"), "%s", text);
    auto_shares struct shares all = all_records();
    cr_assert_eq(all.n, 1);
    cr_expect(share_is_of(&all.items[0], next_uid, main_name) && all.items[0].memory_mib == 5000);
}

Test(share_bind, releasing_leaves_nothing_and_may_be_repeated)
{
    const struct slot_deps d = deps();
    cr_assert_eq(bind_for(uid, 3000, 1, NULL), 0);
    cr_assert_eq(share_release(&d, slot(3), NULL), 0);
    cr_assert_eq(share_release(&d, slot(3), NULL), 0);
    cr_expect_neq(access(FILE_OF("share.3"), F_OK), 0);
    auto_shares struct shares all = all_records();
    cr_expect_eq(all.n, 0);
}

/* Then no container starts by it, and the share counts. */
Test(share_bind, without_the_cards_files_there_is_a_record_alone)
{
    auto_err struct err e = {0};
    own.nvidia_major = 195; /* known, and /dev has none of the cards */
    cr_expect_eq(bind_for(uid, 3000, 1, &e), -ERR_NOT_FOUND, "%s", err_msg(&e));
    cr_expect_neq(access(FILE_OF("share.3"), F_OK), 0);
    auto_shares struct shares all = all_records();
    cr_expect_eq(all.n, 1);
}

Test(share_bind, another_releases_record_is_left_alone)
{
    const struct slot_deps d = deps();
    static const char text[] = "{\"version\":99}";
    cr_assert_eq(file_make_dirs("state/slots", 0700, NULL), 0);
    cr_assert_eq(file_write_atomic("state/slots/share.3.json", text, strlen(text), 0600, NULL), 0);
    cr_expect_eq(bind_for(uid, 3000, 1, NULL), -ERR_CONFLICT);
    cr_expect_eq(share_release(&d, slot(3), NULL), -ERR_CONFLICT);
    auto_free char *still = text_of("state/slots/share.3.json");
    cr_expect_str_eq(still, text);
    auto_shares struct shares all = all_records();
    cr_expect(all.n == 0 && device_slots_has(&all.unknown, slot(3)), "it may be on any card");
}
