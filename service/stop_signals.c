/* SPDX-License-Identifier: Apache-2.0 */
#include "service/stop_signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "base/log.h"

int stop_signals_open(struct scope *life, struct stop_signals *ret, struct err *e)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    int rc = pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (rc != 0)
        return err_set_errno(e, rc, "blocking signals");
    *ret = (struct stop_signals){signalfd(-1, &set, SFD_CLOEXEC), life};
    return ret->fd < 0 ? err_set_errno(e, errno, "signalfd") : 0;
}

int stop_signals_wait(void *arg, struct scope *s, struct err *e)
{
    const struct stop_signals *signals = arg;
    struct signalfd_siginfo info;
    TRY(scope_wait_readable(s, signals->fd, e));
    if (read(signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        log_info("Got signal", kv("signal", sigabbrev_np((int)info.ssi_signo)));
    scope_cancel(signals->life);
    (void)scope_wait_ms(s, -1);
    return scope_check(s, e);
}

void stop_signals_done(struct stop_signals *s)
{
    if (s->fd >= 0)
        (void)close(s->fd);
    s->fd = -1;
}
