/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "api/share_request.h"

/* A container with these limits, as the inside of a JSON object. */
static json_t *container(const char *limits)
{
    json_t *c = NULL;
    auto_free char *text = xasprintf("{\"resources\": {\"limits\": {%s}}}", limits);
    cr_assert_eq(jx_parse(text, strlen(text), 4096, &c, NULL), 0, "%s", limits);
    return c;
}

/* The request as text, with the warnings; or the error. Caller frees. */
static char *read_request(const char *limits)
{
    auto_json json_t *c = container(limits);
    auto_sb struct sb warnings = SB_INIT(512);
    auto_err struct err e = {0};
    struct share_request r;
    if (share_request_of(c, &r, &warnings, &e) < 0) {
        cr_expect_eq(e.kind, ERR_INVALID);
        return xstrdup(err_msg(&e));
    }
    if (!r.count)
        return xasprintf("none%s%s", warnings.len ? "; " : "", sb_str(&warnings));
    auto_free char *memory =
        r.memory_mib ? xasprintf("%u MiB", r.memory_mib) : xasprintf("%u %%", r.memory_percent);
    return xasprintf("%u x %s, %u, priority %d%s%s", r.count, memory, r.compute, r.priority,
                     warnings.len ? "; " : "", sb_str(&warnings));
}

static const struct {
    const char *limits, *means;
} cases[] = {
    {"", "none"},
    {"\"cpu\": \"2\"", "none"},
    {"\"nvidia.com/gpu\": \"0\"", "none"},
    {"\"nvidia.com/gpu\": \"0\", \"nvidia.com/gpumem\": \"3000\"",
     "none; nvidia.com/gpu is 0: memory and compute beside it do not count"},
    {"\"nvidia.com/gpu\": 2", "2 x 100 %, 100, priority -1"},
    {"\"nvidia.com/gpu\": \"2\", \"nvidia.com/gpumem\": \"3000\", \"nvidia.com/gpucores\": \"30\"",
     "2 x 3000 MiB, 30, priority -1"},
    {"\"nvidia.com/gpumem\": \"3k\"", "1 x 3000 MiB, 0, priority -1"},
    {"\"nvidia.com/gpucores\": \"30\"", "1 x 100 %, 30, priority -1"},
    {"\"nvidia.com/gpumem-percentage\": \"50\"", "1 x 50 %, 0, priority -1"},
    {"\"nvidia.com/gpumem-percentage\": \"100\"", "1 x 100 %, 100, priority -1"},
    {"\"nvidia.com/gpu\": 1, \"nvidia.com/gpumem\": 0", "1 x 100 %, 100, priority -1"},
    {"\"nvidia.com/gpu\": 1, \"nvidia.com/gpucores\": 0", "1 x 100 %, 0, priority -1"},
    {"\"nvidia.com/gpu\": 1, \"nvidia.com/priority\": 0", "1 x 100 %, 100, priority 0"},
    {"\"nvidia.com/gpu\": 1, \"nvidia.com/priority\": 7",
     "1 x 100 %, 100, priority 1; nvidia.com/priority is 0 (high) or 1 (low); a larger value "
     "counts as 1"},
    {"\"nvidia.com/gpumem-percentage\": \"101\"",
     "1 x 100 %, 100, priority -1; nvidia.com/gpumem-percentage is 101, and counts as 100 percent"},
    {"\"nvidia.com/gpumem\": 5, \"nvidia.com/gpucores\": \"300\"",
     "1 x 5 MiB, 100, priority -1; nvidia.com/gpucores is 300, and counts as 100 percent"},
    {"\"nvidia.com/gpumem\": 5, \"nvidia.com/gpumem-percentage\": 10",
     "1 x 5 MiB, 0, priority -1; nvidia.com/gpumem counts, and nvidia.com/gpumem-percentage beside "
     "it does not"},
    {"\"nvidia.com/gpumem\": \"3Gi\"",
     "nvidia.com/gpumem is 3Gi, which is 3221225472, and counts MiB: write 3072"},
    {"\"nvidia.com/gpumem\": 3221225472",
     "nvidia.com/gpumem is 3221225472, and counts MiB: write 3072"},
    {"\"nvidia.com/gpumem\": \"1Gi\"",
     "nvidia.com/gpumem is 1Gi, which is 1073741824, and counts MiB: write 1024"},
    {"\"nvidia.com/gpumem\": \"40Mi\"",
     "nvidia.com/gpumem is 40Mi, which is 41943040, and counts MiB: write 40"},
    {"\"nvidia.com/gpumem\": \"16Mi\"",
     "nvidia.com/gpumem is 16Mi, which is 16777216, and counts MiB: write 16"},
    {"\"nvidia.com/gpumem\": 16777215", "1 x 16777215 MiB, 0, priority -1"},
    {"\"nvidia.com/gpumem\": -1", "nvidia.com/gpumem is -1; write a number from 0 on"},
    {"\"nvidia.com/gpucores\": \"half\"", NULL},
    {"\"nvidia.com/gpumem\": \"10000000000000000000\"", NULL},
    {"\"nvidia.com/gpumem\": true", "nvidia.com/gpumem must be a whole number"},
    {"\"nvidia.com/gpu\": 1025", "nvidia.com/gpu is 1025; a node has at most 1024 shares"},
};

Test(share_request, hamis_words_have_their_meaning_and_others_are_refused)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        auto_free char *text = read_request(cases[i].limits);
        if (cases[i].means)
            cr_expect_str_eq(text, cases[i].means, "%s: %s", cases[i].limits, text);
        else
            cr_expect(strstr(text, "write a whole number"), "%s: %s", cases[i].limits, text);
    }
}

Test(share_request, requests_count_where_there_are_no_limits)
{
    auto_json json_t *c = NULL;
    struct share_request r;
    static const char text[] = "{\"resources\": {\"requests\": {\"nvidia.com/gpu\": 3}}}";
    cr_assert_eq(jx_parse(text, strlen(text), 4096, &c, NULL), 0);
    cr_assert_eq(share_request_of(c, &r, NULL, NULL), 0);
    cr_expect_eq(r.count, 3);
}
