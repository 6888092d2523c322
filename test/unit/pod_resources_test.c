/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/auto.h"
#include "base/clock.h"

#include "nodeagent/kubelet/pod_resources.h"

/* No kubelet is there, so each question is answered by an error in the next dispatch. */

struct answers {
    unsigned n;
    int64_t asked_mono_ms;
};

static void count(void *arg, const struct pod_device *list, size_t n, int64_t asked_mono_ms,
                  const struct err *err)
{
    struct answers *a = arg;
    (void)list;
    cr_expect(err && n == 0);
    a->n++;
    a->asked_mono_ms = asked_mono_ms;
}

static void settle(struct reactor *r)
{
    for (int i = 0; i < 8; i++)
        reactor_dispatch(r);
}

/* The wait for the rate's next turn and the caller come at the same moment. A second question would
 * give its time to the answer to the first. */
Test(pod_resources, a_question_that_waited_is_not_asked_beside_another)
{
    struct clock *clk = clock_fake_new(0);
    struct reactor *r = NULL;
    struct answers a = {0};
    cr_assert_eq(reactor_new(clk, &r, NULL), 0);
    const struct pod_resources_options o = {.reactor = r,
                                            .clk = clk,
                                            .path = "/nowhere/kubelet.sock",
                                            .fn = count,
                                            .arg = &a};
    struct pod_resources *p = pod_resources_new(&o);
    pod_resources_ask(p);
    settle(r);
    cr_assert_eq(a.n, 1);
    pod_resources_ask(p); /* too soon: it waits */
    clock_fake_advance(clk, 1000);
    pod_resources_ask(p);
    settle(r);
    cr_expect_eq(a.n, 2, "%u answers", a.n);
    cr_expect_eq(a.asked_mono_ms, clock_mono_ms(clk));
    (void)pod_resources_free(p);
    (void)reactor_free(r);
    (void)clock_free(clk);
}
