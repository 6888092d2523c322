/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_timeslice.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim/side_file.h"

#define VERSION 1U
#define SECOND  INT64_C(1000000000)

/* Bytes of the locks: one for the content, and one for each seat, of its process's life. */
enum { LOCK_FILE = 0, LOCK_LIFE = 1 };

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t timeslices_now(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * SECOND + ts.tv_nsec;
}

/* --- The file, and its locks --- */

static struct flock at_byte(short type, size_t byte)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};
}

static bool set_lock(int fd, int command, short type, size_t byte)
{
    struct flock l = at_byte(type, byte);
    int rc;
    do
        rc = fcntl(fd, command, &l);
    while (rc != 0 && errno == EINTR);
    return rc == 0;
}

static bool map(struct timeslices *t)
{
    t->file = side_file_map(t->fd, sizeof(*t->file));
    if (t->file == NULL)
        return false;
    if (t->file->version == 0)
        t->file->version = VERSION;
    if (t->file->version == VERSION && t->file->reach <= TIMESLICE_SEATS)
        return true;
    (void)munmap(t->file, sizeof(*t->file));
    t->file = NULL;
    errno = EINVAL;
    return false;
}

static bool open_locked(struct timeslices *t, const char *state_path)
{
    char path[PATH_MAX] = "";
    if (t->file != NULL)
        return true;
    if (state_path != NULL &&
        snprintf(path, sizeof(path), "%s.work", state_path) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    t->fd = side_file_open(state_path != NULL ? path : NULL);
    if (t->fd < 0)
        return false;
    bool mapped = map(t);
    if (!mapped)
        (void)close(t->fd);
    return mapped;
}

bool timeslices_open(struct timeslices *t, const char *state_path)
{
    (void)pthread_mutex_lock(&t->mu);
    bool is_open = open_locked(t, state_path);
    (void)pthread_mutex_unlock(&t->mu);
    return is_open;
}

void timeslices_forget(struct timeslices *t)
{
    if (t->file != NULL) {
        (void)munmap(t->file, sizeof(*t->file));
        (void)close(t->fd);
    }
    *t = (struct timeslices){.mu = PTHREAD_MUTEX_INITIALIZER};
}

void timeslices_lock(struct timeslices *t)
{
    (void)pthread_mutex_lock(&t->mu);
    bool locked = set_lock(t->fd, F_OFD_SETLKW, F_WRLCK, LOCK_FILE);
    assert(locked);
    (void)locked;
}

void timeslices_unlock(struct timeslices *t)
{
    (void)set_lock(t->fd, F_OFD_SETLK, F_UNLCK, LOCK_FILE);
    (void)pthread_mutex_unlock(&t->mu);
}

bool timeslices_is_live(const struct timeslices *t, uint32_t seat)
{
    struct flock l = at_byte(F_WRLCK, LOCK_LIFE + seat);
    return t->own[seat] || (fcntl(t->fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK);
}

/* --- Bells --- */

uint32_t timeslices_bell(const struct timeslices *t, int seat)
{
    return atomic_load(&t->file->seats[seat].bell);
}

void timeslices_ring(struct timeslices *t, int seat, bool wake)
{
    _Atomic uint32_t *bell = &t->file->seats[seat].bell;
    atomic_fetch_add(bell, 1);
    if (wake)
        (void)syscall(SYS_futex, bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void timeslices_sleep(struct timeslices *t, int seat, uint32_t bell, int64_t until_ns)
{
    struct timespec ts = {.tv_sec = until_ns / SECOND, .tv_nsec = until_ns % SECOND};
    (void)syscall(SYS_futex, &t->file->seats[seat].bell, FUTEX_WAIT_BITSET, bell,
                  until_ns != TIMESLICE_NEVER ? &ts : NULL, NULL, FUTEX_BITSET_MATCH_ANY);
}

/* --- Seats --- */

/* A lock of this description excludes none of its own threads. Locked. */
static bool take_seat(struct timeslices *t, uint32_t i, uint32_t gpu, uint32_t row)
{
    struct timeslice_seat *s = &t->file->seats[i];
    if (t->own[i] || !set_lock(t->fd, F_OFD_SETLK, F_WRLCK, LOCK_LIFE + i))
        return false;
    t->own[i] = true;
    s->used = 1;
    s->gpu = gpu;
    s->pid = (uint32_t)getpid();
    s->row = row;
    s->waits = 0;
    s->granted = 0;
    s->run_ns = 0;
    if (t->file->reach <= i)
        t->file->reach = i + 1;
    return true;
}

int timeslices_join(struct timeslices *t, uint32_t gpu, uint32_t row)
{
    uint32_t i = 0;
    timeslices_lock(t);
    while (i < TIMESLICE_SEATS && !take_seat(t, i, gpu, row))
        i++;
    timeslices_unlock(t);
    return i < TIMESLICE_SEATS ? (int)i : -1;
}

/* --- The card: all locked --- */

static struct timeslice_card *card_of(struct timeslices *t, uint32_t seat)
{
    return &t->file->cards[t->file->seats[seat].gpu % HW_MAX_GPUS];
}

/* The number of steps from one seat to another, counting those that wait for that card. */
static int64_t distance(const struct timeslices *t, uint32_t from, uint32_t to)
{
    int64_t n = 0;
    uint32_t i = from;
    do {
        i = (i + 1) % t->file->reach;
        const struct timeslice_seat *s = &t->file->seats[i];
        n += i == to || (s->used && s->waits && s->gpu == t->file->seats[to].gpu);
    } while (i != to);
    return n;
}

/* The next one that waits for the card; NULL when nobody does. Seats of processes that have ended
 * are cleared on the way. */
static struct timeslice_seat *find_next(struct timeslices *t, const struct timeslice_card *card)
{
    for (uint32_t n = 1; n <= t->file->reach; n++) {
        uint32_t i = (card->last + n) % t->file->reach;
        struct timeslice_seat *s = &t->file->seats[i];
        if (!s->used || !s->waits || &t->file->cards[s->gpu % HW_MAX_GPUS] != card)
            continue;
        if (timeslices_is_live(t, i))
            return s;
        s->used = 0;
    }
    return NULL;
}

static void grant(struct timeslices *t, struct timeslice_card *card, uint32_t asker)
{
    struct timeslice_seat *s = find_next(t, card);
    if (s == NULL)
        return;
    int64_t start = later(later(card->free_ns, s->since_ns), timeslices_now() - TIMESLICE_LAG_NS);
    uint32_t seat = (uint32_t)(s - t->file->seats);
    s->slice = (struct timeslice){.start_ns = start, .end_ns = start + TIMESLICE_NS};
    s->granted = 1;
    s->waits = 0;
    card->holder = seat + 1;
    card->last = seat;
    timeslices_ring(t, (int)seat, seat != asker);
}

/* The holder has used the card until then. */
static void release(struct timeslices *t, struct timeslice_card *card, int64_t until_ns)
{
    uint32_t seat = (card->holder - 1) % TIMESLICE_SEATS;
    struct timeslice_seat *s = &t->file->seats[seat];
    struct timeslice used = s->slice;
    if (until_ns < used.end_ns)
        used.end_ns = later(until_ns, used.start_ns);
    card->past[card->count % TIMESLICE_PAST] =
        (struct timeslice_past){.slice = used, .seat = seat, .pid = s->pid, .row = s->row};
    s->run_ns += used.end_ns - used.start_ns;
    card->run_ns += used.end_ns - used.start_ns;
    card->free_ns = used.end_ns;
    card->count++;
    card->holder = 0;
}

static int64_t slice_end(const struct timeslices *t, const struct timeslice_card *card)
{
    return t->file->seats[(card->holder - 1) % TIMESLICE_SEATS].slice.end_ns;
}

/* Takes the card from a holder whose slice is over, and gives it to whoever is next. */
static void look(struct timeslices *t, struct timeslice_card *card, uint32_t asker)
{
    if (card->holder != 0 && timeslices_now() < slice_end(t, card) + TIMESLICE_MARGIN_NS)
        return;
    if (card->holder != 0)
        release(t, card, slice_end(t, card));
    grant(t, card, asker);
}

/* When it would be this one's turn to take a card that nobody hands on. */
static int64_t look_again(const struct timeslices *t, const struct timeslice_card *card,
                          uint32_t seat)
{
    if (card->holder == 0)
        return timeslices_now();
    int64_t before = distance(t, card->last % t->file->reach, seat) - 1;
    return slice_end(t, card) + TIMESLICE_MARGIN_NS + before * TIMESLICE_NS;
}

bool timeslices_ask(struct timeslices *t, int seat, int64_t since_ns, struct timeslice *ret,
                    int64_t *ret_look_ns)
{
    timeslices_lock(t);
    struct timeslice_seat *s = &t->file->seats[seat];
    struct timeslice_card *card = card_of(t, (uint32_t)seat);
    if (!s->granted) {
        if (!s->waits)
            s->since_ns = since_ns;
        s->waits = 1;
        look(t, card, (uint32_t)seat);
    }
    bool granted = s->granted;
    s->granted = 0;
    *ret = s->slice;
    *ret_look_ns = granted ? s->slice.end_ns : look_again(t, card, (uint32_t)seat);
    timeslices_unlock(t);
    return granted;
}

static void give(struct timeslices *t, uint32_t seat, int64_t until_ns, bool again)
{
    struct timeslice_card *card = card_of(t, seat);
    t->file->seats[seat].since_ns = until_ns;
    t->file->seats[seat].waits = again;
    if (card->holder != seat + 1)
        return;
    release(t, card, until_ns);
    grant(t, card, seat);
}

void timeslices_give(struct timeslices *t, int seat, int64_t until_ns, bool again)
{
    timeslices_lock(t);
    give(t, (uint32_t)seat, until_ns, again);
    timeslices_unlock(t);
}

void timeslices_leave(struct timeslices *t, int seat, int64_t until_ns)
{
    timeslices_lock(t);
    give(t, (uint32_t)seat, until_ns, /* again= */ false);
    t->file->seats[seat].used = 0;
    t->own[seat] = false;
    (void)set_lock(t->fd, F_OFD_SETLK, F_UNLCK, LOCK_LIFE + (size_t)seat);
    timeslices_unlock(t);
}

/* --- How busy a card was --- */

/* The part of a slice that lies in a span. */
static int64_t within(const struct timeslice *slice, const struct timeslice *span)
{
    int64_t from = later(slice->start_ns, span->start_ns);
    int64_t to = slice->end_ns < span->end_ns ? slice->end_ns : span->end_ns;
    return later(to - from, 0);
}

static bool counts(uint32_t of, uint32_t row)
{
    return row == TIMESLICE_ALL || of == row;
}

/* The last second, or as far back as the slices that are kept go. */
static struct timeslice last_second(const struct timeslice_card *card)
{
    int64_t now = timeslices_now();
    struct timeslice span = {.start_ns = now - SECOND, .end_ns = now};
    if (card->count > TIMESLICE_PAST)
        span.start_ns =
            later(span.start_ns, card->past[card->count % TIMESLICE_PAST].slice.start_ns);
    return span;
}

uint32_t timeslices_percent(const struct timeslices *t, uint32_t gpu, uint32_t row)
{
    const struct timeslice_card *card = &t->file->cards[gpu];
    struct timeslice span = last_second(card);
    uint64_t kept = card->count < TIMESLICE_PAST ? card->count : TIMESLICE_PAST;
    int64_t sum = 0;
    for (uint64_t i = 1; i <= kept; i++) {
        const struct timeslice_past *p = &card->past[(card->count - i) % TIMESLICE_PAST];
        if (p->slice.end_ns <= span.start_ns)
            break;
        sum += counts(p->row, row) ? within(&p->slice, &span) : 0;
    }
    const struct timeslice_seat *s = &t->file->seats[(card->holder - 1) % TIMESLICE_SEATS];
    if (card->holder != 0 && counts(s->row, row))
        sum += within(&s->slice, &span);
    return span.end_ns > span.start_ns ? (uint32_t)(sum * 100 / (span.end_ns - span.start_ns)) : 0;
}

int64_t timeslices_run_ns(const struct timeslices *t, uint32_t gpu)
{
    return t->file->cards[gpu].run_ns;
}
