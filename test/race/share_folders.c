/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two threads make and remove folders of containers, one receives, one writes into their terms what
 * contexts take, and processes of the containers send all the while: what is heard is of the
 * container that sent it.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/xalloc.h"

#include "nodeagent/container/slot_pool.h"
#include "nodeagent/slots/share_folder.h"
#include "nodeagent/slots/share_terms.h"

enum { WORKERS = 2, SLOTS = 4, ROUNDS = 200, CARDS = 2 };

static struct share_folders *folders;
static atomic_uint heard;

/* The message's slot is in fact one of usage: here it says who sends. */
static void note(void *arg, unsigned slot, const struct ucred *from, const struct share_message *m)
{
    (void)arg;
    assert(from->pid == getpid() && m->slot == slot);
    atomic_fetch_add(&heard, 1);
}

static void *receive(void *arg)
{
    int rc = share_folders_run(folders, arg, note, NULL, NULL);
    assert(rc == -(int)ERR_CANCELED);
    return NULL;
}

static void say(unsigned slot)
{
    const struct share_message m = {REGION_VERSION, SHARE_HELLO, .slot = slot};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    auto_free char *folder = share_folders_path(folders, slot);
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/" REGION_AGENT, folder);
    auto_fd int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert(fd >= 0);
    if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0)
        (void)send(fd, &m, sizeof(m), MSG_NOSIGNAL);
}

static void *work(void *arg)
{
    const unsigned first = *(const unsigned *)arg;
    struct share_limit limits[CARDS] = {{"GPU-00112233-4455-6677-8899-aabbccddeeff", 1 << 20, 0,
                                         false, LEVEL_LIBRARY, LEVEL_NONE, false},
                                        {"GPU-10112233-4455-6677-8899-aabbccddeeff", 1 << 20, 0,
                                         false, LEVEL_LIBRARY, LEVEL_NONE, false}};
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned slot = first + i % SLOTS;
        limits[0].memory_bytes = (uint64_t)(i + 1) << 20;
        int rc = share_folders_put(folders, slot, limits, 1 + i % CARDS, NULL);
        assert(rc == 0);
        say(slot);
        rc = i % 3 ? share_folders_remove(folders, slot, NULL) : 0;
        assert(rc == 0);
    }
    return NULL;
}

static void tell_context(unsigned slot, uint64_t bytes)
{
    static const char card[] = "GPU-00112233-4455-6677-8899-aabbccddeeff";
    auto_fd int folder = -1;
    auto_terms struct terms *terms = NULL;
    if (share_folders_open(folders, slot, &folder, NULL) < 0 ||
        share_terms_map(folder, &terms, NULL) < 0)
        return; /* it was removed */
    int at = share_terms_card(terms, card);
    assert(at == 0 && share_terms_context(terms, (unsigned)at) <= bytes);
    share_terms_set_context(terms, (unsigned)at, bytes);
}

static void *measure(void *arg)
{
    uint64_t bytes = 0;
    while (!atomic_load((atomic_bool *)arg))
        for (unsigned i = 0; i < WORKERS * SLOTS; i++)
            tell_context(slot_at(SLOT_POOL_SHARE, i), ++bytes);
    return NULL;
}

int main(void)
{
    char root[] = "/tmp/share-folders-XXXXXX";
    unsigned firsts[WORKERS];
    pthread_t workers[WORKERS], receiver, measurer;
    atomic_bool ended = false;
    struct scope *scope = scope_new(NULL, -1);
    assert(mkdtemp(root));
    int rc = share_folders_new(root, &folders, NULL);
    assert(rc == 0);
    (void)pthread_create(&receiver, NULL, receive, scope);
    (void)pthread_create(&measurer, NULL, measure, &ended);
    for (unsigned i = 0; i < WORKERS; i++) {
        firsts[i] = slot_at(SLOT_POOL_SHARE, i * SLOTS);
        (void)pthread_create(&workers[i], NULL, work, &firsts[i]);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        (void)pthread_join(workers[i], NULL);
    atomic_store(&ended, true);
    (void)pthread_join(measurer, NULL);
    scope_cancel(scope);
    (void)pthread_join(receiver, NULL);
    for (unsigned slot = firsts[0]; slot < firsts[0] + WORKERS * SLOTS; slot++) {
        rc = share_folders_remove(folders, slot, NULL);
        assert(rc == 0);
    }
    (void)scope_free(scope);
    folders = share_folders_free(folders);
    rc = rmdir(root);
    assert(rc == 0);
    assert(atomic_load(&heard) <= WORKERS * ROUNDS);
    (void)printf("%u heard\n", atomic_load(&heard));
    return 0;
}
