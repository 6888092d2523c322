/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/agent_pod.h"

#include <stdlib.h>
#include <string.h>

#include "base/jx.h"
#include "base/num.h"
#include "base/xalloc.h"

static bool is_ready(const json_t *pod)
{
    size_t i;
    json_t *condition;
    json_array_foreach(JX_AT(pod, "status", "conditions"), i, condition) {
        const char *type = JX_STR_AT(condition, "type");
        const char *status = JX_STR_AT(condition, "status");
        if (type && status && strcmp(type, "Ready") == 0)
            return strcmp(status, "True") == 0;
    }
    return false;
}

/* The value of "--flag=value"; NULL: it is another argument. */
static const char *value_of(const char *argument, const char *flag)
{
    size_t len = strlen(flag);
    return argument && strncmp(argument, flag, len) == 0 && argument[len] == '='
               ? argument + len + 1
               : NULL;
}

/* The port of an address such as ":8080" or "[::]:8080"; 0: there is none. */
static uint16_t port_of(const char *address)
{
    int64_t port = 0;
    const char *colon = strrchr(address, ':');
    return colon && num_parse(colon + 1, 1, UINT16_MAX, &port, NULL) == 0 ? (uint16_t)port : 0;
}

static void read_argument(const char *argument, struct agent_pod *p)
{
    const char *address = value_of(argument, "--metrics-addr");
    const char *auth = value_of(argument, "--metrics-auth");
    if (address)
        p->port = port_of(address);
    if (auth)
        p->token = strcmp(auth, "token") == 0;
    if (value_of(argument, "--metrics-tls-cert-file"))
        p->tls = true;
}

/* The container called "agent", as config/agent has it, or else the first: a cluster may add others
 * to all pods, also before it. */
static const json_t *agent_container(const json_t *pod)
{
    size_t i;
    json_t *container;
    const json_t *containers = JX_AT(pod, "spec", "containers");
    json_array_foreach(containers, i, container) {
        const char *name = JX_STR_AT(container, "name");
        if (name && strcmp(name, "agent") == 0)
            return container;
    }
    return json_array_get(containers, 0);
}

bool agent_pod_read(const json_t *pod, struct agent_pod *ret)
{
    size_t i;
    json_t *argument;
    const char *node = JX_STR_AT(pod, "spec", "nodeName");
    const char *name = JX_STR_AT(pod, "metadata", "name");
    const char *created = JX_STR_AT(pod, "metadata", "creationTimestamp");
    *ret = (struct agent_pod){0};
    if (!node || !name || JX_AT(pod, "metadata", "deletionTimestamp") || !is_ready(pod))
        return false;
    json_array_foreach(JX_AT(agent_container(pod), "args"), i, argument)
        read_argument(json_string_value(argument), ret);
    ret->node = xstrdup(node);
    ret->pod = xstrdup(name);
    ret->created = xstrdup(created ? created : "");
    return true;
}

void agent_pod_done(struct agent_pod *p)
{
    free(p->node);
    free(p->pod);
    free(p->created);
    *p = (struct agent_pod){0};
}

int agent_pod_order(const void *a, const void *b)
{
    const struct agent_pod *x = a, *y = b;
    int d = strcmp(x->node, y->node);
    return d ? d : strcmp(x->created, y->created);
}
