/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/change/record_version.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/jx.h"
#include "base/xalloc.h"

#define HEAD_BYTES 256
#define BLANK      " \t\r\n"

/* Versions count from 1; any other value is refused by the reader of the whole file. */
static int judge_version(const char *path, long long version, const struct record_versions *v,
                         struct err *e)
{
    char known[32] = "";
    assert(v->oldest >= 1 && v->oldest <= v->newest);
    if (version <= 0 || (version >= v->oldest && version <= v->newest))
        return 0;
    if (v->oldest < v->newest)
        (void)snprintf(known, sizeof(known), "%d to ", v->oldest);
    int rc = err_set(e, ERR_CONFLICT,
                     "%s is of version %lld and this agent reads %s%d: run the release of Cleave "
                     "that wrote it, or remove the file to have the card judged as it is now",
                     path, version, known, v->newest);
    if (e)
        e->reason = "OtherVersion";
    return rc;
}

static const char *past(const char *text, const char *word)
{
    if (!text)
        return NULL;
    text += strspn(text, BLANK);
    return strncmp(text, word, strlen(word)) == 0 ? text + strlen(word) : NULL;
}

/* The version at the beginning; 0: there is none. A number too large for the type becomes a large
 * one. */
static long long version_in(const char *text)
{
    const char *at = past(past(past(text, "{"), "\"version\""), ":");
    if (!at)
        return 0;
    at += strspn(at, BLANK);
    return *at >= '1' && *at <= '9' ? strtoll(at, NULL, 10) : 0;
}

int record_version_peek(const char *path, const struct record_versions *v, struct err *e)
{
    char head[HEAD_BYTES];
    auto_err struct err why = {0};
    int rc = file_read_head(path, head, sizeof(head), &why);
    if (rc < 0)
        return why.kind == ERR_NOT_FOUND ? 0 : err_move(e, &why);
    return judge_version(path, version_in(head), v, e);
}

int record_version_check(const char *path, const json_t *content, const struct record_versions *v,
                         struct err *e)
{
    return judge_version(path, json_integer_value(json_object_get(content, "version")), v, e);
}

char *record_version_dump(const json_t *content, int version)
{
    auto_json json_t *rest = json_copy((json_t *)(uintptr_t)content);
    (void)json_object_del(rest, "version");
    auto_free char *text = jx_dump(rest);
    assert(version >= 1 && text[0] == '{' && text[1] == '"'); /* an object with other members */
    return xasprintf("{\"version\":%d,%s", version, text + 1);
}
