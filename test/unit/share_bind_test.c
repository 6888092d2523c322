/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "api/device.h"
#include "folder_support.h"
#include "nodeagent/container/slot_pool.h"
#include "nodeagent/slots/share_bind.h"
#include "nodeagent/slots/share_folder.h"
#include "nodeagent/slots/slot_record.h"
#include "nodeagent/vendor/nvidia/container_nvidia.h"
#include "nodeagent/vendor/nvidia/nvidia_nodes.h"

#define FILE_OF(name) "cdi/" name ".gpu.cleave.dev-nvidia-slot.json"
#define LIMITER       "lib/0123456789abcdef"

static struct cdi_slots *cdi;
static struct nvidia_nodes own;
static struct device_nodes nodes;
static char no_root[] = "", ns[] = "ns", pod[] = "pod", uid[] = "u1", next_uid[] = "u2";
static char main_name[] = "main", bus_id[] = "0000:05:00.0";
static char card_a[] = "GPU-00112233-4455-6677-8899-aabbccddeeff";
static char card_b[] = "GPU-10112233-4455-6677-8899-aabbccddeeff";
static struct share_folders *folders; /* NULL: no limiter */
static const struct driver_files *driver;
static struct gpu *gpu; /* NULL: its driver has no limits */

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
    folders = share_folders_free(folders);
    folder_leave();
}

TestSuite(share_bind, .init = set_up, .fini = tear_down);

static unsigned slot(unsigned number)
{
    return slot_at(SLOT_POOL_SHARE, number);
}

static struct slot_deps deps(void)
{
    return (struct slot_deps){.gpu = gpu,
                              .state_dir = "state",
                              .cdi = cdi,
                              .nodes = &nodes,
                              .files = driver,
                              .share_folders = folders,
                              .limiter = folders ? LIMITER : NULL,
                              .cgroup_root = gpu ? "cgroup" : NULL};
}

