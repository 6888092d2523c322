/* SPDX-License-Identifier: Apache-2.0 */
#include "reconcilers/told.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/strmap.h"
#include "base/xalloc.h"

struct told {
    pthread_mutex_t mu;
    struct strmap *texts; /* guarded by mu: subject → text, owned */
};

struct told *told_new(void)
{
    struct told *t = xmalloc(sizeof(*t));
    (void)pthread_mutex_init(&t->mu, NULL);
    t->texts = strmap_new();
    return t;
}

enum told_news told_note(struct told *t, const char *subject, const char *text)
{
    assert(subject && text);
    HOLD(&t->mu);
    const char *now = strmap_get(t->texts, subject);
    if (now && strcmp(now, text) == 0)
        return TOLD_SAME;
    auto_free char *before = strmap_put(t->texts, subject, xstrdup(text));
    return before ? TOLD_OTHER : TOLD_FIRST;
}

void told_forget(struct told *t, const char *subject)
{
    HOLD(&t->mu);
    free(strmap_remove(t->texts, subject));
}

struct told *told_free(struct told *t)
{
    if (!t)
        return NULL;
    size_t pos = 0;
    void *text;
    while (strmap_next(t->texts, &pos, &(const char *){NULL}, &text))
        free(text);
    (void)strmap_free(t->texts);
    (void)pthread_mutex_destroy(&t->mu);
    free(t);
    return NULL;
}
