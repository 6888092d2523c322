/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <ctype.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "nodeagent/gpu/consumers.h"

/*
 * Input: /proc/<pid>/cgroup of some process, then, behind a zero byte, our own. Whatever is read
 * is a UID and a container's id. And whatever names somebody gives the cgroups below one that was
 * left to him, he passes for nobody: below a user's session there is no pod, below a pod's
 * container there is that pod.
 */
#define UID     "11111111-2222-3333-4444-555555555555"
#define CID     "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbccccccccccccccccdddddddddddddddd"
#define SESSION "/user.slice/user-1000.slice/user@1000.service"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(const struct consumer *c)
{
    size_t uid = strlen(c->pod_uid);
    size_t id = strlen(c->container_id);
    assert(uid >= 32 && uid <= 36 && (id == 0 || id == 64));
    for (size_t i = 0; i < uid; i++)
        assert(isxdigit((unsigned char)c->pod_uid[i]) || c->pod_uid[i] == '-');
    for (size_t i = 0; i < id; i++)
        assert(isxdigit((unsigned char)c->container_id[i]));
}

static void expect_no_pod(const char *where, const char *name, const char *own)
{
    auto_free char *text = xasprintf("0::%s/%s", where, name);
    struct consumer c;
    bool found = consumer_parse_cgroup(text, own, &c);
    assert(!found);
}

static void expect_that_pod(const char *where, const char *name, const char *own)
{
    auto_free char *text = xasprintf("0::%s/%s", where, name);
    struct consumer c;
    bool found = consumer_parse_cgroup(text, own, &c);
    assert(found && strcmp(c.pod_uid, UID) == 0 && strcmp(c.container_id, CID) == 0);
}

/* No cgroup has a line's end in its name. */
static void check_made_below(const char *text)
{
    auto_free char *name = xstrndup(text, strcspn(text, "\n"));
    const char *const own[] = {NULL, "0::/\n", "0::/kubepods/pod" UID "/" CID "\n"};
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        expect_no_pod(SESSION, name, own[i]);
        expect_no_pod("/../../../.." SESSION, name, own[i]);
        expect_no_pod("/lxc.payload.guest", name, own[i]);
        expect_no_pod("/system.slice/docker-" CID ".scope", name, own[i]);
        expect_that_pod("/kubepods/burstable/pod" UID "/" CID, name, own[i]);
        expect_that_pod("/../../pod" UID "/" CID, name, own[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const uint8_t *zero = len ? memchr(data, 0, len) : NULL;
    size_t first = zero ? (size_t)(zero - data) : len;
    auto_free char *text = xstrndup((const char *)data, first);
    auto_free char *own = zero ? xstrndup((const char *)zero + 1, len - first - 1) : NULL;
    struct consumer c;
    if (consumer_parse_cgroup(text, own, &c))
        check(&c);
    check_made_below(text);
    return 0;
}
