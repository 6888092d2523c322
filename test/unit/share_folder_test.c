/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

#include "folder_support.h"
#include "nodeagent/container/slot_pool.h"
#include "nodeagent/slots/share_folder.h"

static struct share_folders *folders;

static void open_folders(void)
{
    auto_err struct err e = {0};
    folders = share_folders_free(folders);
    cr_assert_eq(share_folders_new("shares", &folders, &e), 0, "%s", err_msg(&e));
}

static void set_up(void)
{
    folder_enter();
    open_folders();
}

static void tear_down(void)
{
    folders = share_folders_free(folders);
    folder_leave();
}

TestSuite(share_folder, .init = set_up, .fini = tear_down);

#define MIB ((uint64_t)1 << 20)
static const struct share_limit limits[] = {{"GPU-00112233-4455-6677-8899-aabbccddeeff", 3000 * MIB,
                                             30, false, LEVEL_LIBRARY, LEVEL_NONE, false},
                                            {"GPU-10112233-4455-6677-8899-aabbccddeeff", 3000 * MIB,
                                             30, false, LEVEL_LIBRARY, LEVEL_NONE, false}};

static unsigned slot(unsigned number)
{
    return slot_at(SLOT_POOL_SHARE, number);
}

static void put(unsigned number, size_t n)
{
    auto_err struct err e = {0};
    cr_assert_eq(share_folders_put(folders, slot(number), limits, n, &e), 0, "%s", err_msg(&e));
}

static ino_t inode(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_ino : 0;
}

static bool has_memory(const char *path, uint64_t bytes)
{
    auto_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_terms struct terms *t = NULL;
    return share_terms_map(fd, &t, NULL) == 0 && t->cards[0].memory_bytes == bytes;
}

static size_t count(const char *path)
{
    auto_dir DIR *dir = opendir(path);
    size_t n = 0;
    cr_assert_not_null(dir, "%s", path);
    while (readdir(dir))
        n++;
    return n - 2;
}

/* --- A container's process --- */

static int connect_to(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert_geq(fd, 0);
    return connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 ? fd : (close(fd), -1);
}

static const struct share_message hello = {.version = REGION_VERSION, .word = SHARE_HELLO};

static bool say(int fd, const void *data, size_t len)
{
    return send(fd, data, len, MSG_NOSIGNAL) == (ssize_t)len;
}

/* --- What the agent hears --- */

struct heard {
    unsigned n, slot, word;
    pid_t pid;
};

static void note(void *arg, unsigned from, const struct ucred *who, const struct share_message *m)
{
    struct heard *h = arg;
    *h = (struct heard){h->n + 1, from, m->word, who->pid};
}

static int listen_a_while(struct heard *ret)
{
    auto_scope struct scope *s = scope_new(NULL, 20);
    return share_folders_run(folders, s, note, ret, NULL);
}

static int trim_a_while(void)
{
    auto_scope struct scope *s = scope_new(NULL, 20);
    return share_folders_trim(folders, s, NULL);
}

/* --- The life of a folder --- */

Test(share_folder, a_container_has_terms_usage_and_a_socket_that_no_other_user_of_the_host_reaches)
{
    struct stat st;
    put(3, 2);
    cr_expect_eq(count("shares"), 1);
    cr_expect_eq(count("shares/share.3"), 3);
    cr_assert_eq(stat("shares/share.3", &st), 0);
    cr_expect_eq(st.st_mode & 0777U, 0755);
    cr_assert_eq(stat("shares/share.3/" REGION_AGENT, &st), 0);
    cr_expect(S_ISSOCK(st.st_mode));
    cr_expect_eq(st.st_mode & 0777U, 0666);
    cr_assert_eq(stat("shares", &st), 0);
    cr_expect_eq(st.st_mode & 0777U, 0700);
}

Test(share_folder, the_same_again_keeps_the_files_and_writes_what_changed)
{
    put(3, 2);
    ino_t folder = inode("shares/share.3"), terms = inode("shares/share.3/" REGION_TERMS);
    ino_t usage = inode("shares/share.3/" REGION_USAGE),
          agent = inode("shares/share.3/" REGION_AGENT);
    put(3, 2);
    struct share_limit less[] = {limits[0], limits[1]};
    less[0].memory_bytes = 1000 * MIB;
    cr_assert_eq(share_folders_put(folders, slot(3), less, 2, NULL), 0);
    cr_expect(has_memory("shares/share.3", 1000 * MIB));
    cr_expect_eq(inode("shares/share.3"), folder);
    cr_expect_eq(inode("shares/share.3/" REGION_TERMS), terms);
    cr_expect_eq(inode("shares/share.3/" REGION_USAGE), usage);
    cr_expect_eq(inode("shares/share.3/" REGION_AGENT), agent);
}

