/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/audit/folder_mount.h"
#include "nodeagent/audit/share_look.h"
#include "nodeagent/slots/share_folder.h"

#define CARD      "GPU-00112233-4455-6677-8899-aabbccddeeff"
#define OTHER     "GPU-10112233-4455-6677-8899-aabbccddeeff"
#define UID       "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
#define CONTAINER "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define SIDECAR   "10112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define MIB       ((uint64_t)1 << 20)

/* A node with two cards. On the first the container "main" of a pod has a share, and of both the
 * container "pair". */
static struct share_folders *folders;
static struct folder_mount root;
static struct shares shares;
static struct card_view views[2];
static struct share_sights sights;
static char *proc_root;

static unsigned slot(unsigned number)
{
    return slot_at(SLOT_POOL_SHARE, number);
}

static void add_share(unsigned number, const char *card, const char *container)
{
    char *uid = xstrdup(UID);
    char *name = xstrdup(container);
    struct share s = {.slot = slot(number),
                      .memory_mib = 3000,
                      .memory_level = API_LEVEL_LIBRARY,
                      .uid = uid,
                      .container = name};
    (void)snprintf(s.card, sizeof(s.card), "%s", card);
    shares_put(&shares, &s);
    free(uid);
    free(name);
}

static void put_folder(unsigned number, const char *first, const char *second)
{
    auto_err struct err e = {0};
    struct share_limit limits[2] = {{.memory_bytes = 3000 * MIB, .memory_level = LEVEL_LIBRARY},
                                    {.memory_bytes = 3000 * MIB, .memory_level = LEVEL_LIBRARY}};
    (void)snprintf(limits[0].card, sizeof(limits[0].card), "%s", first);
    (void)snprintf(limits[1].card, sizeof(limits[1].card), "%s", second ? second : "");
    cr_assert_eq(share_folders_put(folders, slot(number), limits, second ? 2 : 1, &e), 0, "%s",
                 err_msg(&e));
}