/* Shares of so many MiB and 30 %, of the slots from 3 on: the first of card a, the second of b. */
static int bind_level(char *of, unsigned memory_mib, size_t n, int level, struct err *e)
{
    static char *const cards[] = {card_a, card_b};
    static char first[] = "share.3", second[] = "share.4";
    static char *const names[] = {first, second};
    struct bound_slot bound[2] = {0};
    struct entry_device entries[2];
    for (unsigned i = 0; i < n; i++) {
        bound[i] = (struct bound_slot){.slot = slot(3 + i),
                                       .quota = {memory_mib, 30},
                                       .memory_level = level,
                                       .qos = -1};
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

static int bind_for(char *of, unsigned memory_mib, size_t n, struct err *e)
{
    return bind_level(of, memory_mib, n, API_LEVEL_NONE, e);
}

static int bind_limited(char *of, unsigned memory_mib, size_t n, struct err *e)
{
    return bind_level(of, memory_mib, n, API_LEVEL_LIBRARY, e);
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

/* --- Limits --- */

static char cuda[] = "/usr/lib64/libcuda.so.570.1", cuda_host[] = "/host/libcuda.so.570.1";
static char ml[] = "/usr/lib64/libnvidia-ml.so.570.1", ml_host[] = "/host/libnvidia-ml.so.570.1";
static struct driver_file libraries[] = {{DRIVER_LIBRARY, cuda_host, cuda},
                                         {DRIVER_LIBRARY, ml_host, ml}};
static const struct driver_files both = {.files = libraries, .n_files = 2};
static const struct driver_files one = {.files = libraries, .n_files = 1};

static void install(void)
{
    auto_err struct err e = {0};
    cr_assert_eq(share_folders_new("shares", &folders, &e), 0, "%s", err_msg(&e));
    driver = &both;
}

static uint64_t limit_of(const char *folder, unsigned card)
{
    auto_fd int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_terms struct terms *t = NULL;
    cr_assert_eq(share_terms_map(fd, &t, NULL), 0, "%s", folder);
    cr_assert_lt(card, t->n_cards);
    cr_expect_eq(t->cards[card].compute_level, LEVEL_NONE);
    return t->cards[card].memory_level == LEVEL_LIBRARY ? t->cards[card].memory_bytes : 0;
}

static ino_t inode(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_ino : 0;
}

Test(share_bind, a_limited_container_has_a_folder_and_the_limiter_in_place_of_the_drivers)
{
    auto_err struct err e = {0};
    install();
    cr_assert_eq(bind_limited(uid, 3000, 2, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(limit_of("shares/share.3", 0), (uint64_t)3000 << 20);
    cr_expect_eq(limit_of("shares/share.3", 1), (uint64_t)3000 << 20);
    cr_expect_eq(inode("shares/share.4"), 0, "one folder for the container");
    for (int i = 0; i < 2; i++) {
        auto_free char *text = text_of(i ? FILE_OF("share.4") : FILE_OF("share.3"));
        cr_expect(strstr(text, "{\"hostPath\":\"" LIMITER "/libcleave-cuda.so\",\"containerPath\":"
                               "\"/usr/lib64/libcuda.so.570.1\""),
                  "%s", text);
        cr_expect(strstr(text, "{\"hostPath\":\"/host/libcuda.so.570.1\",\"containerPath\":"
                               "\"/usr/lib/cleave/real/libcuda.so.1\""),
                  "%s", text);
        cr_expect(strstr(text, LIMITER "/libcleave-nvml.so\",\"containerPath\":"
                                       "\"/usr/local/nvidia/lib64/libnvidia-ml.so.570.1\""),
                  "%s", text);
        const char *folder = strstr(text, "{\"hostPath\":\"shares/share.3\",\"containerPath\":"
                                          "\"/run/cleave\",\"options\":[\"ro\"");
        const char *usage = strstr(text, "{\"hostPath\":\"shares/share.3/usage\","
                                         "\"containerPath\":\"/run/cleave/usage\","
                                         "\"options\":[\"rw\"");
        cr_expect(folder && usage && folder < usage, "%s", text);
    }
    auto_shares struct shares all = all_records();
    cr_expect_eq(shares_find(&all, slot(4))->memory_level, API_LEVEL_LIBRARY);
}

Test(share_bind, a_container_that_is_not_limited_has_neither)
{
    install();
    cr_assert_eq(bind_for(uid, 81559, 1, NULL), 0);
    auto_free char *text = text_of(FILE_OF("share.3"));
    cr_expect(strstr(text, "/host/libcuda.so.570.1") && !strstr(text, LIMITER), "%s", text);
    cr_expect_null(strstr(text, "/run/cleave"));
    cr_expect_eq(inode("shares/share.3"), 0);
    auto_shares struct shares all = all_records();
    cr_expect_eq(shares_find(&all, slot(3))->memory_level, API_LEVEL_NONE);
}

/* The running container has them mapped. */
Test(share_bind, bound_again_a_container_keeps_its_files_and_may_have_another_limit)
{
    install();
    cr_assert_eq(bind_limited(uid, 3000, 1, NULL), 0);
    ino_t terms = inode("shares/share.3/terms"), usage = inode("shares/share.3/usage");
    cr_assert_eq(bind_limited(uid, 3000, 1, NULL), 0);
    cr_assert_eq(bind_limited(uid, 5000, 1, NULL), 0);
    cr_expect_eq(limit_of("shares/share.3", 0), (uint64_t)5000 << 20);
    cr_expect(inode("shares/share.3/terms") == terms && inode("shares/share.3/usage") == usage);
}

Test(share_bind, the_next_pod_of_the_slot_has_files_of_its_own)
{
    install();
    cr_assert_eq(bind_limited(uid, 3000, 1, NULL), 0);
    auto_fd int old = open("shares/share.3", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_eq(bind_limited(next_uid, 3000, 1, NULL), 0);
    cr_expect_neq(faccessat(old, "usage", F_OK, 0), 0, "the old folder is empty");
    cr_expect_neq(inode("shares/share.3/usage"), 0);
    cr_assert_eq(bind_for(uid, 3000, 1, NULL), 0);
    cr_expect_eq(inode("shares/share.3"), 0, "and is gone with a pod that needs none");
}

/* A slot of a container whose lowest one is another's now. */
Test(share_bind, the_folder_is_found_by_the_lowest_slot_alone)
{
    const struct slot_deps d = (install(), deps());
    cr_assert_eq(bind_limited(uid, 3000, 2, NULL), 0);
    cr_assert_eq(share_release(&d, slot(4), NULL), 0);
    cr_expect_neq(inode("shares/share.3/terms"), 0);
    cr_assert_eq(share_release(&d, slot(3), NULL), 0);
    cr_expect_eq(inode("shares/share.3"), 0);
}

Test(share_bind, a_limited_release_leaves_nothing_and_may_be_repeated)
{
    const struct slot_deps d = (install(), deps());
    cr_assert_eq(bind_limited(uid, 3000, 1, NULL), 0);
    cr_assert_eq(share_release(&d, slot(3), NULL), 0);
    cr_assert_eq(share_release(&d, slot(3), NULL), 0);
    cr_expect_eq(inode("shares/share.3"), 0);
    cr_expect_eq(inode(FILE_OF("share.3")), 0);
}

static void expect_refused(const char *words)
{
    auto_err struct err e = {0};
    cr_expect_eq(bind_limited(next_uid, 3000, 1, &e), -ERR_UNAVAILABLE);
    cr_expect(strstr(err_msg(&e), words), "%s", err_msg(&e));
}

/* Its container goes on with what it has, and is not started again without a limit. */
Test(share_bind, a_limited_share_without_a_limiter_is_not_made)
{
    install();
    driver = &one;
    expect_refused("libraries");
    driver = NULL;
    expect_refused("libraries");
    driver = &both;
    cr_assert_eq(bind_limited(uid, 3000, 1, NULL), 0);
    folders = share_folders_free(folders);
    expect_refused("not installed");
    auto_free char *text = text_of(FILE_OF("share.3"));
    cr_expect(strstr(text, LIMITER), "%s", text);
    cr_expect_neq(inode("shares/share.3/terms"), 0);
}

/* What an agent with a limiter left. */
Test(share_bind, a_share_is_released_where_the_limiter_is_no_longer_installed)
{
    install();
    cr_assert_eq(bind_limited(uid, 3000, 1, NULL), 0);
    struct slot_deps d = deps();
    d.limiter = NULL;
    cr_assert_eq(share_release(&d, slot(3), NULL), 0);
    cr_expect_eq(inode("shares/share.3"), 0);
}

/* --- Limits of the driver --- */

/* A driver in memory: what it was asked, and what was there at that moment. */
static struct driver_stub {
    struct gpu gpu;
    unsigned sets, fails; /* calls that set; the number of the one that fails */
    uint64_t mib;         /* the limit now; 0: none */
    bool after_record, before_file, before_folder;
} stub;

static int stub_set(struct gpu *g, const char *uuid, const char *cgroup, uint64_t hard_bytes,
                    struct err *e)
{
    (void)g;
    cr_expect_str_eq(uuid, card_a);
    cr_expect_str_eq(cgroup, "cgroup/kubepods/podu1");
    stub.after_record = inode("state/slots/share.3.json") != 0;
    stub.before_file = inode(FILE_OF("share.3")) == 0;
    stub.before_folder = inode("shares/share.3") == 0;
    if (++stub.sets == stub.fails)
        return err_set(e, ERR_UNAVAILABLE, "the driver is busy");
    stub.mib = hard_bytes == GPU_NO_LIMIT ? 0 : hard_bytes >> 20;
    return 0;
}

static int stub_get(struct gpu *g, const char *uuid, const char *cgroup, struct gpu_limit *ret,
                    struct err *e)
{
    (void)g;
    (void)uuid;
    (void)cgroup;
    (void)e;
    ret->hard_bytes = stub.mib ? stub.mib << 20 : GPU_NO_LIMIT;
    return 0;
}

static const struct gpu_ops stub_ops = {.limit_set = stub_set, .limit_get = stub_get};

/* fails: the number of the call that does. */
static void with_driver(unsigned fails)
{
    uint64_t mib = stub.mib;
    stub = (struct driver_stub){.gpu = {&stub_ops}, .fails = fails, .mib = mib};
    gpu = &stub.gpu;
    cr_assert_eq(file_make_dirs("cgroup/kubepods/podu1", 0755, NULL), 0);
}

static int bind_driven(unsigned memory_mib, struct err *e)
{
    return bind_level(uid, memory_mib, 1, API_LEVEL_DRIVER, e);
}

static int release_driven(struct err *e)
{
    const struct slot_deps d = deps();
    return share_release(&d, slot(3), e);
}

Test(share_bind, the_drivers_limit_stands_after_the_record_and_before_what_starts_a_container)
{
    auto_err struct err e = {0};
    install();
    with_driver(0);
    cr_assert_eq(bind_driven(3000, &e), 0, "%s", err_msg(&e));
    cr_expect(stub.after_record && stub.before_file && stub.before_folder);
    cr_expect_eq(stub.mib, 3000);
    cr_expect_neq(inode(FILE_OF("share.3")), 0);
    cr_expect_neq(inode("shares/share.3/terms"), 0, "the limiter counts as well");
    auto_shares struct shares all = all_records();
    cr_expect_eq(shares_find(&all, slot(3))->memory_level, API_LEVEL_DRIVER);
    cr_assert_eq(release_driven(&e), 0, "%s", err_msg(&e));
    cr_expect(stub.after_record && stub.before_file && stub.before_folder, "the record goes last");
    cr_expect_eq(stub.mib, 0);
    cr_expect_eq(inode("state/slots/share.3.json"), 0);
}

/* Also where an earlier file is there: a size that changed. */
Test(share_bind, while_the_driver_refuses_nothing_starts_a_container)
{
    with_driver(1);
    cr_expect_eq(bind_driven(3000, NULL), -ERR_UNAVAILABLE);
    cr_expect_eq(inode(FILE_OF("share.3")), 0);
    cr_assert_eq(bind_driven(3000, NULL), 0);
    with_driver(1);
    cr_expect_eq(bind_driven(5000, NULL), -ERR_UNAVAILABLE);
    cr_expect_eq(stub.mib, 3000, "what runs is held as before");
    cr_expect(stub.before_file);
    cr_expect_eq(inode(FILE_OF("share.3")), 0);
    cr_assert_eq(bind_driven(5000, NULL), 0);
    cr_expect_eq(stub.mib, 5000);
}

/* Its container goes on, and is not started again. */
Test(share_bind, while_a_limit_that_was_lost_cannot_be_set_again_there_is_no_file)
{
    auto_err struct err e = {0};
    with_driver(0);
    cr_assert_eq(bind_driven(3000, NULL), 0);
    stub.mib = 0;
    with_driver(1);
    cr_expect_eq(bind_driven(3000, &e), -ERR_UNAVAILABLE);
    cr_expect(strstr(err_msg(&e), "the driver is busy"), "%s", err_msg(&e));
    cr_expect_eq(inode(FILE_OF("share.3")), 0);
    cr_expect_neq(inode("state/slots/share.3.json"), 0);
    cr_assert_eq(bind_driven(3000, NULL), 0);
    cr_expect_neq(inode(FILE_OF("share.3")), 0);
    cr_expect_eq(stub.mib, 3000);
}

Test(share_bind, while_a_limit_cannot_be_cleared_its_record_stays)
{
    with_driver(2);
    cr_assert_eq(bind_driven(3000, NULL), 0);
    cr_expect_eq(release_driven(NULL), -ERR_UNAVAILABLE);
    cr_expect_neq(inode("state/slots/share.3.json"), 0);
    cr_expect_eq(inode(FILE_OF("share.3")), 0);
    cr_assert_eq(release_driven(NULL), 0);
    cr_expect_eq(stub.mib, 0);
}

Test(share_bind, the_next_pod_of_the_slot_leaves_no_limit_of_the_one_before)
{
    with_driver(0);
    cr_assert_eq(bind_driven(3000, NULL), 0);
    cr_assert_eq(bind_for(next_uid, 5000, 1, NULL), 0);
    cr_expect_eq(stub.mib, 0);
}

Test(share_bind, the_driver_holds_where_the_limiter_is_not_installed)
{
    auto_err struct err e = {0};
    driver = &one; /* nor could it be: a library is missing */
    with_driver(0);
    cr_assert_eq(bind_driven(3000, &e), 0, "%s", err_msg(&e));
    cr_expect_eq(stub.mib, 3000);
    auto_free char *text = text_of(FILE_OF("share.3"));
    cr_expect_null(strstr(text, "/run/cleave"), "%s", text);
}

/* --- MPS --- */

static int bind_client(bool is_capped, unsigned percent, struct entry mps_take, struct err *e)
{
    static char entry_name[] = "share.3";
    struct bound_slot g = {.slot = slot(3),
                           .quota = {3000, percent},
                           .compute_level = API_LEVEL_MPS,
                           .is_capped = is_capped,
                           .qos = -1};
    struct entry_device d = {.vendor = "nvidia",
                             .cdi_name = entry_name,
                             .card_uuid = card_a,
                             .uuid = card_a,
                             .pci_bus_id = bus_id,
                             .has_slice = true,
                             .slice = {.memory_mib = 3000, .card_mib = 81559}};
    auto_entry struct entry mps = mps_take;
    (void)snprintf(g.card, sizeof(g.card), "%s", card_a);
    const struct slot_binding b = {ns, pod, uid, main_name, &g, 1, .entries = &d, .mps = mps};
    const struct slot_deps deps_now = deps();
    return share_bind(&deps_now, &b, e);
}

static struct entry daemons(void)
{
    struct entry en = {0};
    entry_add_env(&en, "CUDA_MPS_PIPE_DIRECTORY", "/run/mps/pipe");
    entry_add_mount(&en, "/run/mps/pipe", "/run/mps/pipe", /* read_only= */ false);
    return en;
}

Test(share_bind, a_client_of_mps_has_the_daemons_folder_and_its_part)
{
    auto_err struct err e = {0};
    cr_assert_eq(bind_client(true, 30, daemons(), &e), 0, "%s", err_msg(&e));
    auto_free char *text = text_of(FILE_OF("share.3"));
    cr_expect(strstr(text, "CUDA_MPS_PIPE_DIRECTORY=/run/mps/pipe"), "%s", text);
    cr_expect(strstr(text, "\"containerPath\":\"/run/mps/pipe\""), "%s", text);
    cr_expect(strstr(text, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30"), "%s", text);
    cr_expect(strstr(text, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=3000M"), "%s", text);
    auto_shares struct shares all = all_records();
    cr_expect_eq(shares_find(&all, slot(3))->compute_level, API_LEVEL_MPS);
}

Test(share_bind, a_client_without_a_part_has_the_folder_alone)
{
    cr_assert_eq(bind_client(true, 0, daemons(), NULL), 0);
    auto_free char *no_percent = text_of(FILE_OF("share.3"));
    cr_expect(!strstr(no_percent, "THREAD_PERCENTAGE") && strstr(no_percent, "MEM_LIMIT"));
    cr_assert_eq(bind_client(false, 30, daemons(), NULL), 0);
    auto_free char *all = text_of(FILE_OF("share.3"));
    cr_expect(!strstr(all, "THREAD_PERCENTAGE") && !strstr(all, "MEM_LIMIT"), "%s", all);
    cr_expect(strstr(all, "PIPE_DIRECTORY"));
}

Test(share_bind, without_its_daemon_a_client_is_not_bound)
{
    auto_err struct err e = {0};
    cr_expect_eq(bind_client(true, 30, (struct entry){0}, &e), -ERR_UNAVAILABLE);
    cr_expect(strstr(err_msg(&e), "MPS daemon is not ready"), "%s", err_msg(&e));
    cr_expect_eq(inode(FILE_OF("share.3")), 0);
    auto_shares struct shares all = all_records();
    cr_expect_eq(all.n, 0);
}
