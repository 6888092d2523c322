/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/node_words.h"

#include <stdlib.h>
#include <string.h>

#include "base/jx.h"
#include "base/xalloc.h"

#include "interop/hami_pod.h"

static const struct kc_resource node_resource = {"", "v1", "nodes", "Node",
                                                 /* namespaced= */ false};

static void free_words(void *payload)
{
    struct node_words *w = payload;
    if (w)
        free(w->cordoned);
    free(w);
}

static const char *annotation(const json_t *node, const char *key)
{
    const char *text = JX_STR_AT(node, "metadata", "annotations", key);
    return text && *text ? text : NULL;
}

static int read_node(const json_t *node, void **ret, struct err *e)
{
    const char *cordoned = annotation(node, NODE_CORDON);
    bool is_hamis = annotation(node, NODE_REGISTER);
    (void)e;
    if (!cordoned && !is_hamis)
        return 0;
    struct node_words *w = xmalloc(sizeof(*w));
    *w = (struct node_words){.is_hamis = is_hamis};
    if (cordoned && strlen(cordoned) > HAMI_MAX_LIST_BYTES)
        w->is_cordoned = true;
    else
        w->cordoned = xstrdup(cordoned);
    *ret = w;
    return 0;
}

const struct object_type node_words_type = {&node_resource, read_node, free_words};

const struct node_words *node_words_of(const struct object *node)
{
    return node ? object_payload(node) : NULL;
}
