/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/slots/share_terms.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The agent writes terms as their owner, since it has no right to pass over modes. In the container
 * the folder is mounted read-only, which holds for its root as well. */
enum { TERMS_MODE = 0644, USAGE_MODE = 0666 };

/* --- What they say --- */

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* NVML names a card "GPU-" and 32 digits with dashes between; CUDA gives the 16 bytes. */
static int parse_uuid(const char *text, uint8_t ret[16], struct err *e)
{
    static const char prefix[] = "GPU-";
    const char *at = text;
    if (strncmp(at, prefix, strlen(prefix)) != 0)
        return err_set(e, ERR_INVALID, "%s is not a card's UUID, which begins with GPU-", text);
    at += strlen(prefix);
    for (size_t i = 0; i < 16; i++) {
        while (*at == '-')
            at++;
        int high = digit_of(at[0]);
        int low = high < 0 ? -1 : digit_of(at[1]);
        if (low < 0)
            return err_set(e, ERR_INVALID, "%s is not a card's UUID, which has 32 digits", text);
        ret[i] = (uint8_t)(high * 16 + low);
        at += 2;
    }
    return *at ? err_set(e, ERR_INVALID, "%s is not a card's UUID, which has 32 digits", text) : 0;
}

int share_terms_of(const struct share_limit *limits, size_t n, struct terms *ret, struct err *e)
{
    struct terms t = {.magic = TERMS_MAGIC, .version = REGION_VERSION, .bytes = sizeof(t)};
    if (n > REGION_MAX_CARDS)
        return err_set(e, ERR_INVALID,
                       "a container has shares of %zu cards, and at most %d can be limited", n,
                       REGION_MAX_CARDS);
    for (size_t i = 0; i < n; i++) {
        struct terms_card *c = &t.cards[t.n_cards++];
        TRY(parse_uuid(limits[i].card, c->uuid, e));
        c->memory_bytes = limits[i].memory_bytes;
        c->percent = limits[i].percent;
        c->is_capped = limits[i].is_capped;
        c->priority = limits[i].is_low;
        c->memory_level = limits[i].memory_level;
        c->compute_level = limits[i].compute_level;
        c->gate = GATE_OPEN;
    }
    *ret = t;
    return 0;
}

/* --- The files --- */

static int write_whole(int fd, const void *data, size_t len, const char *name, struct err *e)
{
    ssize_t n = pwrite(fd, data, len, 0);
    if (n < 0)
        return err_set_errno(e, errno, "write %s", name);
    if ((size_t)n != len)
        return err_set_errno(e, ENOSPC, "write %s", name);
    return 0;
}

/* The mode of open is cut by the umask. */
static int make_file(int folder, const char *name, mode_t mode, const void *head, size_t head_len,
                     size_t size, struct err *e)
{
    auto_fd int fd =
        openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fchmod(fd, mode) < 0)
        return err_set_errno(e, errno, "create %s", name);
    TRY(write_whole(fd, head, head_len, name, e));
    if (ftruncate(fd, (off_t)size) < 0)
        return err_set_errno(e, errno, "set the size of %s", name);
    return 0;
}

/* The beginning of struct usage, which is too large for a stack. */
struct usage_head {
    uint64_t magic;
    uint32_t version, bytes;
};
static_assert(offsetof(struct usage_head, bytes) == offsetof(struct usage, bytes), "the same");

int share_terms_write(int folder, const struct terms *t, struct err *e)
{
    const struct usage_head head = {USAGE_MAGIC, REGION_VERSION, sizeof(struct usage)};
    assert(t->magic == TERMS_MAGIC && t->bytes == sizeof(*t));
    TRY(make_file(folder, REGION_USAGE, USAGE_MODE, &head, sizeof(head), sizeof(struct usage), e));
    return make_file(folder, REGION_TERMS, TERMS_MODE, t, sizeof(*t), sizeof(*t), e);
}

static bool is_of_this_layout(const struct terms *t)
{
    return t->magic == TERMS_MAGIC && t->version == REGION_VERSION && t->bytes == sizeof(*t) &&
           t->n_cards <= REGION_MAX_CARDS;
}