/* Who has the old one mapped must not count with those who have the new one. */
static uint64_t context_of(const char *path, unsigned card)
{
    auto_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_terms struct terms *t = NULL;
    cr_assert_eq(share_terms_map(fd, &t, NULL), 0);
    return share_terms_context(t, card);
}

Test(share_folder, what_contexts_take_is_known_to_the_next_containers_of_the_card)
{
    put(3, 2);
    cr_expect_eq(context_of("shares/share.3", 0), 0);
    cr_assert_eq(share_folders_set_context(folders, slot(3), limits[0].card, 400 * MIB, NULL), 0);
    put(4, 2);
    cr_expect_eq(context_of("shares/share.4", 0), 400 * MIB);
    cr_expect_eq(context_of("shares/share.4", 1), 0, "of another card nothing is known");
    open_folders(); /* another agent's */
    share_folders_resume(folders);
    put(5, 2);
    cr_expect_eq(context_of("shares/share.5", 0), 400 * MIB);
}

Test(share_folder, another_containers_files_are_new_ones)
{
    put(3, 1);
    auto_fd int old = open("shares/share.3", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    auto_fd int usage = openat(old, REGION_USAGE, O_RDWR | O_CLOEXEC);
    struct stat before, after;
    cr_assert_eq(fstat(usage, &before), 0);
    cr_assert_eq(share_folders_remove(folders, slot(3), NULL), 0);
    cr_expect_eq(count("shares"), 0);
    put(3, 1);
    cr_assert_eq(stat("shares/share.3/" REGION_USAGE, &after), 0);
    cr_expect_neq(after.st_ino, before.st_ino);
    cr_expect_neq(faccessat(old, REGION_TERMS, F_OK, 0), 0, "nothing is found in the old one");
}

Test(share_folder, other_cards_or_another_layout_have_a_new_folder)
{
    put(3, 1);
    ino_t first = inode("shares/share.3/" REGION_USAGE);
    put(3, 2);
    ino_t second = inode("shares/share.3/" REGION_USAGE);
    cr_expect_neq(second, first);
    cr_assert_eq(truncate("shares/share.3/" REGION_TERMS, 100), 0);
    put(3, 2);
    cr_expect_neq(inode("shares/share.3/" REGION_USAGE), second);
    cr_expect(has_memory("shares/share.3", 3000 * MIB));
    cr_expect_eq(count("shares"), 1, "nothing of them is left");
}

Test(share_folder, removing_leaves_nothing_and_may_be_repeated)
{
    put(3, 1);
    put(4, 1);
    cr_expect_eq(share_folders_remove(folders, slot(3), NULL), 0);
    cr_expect_eq(share_folders_remove(folders, slot(3), NULL), 0);
    cr_expect_eq(count("shares"), 1);
    cr_expect_neq(inode("shares/share.4"), 0);
}

Test(share_folder, a_root_that_cannot_be_made_is_an_error)
{
    auto_err struct err e = {0};
    struct share_folders *none = NULL;
    cr_assert_eq(file_write_atomic("file", "", 0, 0600, NULL), 0);
    cr_expect_eq(share_folders_new("file/shares", &none, &e), -ERR_SYSTEM);
    cr_expect_null(none);
}

Test(share_folder, a_limit_that_cannot_be_said_makes_nothing)
{
    auto_err struct err e = {0};
    struct share_limit bad = limits[0];
    (void)snprintf(bad.card, sizeof(bad.card), "GPU-x");
    cr_expect_eq(share_folders_put(folders, slot(3), &bad, 1, &e), -ERR_INVALID);
    cr_expect(strstr(err_msg(&e), "GPU-x"), "%s", err_msg(&e));
    cr_expect_eq(count("shares"), 0);
}

/* --- Sockets --- */

Test(share_folder, what_a_process_says_is_known_by_its_containers_socket_and_the_kernels_word)
{
    struct heard h = {0};
    put(3, 1);
    put(4, 1);
    auto_fd int fd = connect_to("shares/share.4/" REGION_AGENT);
    cr_assert(say(fd, &hello, sizeof(hello)));
    cr_expect_eq(listen_a_while(&h), -ERR_TIMEOUT);
    cr_expect_eq(h.n, 1);
    cr_expect_eq(h.slot, slot(4));
    cr_expect_eq(h.word, SHARE_HELLO);
    cr_expect_eq(h.pid, getpid());
}

Test(share_folder, what_is_no_message_is_dropped)
{
    static const char noise[4096];
    struct heard h = {0};
    struct share_message other = hello;
    other.version++;
    put(3, 1);
    auto_fd int fd = connect_to("shares/share.3/" REGION_AGENT);
    cr_assert(say(fd, "", 0) && say(fd, noise, 1) && say(fd, noise, sizeof(noise)));
    cr_assert(say(fd, &other, sizeof(other)) && say(fd, &hello, sizeof(hello)));
    (void)!listen_a_while(&h);
    cr_expect_eq(h.n, 1);
}

Test(share_folder, a_removed_containers_socket_hears_nothing)
{
    struct heard h = {0};
    put(3, 1);
    auto_fd int fd = connect_to("shares/share.3/" REGION_AGENT);
    cr_assert_eq(share_folders_remove(folders, slot(3), NULL), 0);
    cr_expect_not(say(fd, &hello, sizeof(hello)));
    cr_expect_eq(errno, ECONNREFUSED);
    (void)!listen_a_while(&h);
    cr_expect_eq(h.n, 0);
}

/* --- What a container writes --- */

static off_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : -1;
}

