/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/operand.h"

#include <stdbool.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

/* The types' names and short names, as `kubectl api-resources` lists them. */
static const char *const pods[] = {"pod", "pods", "po", NULL};
static const char *const nodes[] = {"node", "nodes", "no", NULL};

static bool is_type(const char *const *types, const char *word, size_t len)
{
    for (; *types; types++)
        if (strlen(*types) == len && strncmp(*types, word, len) == 0)
            return true;
    return false;
}

int operand_pod(const char *word, char **ret_ns, const char **ret_name, struct err *e)
{
    const char *slash = strchr(word, '/');
    const char *name = slash ? slash + 1 : word;
    if (!*name || slash == word || strchr(name, '/'))
        return err_set(e, ERR_INVALID,
                       "\"%s\" names no pod: it is NAME, pod/NAME or NAMESPACE/NAME", word);
    bool has_ns = slash && !is_type(pods, word, (size_t)(slash - word));
    *ret_ns = has_ns ? xstrndup(word, (size_t)(slash - word)) : NULL;
    *ret_name = name;
    return 0;
}

int operand_node(const char *word, const char **ret_name, struct err *e)
{
    const char *slash = strchr(word, '/');
    const char *name = slash ? slash + 1 : word;
    if (!*name || strchr(name, '/') || (slash && !is_type(nodes, word, (size_t)(slash - word))))
        return err_set(e, ERR_INVALID, "\"%s\" names no node: it is NAME or node/NAME", word);
    *ret_name = name;
    return 0;
}
