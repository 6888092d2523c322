/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/loop/handover_locks.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/xalloc.h"

#include "nodeagent/change/journal.h"

#define HANDOVER_NAME "handover"

enum { FILE_MODE = 0600, DIR_MODE = 0700 };

enum lock_byte { NEXT, SUCCESSOR, SERVES, ANSWERS };

/* The stages of an agent's life at the locks; each begins when a lock was taken. */
enum stage { WANTS_NEXT, WANTS_SUCCESSOR, WANTS_CARDS, WANTS_ANSWERS, IS_ALONE, WAITS, SUCCEEDED };

struct handover_locks {
    char *state_dir;
    int file;  /* <state_dir>/handover: its open description is what holds the bytes */
    int event; /* eventfd */
    bool has_thread;
    pthread_t thread;
    /* The thread writes these while it runs; without it the loop's thread does. */
    atomic_int stage;  /* enum stage */
    atomic_int cards;  /* the descriptor of the cards' lock; -1: not taken, or released */
    atomic_bool over;  /* the thread has ended, or is about to */
    struct err failed; /* valid with over */
};

/* --- The bytes --- */

static struct flock byte_lock(enum lock_byte byte, short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
}

/* command: F_OFD_SETLK or F_OFD_SETLKW. ERR_CONFLICT: another process has the byte. */
static int lock_byte(const struct handover_locks *l, enum lock_byte byte, int command,
                     struct err *e)
{
    struct flock lock = byte_lock(byte, F_WRLCK);
    int rc;
    do
        rc = fcntl(l->file, command, &lock);
    while (rc < 0 && errno == EINTR);
    if (rc == 0)
        return 0;
    if (errno == EAGAIN || errno == EACCES)
        return err_set(e, ERR_CONFLICT, "another agent has this node");
    return err_set_errno(e, errno, "lock %s/" HANDOVER_NAME, l->state_dir);
}

/* Unlocking a byte cannot fail on an open descriptor. */
static void unlock_byte(const struct handover_locks *l, enum lock_byte byte)
{
    struct flock lock = byte_lock(byte, F_UNLCK);
    (void)fcntl(l->file, F_OFD_SETLK, &lock);
}

/* --- Taking --- */

static int take_cards(struct handover_locks *l, bool wait, struct err *e)
{
    int fd = -1;
    TRY(wait ? journal_await_lock(l->state_dir, &fd, e) : journal_lock(l->state_dir, &fd, e));
    atomic_store(&l->cards, fd);
    return 0;
}

/* Takes the lock that the stage wants. ERR_CONFLICT: another process has it, and wait is false. */
static int take_next(struct handover_locks *l, bool wait, struct err *e)
{
    int command = wait ? F_OFD_SETLKW : F_OFD_SETLK;
    switch ((enum stage)atomic_load(&l->stage)) {
    case WANTS_NEXT:
        return lock_byte(l, NEXT, command, e);
    case WANTS_CARDS:
        return take_cards(l, wait, e);
    case WANTS_ANSWERS:
        return lock_byte(l, ANSWERS, command, e);
    case WANTS_SUCCESSOR:
    case WAITS:
        return lock_byte(l, SUCCESSOR, command, e);
    case IS_ALONE:
    case SUCCEEDED:
        break;
    }
    return 0;
}

static bool is_settled(const struct handover_locks *l)
{
    int stage = atomic_load(&l->stage);
    return stage == IS_ALONE || stage == SUCCEEDED;
}

static void advance(struct handover_locks *l)
{
    int stage = atomic_load(&l->stage) + 1;
    if (stage == IS_ALONE)
        unlock_byte(l, NEXT);
    if (stage == SUCCEEDED)
        unlock_byte(l, SUCCESSOR);
    atomic_store(&l->stage, stage);
}

static void *wait_for_locks(void *arg)
{
    struct handover_locks *l = arg;
    while (!is_settled(l) && take_next(l, /* wait= */ true, &l->failed) == 0) {
        advance(l);
        (void)eventfd_write(l->event, 1);
    }
    atomic_store(&l->over, true);
    (void)eventfd_write(l->event, 1);
    return NULL;
}

