/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/share.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "limiter/peer.h"
#include "limiter/raw.h"
#include "limiter/word_lock.h"

static const uint32_t nothing = 0;
const uint32_t *share_heed = &nothing;

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static bool trial_is_on; /* of who has usage's word `trial` */

/* Written with mu held; what is behind is_open and is_attached is fixed while they are set. */
static struct {
    bool is_open, is_attached, refused;
    const struct terms *terms; /* mapped once */
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

static void add64(uint64_t *word, uint64_t bytes)
{
    (void)__atomic_fetch_add(word, bytes, __ATOMIC_RELAXED);
}

static bool is_set(const bool *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static void set(bool *flag, bool value)
{
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

static void forget_after_fork(void)
{
    self.is_open = false;
    self.is_attached = false;
    self.refused = false;
    __atomic_store_n(&share_heed, &nothing, __ATOMIC_RELAXED);
    (void)pthread_mutex_init(&mu, NULL);
    set(&trial_is_on, false);
}

__attribute__((constructor)) static void watch_forks(void)
{
    (void)pthread_atfork(/* prepare= */ NULL, /* parent= */ NULL, forget_after_fork);
}

/* --- The files --- */

/* NULL: errno, or 0 where the file is not of the size that it must have. */
static void *map_file(const char *path, size_t bytes, bool writable)
{
    int fd = raw_open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    off_t found = lseek(fd, 0, SEEK_END);
    void *at = MAP_FAILED;
    if (found == (off_t)bytes)
        at = mmap(NULL, bytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
    int why = found == (off_t)bytes ? errno : 0;
    (void)raw_close(fd);
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
    (void)fprintf(stderr, "cleave: no share of a GPU in this container: " REGION_FOLDER "/%s: %s\n",
                  file, why);
    self.refused = true;
    return false;
}

static const char *reason(void)
{
    return errno != 0 ? strerror(errno) : "not the size that this version has";
}

static bool map_region(bool writable)
{
    const struct terms *t = map_file(REGION_FOLDER "/" REGION_TERMS, sizeof(*t), false);
    if (t == NULL)
        return refuse(REGION_TERMS, reason());
    if (!terms_are_ours(t))
        return refuse(REGION_TERMS, "of another version");
    struct usage *u = map_file(REGION_FOLDER "/" REGION_USAGE, sizeof(*u), writable);
    if (u == NULL)
        return refuse(REGION_USAGE, reason());
    if (!usage_is_ours(u))
        return refuse(REGION_USAGE, "of another version");
    self.terms = t;
    self.usage = u;
    return true;
}

/* Locked. */
static bool open_region(bool writable)
{
    if (self.is_open)
        return true;
    if (self.refused || (self.terms == NULL && !map_region(writable)))
        return false;
    if (!peer_own(&self.own))
        return refuse(REGION_USAGE, "/proc does not tell whose process this is");
    set(&self.is_open, true);
    return true;
}

bool share_open(void)
{
    if (is_set(&self.is_open))
        return true;
    (void)pthread_mutex_lock(&mu);
    bool ok = open_region(/* writable= */ false);
    (void)pthread_mutex_unlock(&mu);
    return ok;
}

/* --- Slots; the lock is held --- */

static unsigned int reach(void)
{
    uint32_t n = load32(&self.usage->reach);
    return n < REGION_MAX_PROCESSES ? n : REGION_MAX_PROCESSES;
}

static struct peer process_of(unsigned int slot)
{
    const struct usage_process *p = &self.usage->processes[slot];
    return (struct peer){.pid = load32(&p->pid),
                         .pid_ns = load32(&p->pid_ns),
                         .started = load64(&p->started)};
}

static void clear(unsigned int slot)
{
    for (unsigned int card = 0; card < REGION_MAX_CARDS; card++) {
        store64(&self.usage->taken[card][slot], 0);
        store64(&self.usage->by_contexts[card][slot], 0);
        store64(&self.usage->contexts[card][slot], 0);
    }
    __atomic_store_n(&self.usage->processes[slot].pid, 0, __ATOMIC_RELEASE);
}

/* Clears the slots of processes that have ended. */
static void sweep(void)
{
    for (unsigned int i = 0; i < reach(); i++) {
        const struct peer p = process_of(i);
        if (p.pid != 0 && peer_is_gone(&p, &self.own))
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

/* Before the reach doubles, so that it stays near to how many there are at a time, and 1024 that
 * come at once are not looked at a million times. */
static bool is_time_to_sweep(unsigned int at)
{
    return at == reach() && at >= 16 && (at & (at - 1)) == 0;
}

/* Of the program that this process ran before (exec): it has the same pid, and began as this one. */
static void clear_own(void)
{
    for (unsigned int i = 0; i < reach(); i++) {
        const struct peer p = process_of(i);
        if (p.pid == self.own.pid && p.pid_ns == self.own.pid_ns && p.started == self.own.started)
            clear(i);
    }
}

static bool take_slot(void)
{
    clear_own();
    unsigned int at = find_free();
    if (is_time_to_sweep(at)) {
        sweep();
        at = find_free();
    }
    if (at == REGION_MAX_PROCESSES)
        return false;
    struct usage_process *p = &self.usage->processes[at];
    clear(at);
    __atomic_store_n(&p->pid_ns, self.own.pid_ns, __ATOMIC_RELAXED);
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
    word_lock(&self.usage->lock, &self.own);
}

static void unlock_usage(void)
{
    word_unlock(&self.usage->lock, &self.own);
}

/* Locked. */
static bool attach(void)
{
    if (self.refused || !open_region(/* writable= */ true))
        return false;
    lock_usage();
    bool ok = take_slot();
    unlock_usage();
    if (!ok)
        return refuse(REGION_USAGE,
                      "the container has as many processes with CUDA as there can be");
    __atomic_store_n(&share_heed, &self.terms->heed, __ATOMIC_RELAXED);
    set(&self.is_attached, true);
    return true;
}

bool share_attach(void)
{
    (void)pthread_mutex_lock(&mu);
    bool is_new = !self.is_attached;
    bool ok = !is_new || attach();
    (void)pthread_mutex_unlock(&mu);
    if (ok && is_new)
        (void)share_tell(SHARE_HELLO, /* card= */ 0, /* turn= */ 0);
    return ok;
}

bool share_is_attached(void)
{
    return is_set(&self.is_attached);
}

int share_card_of(const uint8_t uuid[16])
{
    for (uint32_t i = 0; is_set(&self.is_open) && i < self.terms->n_cards; i++) {
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

void share_note_contexts(int card, uint64_t n, uint64_t bytes)
{
    if (!share_is_attached())
        return;
    store64(&self.usage->by_contexts[card][self.slot], bytes);
    store64(&self.usage->contexts[card][self.slot], n);
}

bool share_take(int card, uint64_t bytes)
{
    if (!share_is_attached())
        return true;
    lock_all();
    bool ok = has_room(card, bytes);
    if (!ok) {
        sweep();
        ok = has_room(card, bytes);
    }
    if (ok)
        add64(own_word(card), bytes);
    unlock_all();
    return ok;
}

void share_take_anyway(int card, uint64_t bytes)
{
    if (share_is_attached())
        add64(own_word(card), bytes);
}

/* Only this process writes its word, and takes no more off than it has added. */
void share_give_back(int card, uint64_t bytes)
{
    if (share_is_attached())
        add64(own_word(card), UINT64_C(0) - bytes);
}

/* Who tries waits for the card, which may wait for another process's work: one does not wait for it
 * for long. */
enum { TRIAL_LOOKS = 5 };

/* Attached, as it has taken something. */
bool share_trial_begin(void)
{
    if (__atomic_exchange_n(&trial_is_on, true, __ATOMIC_ACQUIRE))
        return false;
    bool ok = word_lock_within(&self.usage->trial, &self.own, TRIAL_LOOKS);
    if (!ok)
        set(&trial_is_on, false);
    return ok;
}

void share_trial_end(void)
{
    word_unlock(&self.usage->trial, &self.own);
    set(&trial_is_on, false);
}

/* --- What is told of it, without the lock --- */

/* What a process has. False: the slot is free, or its process has ended, or does so meanwhile. */
static bool read_slot(unsigned int slot, int card, struct share_process *ret)
{
    const struct peer p = process_of(slot);
    if (p.pid == 0)
        return false;
    uint64_t bytes = __atomic_load_n(&self.usage->taken[card][slot], __ATOMIC_ACQUIRE);
    if (load32(&self.usage->processes[slot].pid) != p.pid || peer_is_gone(&p, &self.own))
        return false;
    *ret = (struct share_process){.pid = p.pid_ns == self.own.pid_ns ? p.pid : 0, .bytes = bytes};
    return true;
}

uint64_t share_taken(int card)
{
    uint64_t total = 0;
    struct share_process p;
    for (unsigned int i = 0; i < reach(); i++) {
        if (read_slot(i, card, &p) && __builtin_add_overflow(total, p.bytes, &total))
            return UINT64_MAX;
    }
    return total;
}

unsigned int share_processes(int card, struct share_process *ret, unsigned int n)
{
    unsigned int found = 0;
    for (unsigned int i = 0; i < reach() && found < n; i++) {
        if (read_slot(i, card, &ret[found]) && ret[found].pid != 0 && ret[found].bytes != 0)
            found++;
    }
    return found;
}

/* --- The agent --- */

/* The agent may have more to hear than its socket holds, for a moment. */
static bool send_to(int fd, const struct share_message *m)
{
    const struct timeval time = {.tv_usec = 50000};
    struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = REGION_FOLDER "/" REGION_AGENT};
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
    return raw_sendto(fd, m, sizeof(*m), MSG_NOSIGNAL, &to, sizeof(to)) == sizeof(*m);
}

/* No socket is kept: a program may close every descriptor that it does not know. */
bool share_tell(enum share_word word, int card, uint32_t turn)
{
    const struct share_message m = {.version = REGION_VERSION,
                                    .word = word,
                                    .card = (uint32_t)card,
                                    .turn = turn,
                                    .slot = self.slot};
    int saved = errno;
    int fd = raw_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool heard = fd >= 0 && send_to(fd, &m);
    if (fd >= 0)
        (void)raw_close(fd);
    errno = saved;
    return heard;
}