static void set_up(void)
{
    auto_err struct err e = {0};
    folder_enter();
    auto_free char *at = xasprintf("%s/shares", folder_path());
    cr_assert_eq(mkdir("shares", 0700), 0);
    cr_assert_eq(share_folders_new(at, &folders, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(folder_mount_find(at, &root, &e), 0, "%s", err_msg(&e));
    cr_assert_eq(mkdir("proc", 0755), 0);
    proc_root = xasprintf("%s/proc", folder_path());
    (void)snprintf(views[0].card.uuid, sizeof(views[0].card.uuid), CARD);
    (void)snprintf(views[1].card.uuid, sizeof(views[1].card.uuid), OTHER);
    add_share(3, CARD, "main");
    add_share(6, OTHER, "pair");
    add_share(5, CARD, "pair");
    put_folder(3, CARD, NULL);
    put_folder(5, CARD, OTHER);
}

static void tear_down(void)
{
    share_sights_done(&sights);
    for (size_t i = 0; i < ARRAY_LEN(views); i++) {
        free(views[i].card.users);
        free(views[i].pods);
    }
    shares_done(&shares);
    folder_mount_done(&root);
    folders = share_folders_free(folders);
    free(proc_root);
    folder_leave();
}

TestSuite(share_look, .init = set_up, .fini = tear_down);

static void say(unsigned pid, const char *name, const char *text)
{
    auto_free char *folder = xasprintf("proc/%u", pid);
    auto_free char *path = xasprintf("%s/%s", folder, name);
    (void)mkdir(folder, 0755);
    cr_assert_eq(file_replace(path, text, strlen(text), 0644, NULL), 0);
}

/* folder: the number of the slot whose folder it shows; -1: none. */
static void show_folder(unsigned pid, int folder)
{
    auto_free char *line = folder < 0
                               ? xstrdup("90 89 0:60 / / rw - overlay o rw\n")
                               : xasprintf("91 90 %s %s/share.%d /run/cleave ro - tmpfs tmpfs rw\n",
                                           root.device, root.path, folder);
    say(pid, "mountinfo", line);
}

/* A process on a card, with pid ticks since boot and pid - 1000 for its own number. */
static void run(struct card_view *v, unsigned pid, uint64_t mib, const char *container, int folder)
{
    unsigned at = v->card.n_users++;
    v->card.users = xreallocarray(v->card.users, at + 1, sizeof(*v->card.users));
    v->pods = xreallocarray(v->pods, at + 1, sizeof(*v->pods));
    v->card.users[at] = (struct gpu_user){.pid = pid, .memory_bytes = mib * MIB, .part = -1};
    (void)snprintf(v->card.users[at].name, sizeof(v->card.users[at].name), "program");
    v->pods[at] = (struct consumer){.pod_uid = UID};
    (void)snprintf(v->pods[at].container_id, sizeof(v->pods[at].container_id), "%s", container);
    auto_free char *stat =
        xasprintf("%u (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 %u 0\n", pid, pid);
    auto_free char *status = xasprintf("Name:\ta\nNSpid:\t%u\t%u\n", pid, pid - 1000);
    say(pid, "stat", stat);
    say(pid, "status", status);
    show_folder(pid, folder);
}

static void put_word(int fd, uint64_t word, size_t at)
{
    cr_assert_eq(pwrite(fd, &word, sizeof(word), (off_t)at), (ssize_t)sizeof(word));
}

/* The limiter in the only process of the folder's container has taken so much of a card, so much of
 * it for its n contexts. */
static void count(unsigned number, unsigned pid, unsigned card, uint64_t taken, uint64_t n,
                  uint64_t by_contexts)
{
    const struct usage_process p = {.pid = pid - 1000, .started = pid};
    auto_free char *path = xasprintf("shares/share.%u/usage", number);
    auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    const uint32_t reach = 1;
    cr_assert_eq(pwrite(fd, &p, sizeof(p), offsetof(struct usage, processes)), (ssize_t)sizeof(p));
    cr_assert_eq(pwrite(fd, &reach, sizeof(reach), offsetof(struct usage, reach)),
                 (ssize_t)sizeof(reach));
    put_word(fd, taken, offsetof(struct usage, taken) + card * sizeof(uint64_t[1024]));
    put_word(fd, by_contexts, offsetof(struct usage, by_contexts) + card * sizeof(uint64_t[1024]));
    put_word(fd, n, offsetof(struct usage, contexts) + card * sizeof(uint64_t[1024]));
}

static void look(void)
{
    const struct share_look_where where = {proc_root, folders};
    share_sights_done(&sights);
    share_look(&where, &shares, views, ARRAY_LEN(views), &sights);
}

static const struct share_sight *sight(unsigned number)
{
    look();
    for (size_t i = 0; i < sights.n; i++)
        if (sights.items[i].slot == slot(number))
            return &sights.items[i];
    return NULL;
}

Test(share_look, each_share_has_the_processes_of_its_container_on_its_card)
{
    run(&views[0], 2001, 100, CONTAINER, 3);
    run(&views[0], 2002, 200, SIDECAR, 5);
    run(&views[1], 2002, 300, SIDECAR, 5);
    const struct share_sight *s = sight(3);
    cr_expect_eq(sights.n, 3);
    cr_assert_eq(s->n, 1);
    cr_expect(s->processes[0].id.pid == 2001 && s->processes[0].id.started == 2001);
    cr_expect_str_eq(s->processes[0].id.of.container_id, CONTAINER);
    cr_expect_str_eq(s->processes[0].name, "program");
    cr_expect_eq(s->processes[0].bytes, 100 * MIB);
    cr_expect_eq(s->limit_bytes, 3000 * MIB);
    cr_expect_str_eq(s->card, CARD);
    s = sight(5);
    cr_assert_eq(s->n, 1);
    cr_expect_eq(s->processes[0].bytes, 200 * MIB);
    s = sight(6);
    cr_assert_eq(s->n, 1);
    cr_expect_eq(s->processes[0].bytes, 300 * MIB);
    cr_expect_eq(s->folder, slot(5), "one folder for both cards");
}

Test(share_look, what_the_limiter_counts_is_found_by_the_processes_own_number_and_begin)
{
    run(&views[1], 2002, 300, SIDECAR, 5);
    cr_expect_not(sight(6)->processes[0].is_limited);
    count(5, 2002, 1, 250 * MIB, 2, 90 * MIB);
    const struct audit_process *p = sight(6)->processes;
    cr_expect(p->is_limited && p->own_bytes == 160 * MIB && p->contexts == 2);
    count(5, 2003, 1, 250 * MIB, 2, 90 * MIB);
    cr_expect_not(sight(6)->processes[0].is_limited);
}

Test(share_look, the_terms_of_the_card_say_what_a_context_takes)
{
    auto_fd int folder = -1;
    auto_terms struct terms *t = NULL;
    cr_assert_eq(share_folders_open(folders, slot(5), &folder, NULL), 0);
    cr_assert_eq(share_terms_map(folder, &t, NULL), 0);
    cr_assert_eq(share_terms_card(t, OTHER), 1);
    cr_expect_eq(share_terms_card(t, "GPU-20112233-4455-6677-8899-aabbccddeeff"), -1);
    cr_expect_eq(share_terms_card(t, "a"), -1);
    share_terms_set_context(t, 1, 400 * MIB);
    cr_expect_eq(sight(6)->context_bytes, 400 * MIB);
    cr_expect_eq(sight(5)->context_bytes, 0);
}

Test(share_look, the_turns_of_a_share_are_told_where_the_limiter_holds_its_compute)
{
    auto_err struct err e = {0};
    struct share_limit limit = {.memory_bytes = 3000 * MIB,
                                .percent = 30,
                                .memory_level = LEVEL_LIBRARY,
                                .compute_level = LEVEL_LIBRARY};
    (void)snprintf(limit.card, sizeof(limit.card), "%s", CARD);
    cr_assert_eq(share_folders_put(folders, slot(3), &limit, 1, &e), 0, "%s", err_msg(&e));
    cr_expect(sight(3)->takes_turns);
    cr_expect_eq(sight(3)->percent, 30);
    cr_expect_eq(sight(3)->turns.throttled_ns, 0);
    cr_expect_not(sight(5)->takes_turns);
}

Test(share_look, contexts_are_counted_by_the_limiter_and_whatever_it_took_for_them_when)
{
    auto_fd int folder = -1;
    auto_terms struct terms *t = NULL;
    run(&views[1], 2002, 3000, SIDECAR, 5);
    count(5, 2002, 1, 2000 * MIB, 3, 2000 * MIB);
    cr_assert_eq(share_folders_open(folders, slot(5), &folder, NULL), 0);
    cr_assert_eq(share_terms_map(folder, &t, NULL), 0);
    for (uint64_t mib = 0; mib < 1000; mib += 100) {
        share_terms_set_context(t, 1, mib * MIB);
        cr_expect_eq(sight(6)->processes[0].contexts, 3, "%d MiB", (int)mib);
    }
}

Test(share_look, a_process_that_shows_no_folder_is_of_the_container_of_those_that_do)
{
    run(&views[0], 2001, 100, CONTAINER, -1);
    cr_expect_eq(sight(3)->n, 0, "nobody tells");
    run(&views[0], 2002, 200, CONTAINER, 3);
    run(&views[0], 2003, 400, SIDECAR, -1);
    cr_expect_eq(sight(3)->n, 2);
}

Test(share_look, a_process_of_another_pod_is_of_no_share_whatever_it_shows)
{
    run(&views[0], 2001, 100, CONTAINER, 3);
    views[0].pods[0].pod_uid[0] = '1';
    cr_expect_eq(sight(3)->n, 0);
}

Test(share_look, pods_that_hold_the_card_and_processes_that_have_ended_are_none)
{
    run(&views[0], 2001, 100, CONTAINER, 3);
    views[0].card.users[0].is_pod = true;
    cr_expect_eq(sight(3)->n, 0);
    views[0].card.users[0].is_pod = false;
    cr_assert_eq(unlink("proc/2001/stat"), 0);
    cr_expect_eq(sight(3)->n, 0);
}

Test(share_look, a_process_that_cannot_be_known_again_is_left_out)
{
    run(&views[0], 2001, 100, CONTAINER, 3);
    say(2001, "status", "Name:\ta\n");
    cr_expect_eq(sight(3)->n, 1, "an old kernel does not say its own number");
    cr_assert_eq(unlink("proc/2001/status"), 0);
    cr_expect_eq(sight(3)->n, 0);
}

Test(share_look, of_a_card_that_was_not_read_nothing_is_said)
{
    run(&views[0], 2001, 100, CONTAINER, 3);
    views[0].card.unread = true;
    cr_expect_null(sight(3));
    views[0].card.unread = false;
    views[0].card.users_unknown = true;
    cr_expect_null(sight(3));
    views[0].card.users_unknown = false;
    cr_expect_eq(sight(3)->n, 1);
}

Test(share_look, a_container_that_shut_or_spoilt_its_usage_has_said_nothing)
{
    run(&views[0], 2001, 100, CONTAINER, 3);
    count(3, 2001, 0, 90 * MIB, 0, 0);
    cr_expect(sight(3)->processes[0].is_limited);
    cr_assert_eq(truncate("shares/share.3/usage", 100), 0);
    const struct share_sight *s = sight(3);
    cr_assert_not_null(s);
    cr_expect(s->n == 1 && !s->processes[0].is_limited);
    cr_assert_eq(unlink("shares/share.3/usage"), 0);
    cr_expect_eq(sight(3)->n, 1);
    cr_assert_eq(symlink("/dev/zero", "shares/share.3/usage"), 0);
    cr_expect_eq(sight(3)->n, 1);
}

Test(share_look, a_share_that_was_given_back_meanwhile_is_not_judged)
{
    run(&views[0], 2001, 100, CONTAINER, 3);
    cr_assert_eq(share_folders_remove(folders, slot(3), NULL), 0);
    cr_expect_null(sight(3));
}

/* Of a container that says nothing every process would look as if it were not limited. */
Test(share_look, an_agent_that_can_open_no_more_files_judges_nobody)
{
    struct rlimit was;
    run(&views[0], 2001, 100, CONTAINER, 3);
    count(3, 2001, 0, 90 * MIB, 0, 0);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
    for (unsigned files = 0; files < 40; files++) {
        const struct rlimit few = {files, was.rlim_max};
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
        look();
        cr_assert_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
        for (size_t i = 0; i < sights.n; i++)
            for (size_t k = 0; k < sights.items[i].n; k++)
                cr_assert(sights.items[i].processes[k].is_limited, "with %u files", files);
    }
}

Test(share_look, what_one_container_says_is_not_heard_of_anothers_processes)
{
    run(&views[0], 2001, 100, CONTAINER, 3);
    run(&views[0], 2002, 100, SIDECAR, 5);
    count(5, 2001, 0, 100 * MIB, 0, 0);
    cr_expect_not(sight(3)->processes[0].is_limited);
    cr_expect_not(sight(5)->processes[0].is_limited);
}

Test(share_look, shares_that_the_driver_holds_are_looked_at_where_they_have_the_limiter_as_well)
{
    shares.items[0].memory_level = API_LEVEL_DRIVER;
    run(&views[0], 2001, 100, CONTAINER, 3);
    cr_expect(shares.items[0].slot == slot(3) && sight(3)->is_driven && sight(3)->n == 1);
    cr_expect_not(sight(5)->is_driven);
    cr_assert_eq(share_folders_remove(folders, slot(3), NULL), 0);
    cr_expect_null(sight(3), "nothing tells whose processes they are");
}

Test(share_look, shares_without_a_limit_are_not_looked_at)
{
    for (size_t i = 0; i < shares.n; i++)
        shares.items[i].memory_level = API_LEVEL_NONE;
    run(&views[0], 2001, 100, CONTAINER, 3);
    look();
    cr_expect_eq(sights.n, 0);
}

Test(share_look, an_agent_without_folders_looks_at_none)
{
    const struct share_look_where where = {proc_root, NULL};
    share_look(&where, &shares, views, ARRAY_LEN(views), &sights);
    cr_expect_eq(sights.n, 0);
}