/* It would fill the folder in which the host has its own files. */
Test(share_folder, what_a_container_writes_beyond_its_usage_is_cut)
{
    static const char more[4096];
    put(3, 1);
    put(4, 1);
    auto_fd int fd = open("shares/share.4/" REGION_USAGE, O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(pwrite(fd, more, sizeof(more), (off_t)i << 20), sizeof(more));
    (void)!trim_a_while();
    cr_expect_eq(size_of("shares/share.4/" REGION_USAGE), sizeof(struct usage));
    cr_assert_eq(ftruncate(fd, 1 << 30), 0);
    (void)!trim_a_while();
    cr_expect_eq(size_of("shares/share.4/" REGION_USAGE), sizeof(struct usage));
    cr_assert_eq(share_folders_remove(folders, slot(4), NULL), 0);
    put(4, 1);
    cr_assert_eq(truncate("shares/share.4/" REGION_USAGE, 1 << 30), 0);
    open_folders();
    share_folders_resume(folders);
    cr_assert_eq(truncate("shares/share.3/" REGION_USAGE, 1 << 30), 0);
    (void)!trim_a_while();
    cr_expect_eq(size_of("shares/share.3/" REGION_USAGE), sizeof(struct usage));
    cr_expect_eq(size_of("shares/share.4/" REGION_USAGE), sizeof(struct usage));
}

/* --- After the agent's end --- */

/* The container has the folder mounted: it sees the new socket under the old name. */
Test(share_folder, the_next_agent_hears_those_that_connect_again)
{
    struct heard h = {0};
    put(3, 1);
    put(5, 1);
    ino_t folder = inode("shares/share.3"), usage = inode("shares/share.3/" REGION_USAGE);
    auto_fd int old = connect_to("shares/share.3/" REGION_AGENT);
    cr_assert_eq(truncate("shares/share.5/" REGION_USAGE, 1 << 30), 0);
    open_folders();
    cr_expect_not(say(old, &hello, sizeof(hello)));
    cr_expect_eq(errno, ECONNREFUSED);
    share_folders_resume(folders);
    auto_fd int fd = connect_to("shares/share.3/" REGION_AGENT);
    cr_assert(say(fd, &hello, sizeof(hello)));
    (void)!listen_a_while(&h);
    cr_expect(h.n == 1 && h.slot == slot(3));
    cr_expect_eq(inode("shares/share.3"), folder);
    cr_expect_eq(inode("shares/share.3/" REGION_USAGE), usage);
    cr_expect_eq(count("shares/share.3"), 3);
    struct stat st;
    cr_assert_eq(stat("shares/share.5/" REGION_USAGE, &st), 0);
    cr_expect_eq(st.st_size, sizeof(struct usage));
}

Test(share_folder, what_a_killed_agent_did_not_get_done_is_removed)
{
    put(3, 1);
    cr_assert_eq(file_make_dirs("shares/.new-share.4/x", 0700, NULL), 0);
    cr_assert_eq(file_make_dirs("shares/.old-0123456789abcdef/x", 0700, NULL), 0);
    cr_assert_eq(file_make_dirs("shares/slot.1", 0700, NULL), 0);
    cr_assert_eq(file_make_dirs("shares/others", 0700, NULL), 0);
    cr_assert_eq(file_write_atomic("shares/share.3/.agent-new", "", 0, 0600, NULL), 0);
    open_folders();
    share_folders_resume(folders);
    cr_expect_eq(count("shares"), 3, "share.3, and what is nothing of shares");
    cr_expect_eq(count("shares/share.3"), 3);
}

/* Everything but a whole folder is as good as none. */
Test(share_folder, what_is_half_there_is_made_anew)
{
    static const char *const parts[] = {REGION_TERMS, REGION_USAGE, REGION_AGENT};
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        put(3, 1);
        auto_free char *path = xasprintf("shares/share.3/%s", parts[i]);
        cr_assert_eq(unlink(path), 0);
        open_folders();
        put(3, 1);
        cr_expect_eq(count("shares/share.3"), 3, "without %s", parts[i]);
    }
}