static int start_thread(struct handover_locks *l, struct err *e)
{
    assert(!l->has_thread);
    atomic_store(&l->over, false);
    int rc = pthread_create(&l->thread, NULL, wait_for_locks, l);
    if (rc)
        return err_set_errno(e, rc, "start the thread that waits for the node");
    (void)pthread_setname_np(l->thread, "handover");
    l->has_thread = true;
    return 0;
}

static int begin(struct handover_locks *l, struct err *e)
{
    auto_err struct err busy = {0};
    int rc = 0;
    while (!is_settled(l) && (rc = take_next(l, /* wait= */ false, &busy)) == 0)
        advance(l);
    if (rc == -(int)ERR_CONFLICT)
        return start_thread(l, e);
    return rc < 0 ? err_move(e, &busy) : 0;
}

int handover_locks_new(const char *state_dir, struct handover_locks **ret, struct err *e)
{
    TRY(file_make_dirs(state_dir, DIR_MODE, e));
    auto_free char *path = xasprintf("%s/" HANDOVER_NAME, state_dir);
    auto_fd int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE);
    if (file < 0)
        return err_set_errno(e, errno, "open %s", path);
    auto_handover_locks struct handover_locks *l = xmalloc(sizeof(*l));
    *l = (struct handover_locks){.state_dir = xstrdup(state_dir),
                                 .file = TAKE_FD(file),
                                 .event = xfd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
                                 .cards = -1,
                                 .over = true};
    TRY(begin(l, e));
    *ret = TAKE(l);
    return 0;
}

/* --- Answers --- */

int handover_locks_fd(const struct handover_locks *l)
{
    return l->event;
}

int handover_locks_check(struct handover_locks *l, struct err *e)
{
    eventfd_t n;
    (void)eventfd_read(l->event, &n);
    if (!atomic_load(&l->over) || !l->failed.kind)
        return 0;
    return err_move(e, &l->failed);
}

bool handover_locks_have_cards(const struct handover_locks *l)
{
    return atomic_load(&l->cards) >= 0;
}

bool handover_locks_are_alone(const struct handover_locks *l)
{
    return atomic_load(&l->stage) >= IS_ALONE;
}

/* The agent before has unlocked SERVES when it released the cards. */
void handover_locks_announce(struct handover_locks *l, bool serves)
{
    auto_err struct err e = {0};
    assert(handover_locks_have_cards(l));
    if (serves && lock_byte(l, SERVES, F_OFD_SETLK, &e) < 0)
        log_warn("Could not tell the agent before that the kubelet is served", kv_err(&e));
    unlock_byte(l, SUCCESSOR);
}

static bool is_locked(const struct handover_locks *l, enum lock_byte byte)
{
    struct flock lock = byte_lock(byte, F_WRLCK);
    return fcntl(l->file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool handover_locks_are_awaited(const struct handover_locks *l)
{
    assert(handover_locks_are_alone(l));
    return is_locked(l, SUCCESSOR);
}

static void join(struct handover_locks *l)
{
    if (l->has_thread)
        (void)pthread_join(l->thread, NULL);
    l->has_thread = false;
}

int handover_locks_release(struct handover_locks *l, struct err *e)
{
    assert(atomic_load(&l->stage) == IS_ALONE);
    join(l);
    unlock_byte(l, SERVES);
    (void)close(atomic_exchange(&l->cards, -1));
    atomic_store(&l->stage, WAITS);
    return start_thread(l, e);
}

bool handover_locks_are_succeeded(const struct handover_locks *l)
{
    return atomic_load(&l->stage) == SUCCEEDED;
}

bool handover_locks_are_served(const struct handover_locks *l)
{
    return is_locked(l, SERVES);
}

struct handover_locks *handover_locks_free(struct handover_locks *l)
{
    if (!l || (!atomic_load(&l->over) && !is_settled(l)))
        return NULL;
    join(l);
    if (atomic_load(&l->cards) >= 0)
        (void)close(atomic_load(&l->cards));
    (void)close(l->file);
    (void)close(l->event);
    err_clear(&l->failed);
    free(l->state_dir);
    free(l);
    return NULL;
}
