/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/audit/audit_text.h"

#include <inttypes.h>

#include "base/sb.h"

enum { TEXT_BYTES = 1024, NAMED = 3 };

static uint64_t mib(uint64_t bytes)
{
    return bytes >> 20;
}

static void add_name(struct sb *text, const struct audit_process *p)
{
    char clean[sizeof(p->name)];
    size_t n = 0;
    for (const char *c = p->name; *c && n < sizeof(clean) - 1; c++)
        if ((unsigned char)*c >= ' ' && *c != 0x7f)
            clean[n++] = *c;
    clean[n] = '\0';
    sb_add_utf8(text, n ? clean : "without a name", sizeof(clean));
    sb_addf(text, " (%u on the host)", p->id.pid);
}

/* Bytes of 0 are not reported. */
static void add_process(struct sb *text, const struct audit_process *p)
{
    add_name(text, p);
    if (p->bytes)
        sb_addf(text, " with %" PRIu64 " MiB", mib(p->bytes));
}

static void add_amounts(struct sb *text, const struct audit_share *s, const struct share_audit *a)
{
    sb_addf(text, "%" PRIu64 " MiB of the card, and its share has %" PRIu64 " MiB",
            mib(a->used_bytes), mib(s->limit_bytes));
    if (a->let_bytes > s->limit_bytes)
        sb_addf(text, " (and %" PRIu64 " MiB are let pass for contexts)",
                mib(a->let_bytes - s->limit_bytes));
}

static const struct audit_process *largest(const struct audit_share *s)
{
    const struct audit_process *most = NULL;
    for (size_t i = 0; i < s->n; i++)
        if (!most || s->processes[i].bytes > most->bytes)
            most = &s->processes[i];
    return most;
}

char *audit_over_text(const struct audit_share *s, const struct share_audit *a)
{
    struct sb text = SB_INIT(TEXT_BYTES);
    const struct audit_process *most = largest(s);
    sb_add(&text, "uses ");
    add_amounts(&text, s, a);
    if (most) {
        sb_add(&text, "; of its processes most has ");
        add_process(&text, most);
    }
    return sb_take(&text);
}

char *audit_unlimited_text(const struct audit_share *s, const struct share_audit *a)
{
    struct sb text = SB_INIT(TEXT_BYTES);
    size_t n = 0;
    sb_addf(&text, a->n_unlimited == 1 ? "%zu process uses" : "%zu processes use", a->n_unlimited);
    sb_add(&text, " the card without the limiter, and nothing holds it to the share: ");
    for (size_t i = 0; i < s->n && n < NAMED; i++) {
        if (!a->seen[i].is_unlimited)
            continue;
        if (n++)
            sb_add(&text, ", ");
        add_process(&text, &s->processes[i]);
    }
    if (a->n_unlimited > n)
        sb_add(&text, ", …");
    sb_add(&text, ". Use the container's libcuda.so.1, and none that the image brings along");
    return sb_take(&text);
}

char *audit_end_text(const struct audit_share *s, const struct share_audit *a,
                     const struct audit_process *p)
{
    struct sb text = SB_INIT(TEXT_BYTES);
    sb_add(&text, "process ");
    add_process(&text, p);
    sb_add(&text, " was ended: the container used ");
    add_amounts(&text, s, a);
    return sb_take(&text);
}
