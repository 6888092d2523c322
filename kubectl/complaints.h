/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auto.h"

#include "kubectl/screen.h"

/* The findings of `kubectl cleave doctor`: each is something that is wrong in the cluster. Pure. */

enum severity {
    SEVERITY_ERROR,   /* something that was asked for does not work, or is not done */
    SEVERITY_WARNING, /* something that works; that may not last, or somebody should know */
};

struct complaint {
    enum severity severity;
    /* In a list these texts are its own. */
    const char *kind, *name; /* of the object; name NULL: the cluster */
    const char *part;        /* of the object: a card; NULL: all of it */
    const char *reason;      /* one word, for programs */
    const char *seen;        /* for people: others' text */
    int64_t since_ms;        /* wall clock; 0: not known */
};

/* A list holds so many; of more it has the number. */
#define COMPLAINTS_MAX 10000

struct complaints {
    struct complaint *items;
    size_t n, more;
};

/* Adds a copy. */
void complaints_add(struct complaints *l, const struct complaint *from);
/* True when one of this object, whatever its part, has the reason. */
bool complaints_have(const struct complaints *l, const struct complaint *like);
/* True when the last one is of this object and part, and says the same. */
bool complaints_end_with(const struct complaints *l, const struct complaint *like);
/* The gravest first, then by object. */
void complaints_sort(struct complaints *l);
size_t complaints_count(const struct complaints *l, enum severity severity);
void complaints_done(struct complaints *l);
AUTO_DEFINE(complaints, struct complaints, complaints_done)
#define auto_complaints AUTO(complaints)

/* Appends the findings for a person, each with its remedy. */
void complaints_text(const struct complaints *l, const struct screen *s, struct sb *ret);
/* The same for programs (docs/kubectl.md): an array. New reference. */
json_t *complaints_json(const struct complaints *l);
