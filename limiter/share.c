/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/share.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "limiter/peer.h"
#include "limiter/word_lock.h"

static const uint32_t nothing = 0;
const uint32_t *share_heed = &nothing;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

/* Fixed while attached. */
static struct {
    bool attached, refused;
    const struct terms *terms;
    struct usage *usage;
    struct peer own;
    unsigned int slot;
} self;

static uint32_t load32(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static uint64_t load64(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static void store64(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static void forget_after_fork(void)
{
    self.attached = false;
    self.refused = false;
    share_heed = &nothing;
    (void)pthread_mutex_init(&mu, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

/* --- The files --- */

/* NULL: errno, or 0 where the file is not of the size that it must have. */
static void *map_file(const char *path, size_t bytes, bool writable)
{
    int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    off_t found = lseek(fd, 0, SEEK_END);
    void *at = MAP_FAILED;
    if (found == (off_t)bytes)
        at = mmap(NULL, bytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
    int why = found == (off_t)bytes ? errno : 0;
    (void)close(fd);
    errno = why;
    return at == MAP_FAILED ? NULL : at;
}

static bool terms_are_ours(const struct terms *t)
{
    return t->magic == TERMS_MAGIC && t->version == REGION_VERSION && t->bytes == sizeof(*t) &&
           t->n_cards <= REGION_MAX_CARDS;
}

static bool usage_is_ours(const struct usage *u)
{
    return u->magic == USAGE_MAGIC && u->version == REGION_VERSION && u->bytes == sizeof(*u);
}

static bool refuse(const char *file, const char *why)
{
    if (!self.refused)
        (void)fprintf(stderr, "cleave: no CUDA in this container: " REGION_FOLDER "/%s: %s\n", file,
                      why);
    self.refused = true;
    return false;
}

static const char *reason(void)
{
    return errno != 0 ? strerror(errno) : "not the size that this version has";
}

static bool map_region(void)
{
    const struct terms *t = map_file(REGION_FOLDER "/" REGION_TERMS, sizeof(*t), false);
    if (t == NULL)
        return refuse(REGION_TERMS, reason());
    if (!terms_are_ours(t))
        return refuse(REGION_TERMS, "of another version");
    struct usage *u = map_file(REGION_FOLDER "/" REGION_USAGE, sizeof(*u), true);
    if (u == NULL)
        return refuse(REGION_USAGE, reason());
    if (!usage_is_ours(u))
        return refuse(REGION_USAGE, "of another version");
    self.terms = t;
    self.usage = u;
    return true;
}

/* --- Slots; the lock is held --- */

static unsigned int reach(void)
{
    uint32_t n = load32(&self.usage->reach);
    return n < REGION_MAX_PROCESSES ? n : REGION_MAX_PROCESSES;
}

static bool is_gone(const struct usage_process *p)
{
    const struct peer peer = {.pid = load32(&p->pid),
                              .pid_ns = p->pid_ns,
                              .started = load64(&p->started)};
    return peer.pid != 0 && peer_is_gone(&peer, &self.own);
}

static void clear(unsigned int slot)
{
    for (unsigned int card = 0; card < REGION_MAX_CARDS; card++)
        store64(&self.usage->taken[card][slot], 0);
    __atomic_store_n(&self.usage->processes[slot].pid, 0, __ATOMIC_RELEASE);
}

/* Clears the slots of processes that have ended. */
static void sweep(void)
{
    for (unsigned int i = 0; i < reach(); i++) {
        if (is_gone(&self.usage->processes[i]))
            clear(i);
    }
}

static unsigned int find_free(void)
{
    unsigned int i = 0;
    while (i < reach() && load32(&self.usage->processes[i].pid) != 0)
        i++;
    return i;
}

static bool take_slot(void)
{
    unsigned int at = find_free();
    if (at == REGION_MAX_PROCESSES) {
        sweep();
        at = find_free();
    }
    if (at == REGION_MAX_PROCESSES)
        return false;
    struct usage_process *p = &self.usage->processes[at];
    clear(at);
    p->pid_ns = self.own.pid_ns;
    store64(&p->started, self.own.started);
    __atomic_store_n(&p->pid, self.own.pid, __ATOMIC_RELEASE);
    if (at >= reach())
        __atomic_store_n(&self.usage->reach, at + 1, __ATOMIC_RELEASE);
    self.slot = at;
    return true;
}

/* --- Attaching --- */

static void lock_usage(void)
{
    word_lock(&self.usage->lock, &self.usage->lock_started, &self.own);
}

static void unlock_usage(void)
{
    word_unlock(&self.usage->lock, &self.usage->lock_started);
}

static bool attach(void)
{
    if (self.refused || !map_region())
        return false;
    if (!peer_own(&self.own))
        return refuse(REGION_USAGE, "/proc is not there");
    lock_usage();
    self.attached = take_slot();
    unlock_usage();
    if (!self.attached)
        return refuse(REGION_USAGE,
                      "the container has as many processes with CUDA as there can be");
    share_heed = &self.terms->heed;
    return true;
}

bool share_attach(void)
{
    (void)pthread_mutex_lock(&mu);
    bool is_new = !self.attached;
    bool ok = self.attached || attach();
    (void)pthread_mutex_unlock(&mu);
    if (ok && is_new)
        share_tell(SHARE_HELLO, /* card= */ 0, /* turn= */ 0);
    return ok;
}

bool share_is_attached(void)
{
    return self.attached;
}

int share_card_of(const uint8_t uuid[16])
{
    for (uint32_t i = 0; self.attached && i < self.terms->n_cards; i++) {
        if (memcmp(self.terms->cards[i].uuid, uuid, 16) == 0)
            return (int)i;
    }
    return -1;
}

const struct terms_card *share_terms(int card)
{
    return &self.terms->cards[card];
}

const uint32_t *share_beat(void)
{
    return &self.terms->beat;
}

/* --- Memory --- */

/* Saturates: a container that scribbles over its words gets nothing more. */
static uint64_t sum(int card)
{
    uint64_t total = 0;
    for (unsigned int i = 0; i < reach(); i++) {
        if (__builtin_add_overflow(total, load64(&self.usage->taken[card][i]), &total))
            return UINT64_MAX;
    }
    return total;
}

static bool has_room(int card, uint64_t bytes)
{
    uint64_t limit = load64(&share_terms(card)->memory_bytes);
    uint64_t taken = sum(card);
    return bytes <= limit && taken <= limit - bytes;
}

static void lock_all(void)
{
    (void)pthread_mutex_lock(&mu);
    lock_usage();
}

static void unlock_all(void)
{
    unlock_usage();
    (void)pthread_mutex_unlock(&mu);
}

static uint64_t *own_word(int card)
{
    return &self.usage->taken[card][self.slot];
}

bool share_take(int card, uint64_t bytes)
{
    lock_all();
    bool ok = has_room(card, bytes);
    if (!ok) {
        sweep();
        ok = has_room(card, bytes);
    }
    if (ok)
        store64(own_word(card), load64(own_word(card)) + bytes);
    unlock_all();
    return ok;
}

void share_take_anyway(int card, uint64_t bytes)
{
    (void)pthread_mutex_lock(&mu);
    store64(own_word(card), load64(own_word(card)) + bytes);
    (void)pthread_mutex_unlock(&mu);
}

void share_give_back(int card, uint64_t bytes)
{
    (void)pthread_mutex_lock(&mu);
    uint64_t now = load64(own_word(card));
    store64(own_word(card), bytes < now ? now - bytes : 0);
    (void)pthread_mutex_unlock(&mu);
}

uint64_t share_taken(int card)
{
    lock_all();
    sweep();
    uint64_t total = sum(card);
    unlock_all();
    return total;
}

unsigned int share_processes(int card, struct share_process *ret, unsigned int n)
{
    unsigned int found = 0;
    lock_all();
    sweep();
    for (unsigned int i = 0; i < reach(); i++) {
        struct share_process p = {.pid = load32(&self.usage->processes[i].pid),
                                  .bytes = load64(&self.usage->taken[card][i])};
        if (p.pid == 0 || p.bytes == 0)
            continue;
        if (found < n)
            ret[found] = p;
        found++;
    }
    unlock_all();
    return found;
}

/* --- The agent --- */

/* No socket is kept: a program may close every descriptor that it does not know. */
void share_tell(enum share_word word, int card, uint32_t turn)
{
    const struct share_message m = {.version = REGION_VERSION,
                                    .word = word,
                                    .card = (uint32_t)card,
                                    .turn = turn,
                                    .slot = self.slot};
    struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = REGION_FOLDER "/" REGION_AGENT};
    int saved = errno;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        (void)sendto(fd, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&to,
                     sizeof(to));
        (void)close(fd);
    }
    errno = saved;
}