int share_terms_map(int folder, struct terms **ret, struct err *e)
{
    struct stat st;
    auto_fd int fd = openat(folder, REGION_TERMS, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return err_set(e, ERR_NOT_FOUND, "there is no %s", REGION_TERMS);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set_errno(e, errno, "open %s", REGION_TERMS);
    if (!S_ISREG(st.st_mode) || st.st_size != sizeof(**ret))
        return err_set(e, ERR_PROTOCOL, "%s is not of this layout", REGION_TERMS);
    void *at = mmap(NULL, sizeof(**ret), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return err_set_errno(e, errno, "map %s", REGION_TERMS);
    auto_terms struct terms *t = at;
    if (!is_of_this_layout(t))
        return err_set(e, ERR_PROTOCOL, "%s is not of this layout", REGION_TERMS);
    *ret = TAKE(t);
    return 0;
}

struct terms *share_terms_unmap(struct terms *t)
{
    if (t)
        (void)munmap(t, sizeof(*t));
    return NULL;
}

static bool is_of_same_cards(const struct terms *a, const struct terms *b)
{
    for (uint32_t i = 0; i < a->n_cards && i < b->n_cards; i++)
        if (memcmp(a->cards[i].uuid, b->cards[i].uuid, sizeof(a->cards[i].uuid)) != 0 ||
            a->cards[i].memory_level != b->cards[i].memory_level ||
            a->cards[i].compute_level != b->cards[i].compute_level)
            return false;
    return a->n_cards == b->n_cards;
}

bool share_terms_update(struct terms *t, const struct terms *to)
{
    if (!is_of_same_cards(t, to))
        return false;
    for (uint32_t i = 0; i < t->n_cards; i++) {
        __atomic_store_n(&t->cards[i].memory_bytes, to->cards[i].memory_bytes, __ATOMIC_RELAXED);
        __atomic_store_n(&t->cards[i].percent, to->cards[i].percent, __ATOMIC_RELAXED);
    }
    return true;
}

int share_terms_card(const struct terms *t, const char *card)
{
    uint8_t uuid[16];
    if (parse_uuid(card, uuid, /* e= */ NULL) < 0)
        return -1;
    for (uint32_t i = 0; i < t->n_cards && i < REGION_MAX_CARDS; i++)
        if (memcmp(t->cards[i].uuid, uuid, sizeof(uuid)) == 0)
            return (int)i;
    return -1;
}

uint64_t share_terms_context(const struct terms *t, unsigned card)
{
    assert(card < REGION_MAX_CARDS);
    return __atomic_load_n(&t->cards[card].context_bytes, __ATOMIC_RELAXED);
}

void share_terms_set_context(struct terms *t, unsigned card, uint64_t bytes)
{
    assert(card < REGION_MAX_CARDS);
    __atomic_store_n(&t->cards[card].context_bytes, bytes, __ATOMIC_RELAXED);
}

/* The root of a container is the file's owner, and may have given it away or shut it; nothing of the
 * container's can put another file in its place. */
static int open_usage(int folder, struct err *e)
{
    /* A container's lease is not waited for: it is broken by the time of the next write. */
    const int flags = O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    int fd = openat(folder, REGION_USAGE, flags);
    if (fd >= 0 || errno != EACCES)
        return fd >= 0 ? fd : err_set_errno(e, errno, "open %s", REGION_USAGE);
    (void)!fchownat(folder, REGION_USAGE, geteuid(), getegid(), AT_SYMLINK_NOFOLLOW);
    (void)!fchmodat(folder, REGION_USAGE, USAGE_MODE, /* flags= */ 0);
    fd = openat(folder, REGION_USAGE, flags);
    return fd >= 0 ? fd : err_set_errno(e, errno, "open %s", REGION_USAGE);
}

/* Room that lies behind the file's end (fallocate) takes memory without making it longer. */
#define BLOCK_BYTES 512
#define ROOM_BYTES  ((off_t)sizeof(struct usage) + 2 * 4096)

int share_usage_trim(int folder, struct err *e)
{
    struct stat st;
    if (fstatat(folder, REGION_USAGE, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_set_errno(e, errno, "look at %s", REGION_USAGE);
    if (st.st_size <= (off_t)sizeof(struct usage) && st.st_blocks * BLOCK_BYTES <= ROOM_BYTES)
        return 0;
    auto_fd int fd = open_usage(folder, e);
    TRY(fd);
    if (ftruncate(fd, sizeof(struct usage)) < 0)
        return err_set_errno(e, errno, "cut %s to its size", REGION_USAGE);
    return 0;
}
