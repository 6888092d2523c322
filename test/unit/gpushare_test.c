/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/num.h"
#include "base/xalloc.h"

#include "interop/gpushare.h"

/* "GPU-7" is card 7; others are not known. */
static int64_t number_of(void *arg, const char *uuid)
{
    int64_t n = -1;
    (void)arg;
    if (strncmp(uuid, "GPU-", 4) == 0)
        cr_assert_eq(num_parse(uuid + 4, 0, INT32_MAX, &n, NULL), 0);
    return n;
}

/* The text for a pod with these containers, and this record; "": none. Caller frees. */
static char *text_of(const char *containers, const char *record)
{
    auto_free char *pod_text = xasprintf("{\"spec\": {\"containers\": [%s]}}", containers);
    auto_json json_t *pod = json_loads(pod_text, 0, NULL);
    AUTO(allocation) struct allocation a = {0};
    cr_assert_not_null(pod, "%s", pod_text);
    cr_assert_eq(allocation_parse(record, &a, NULL), 0, "%s", record);
    char *text = gpushare_allocation_text(pod, &a, number_of, NULL);
    return text ? text : xstrdup("");
}

#define ASKS(name, gib)                                                                            \
    "{\"name\": \"" name "\", \"resources\": {\"limits\": {\"aliyun.com/gpu-mem\": \"" gib "\"}}}"
#define HAS(name, card) "{\"n\":\"" name "\",\"s\":[{\"u\":\"" card "\",\"m\":2048,\"c\":0}]}"
#define RECORD(of)      "{\"v\":1,\"c\":[" of "],\"p\":0}"

static void expect_text(const char *containers, const char *record, const char *expected)
{
    auto_free char *text = text_of(containers, record);
    cr_expect_str_eq(text, expected, "%s", text);
}

Test(gpushare, each_container_in_its_words_is_told_with_its_card)
{
    expect_text(ASKS("a", "2") ", {\"name\": \"b\"}, " ASKS("c", "3"),
                RECORD(HAS("a", "GPU-0") "," HAS("b", "GPU-1") "," HAS("c", "GPU-12")),
                "{\"0\":{\"0\":2},\"2\":{\"12\":3}}");
}

Test(gpushare, without_a_card_that_is_known_nothing_is_told)
{
    expect_text(ASKS("a", "2"), RECORD(HAS("a", "other")), "");
    expect_text(ASKS("a", "0"), RECORD(HAS("a", "GPU-0")), "");
    expect_text(ASKS("a", "2"), RECORD(HAS("b", "GPU-0")), "");
    expect_text("7, {}, {\"name\": 7}", RECORD(HAS("b", "GPU-0")), "");
}

Test(gpushare, a_text_has_at_most_so_many_bytes_for_each_container)
{
    auto_free char *text = text_of(ASKS("a", "16383"), RECORD(HAS("a", "GPU-2147483647")));
    cr_expect_leq(strlen(text), GPUSHARE_ENTRY_BYTES, "%s", text);
}

Test(gpushare, cards_are_summed_with_their_oversubscription_each_in_whole_gib)
{
    struct gpushare_sums sums = {0};
    struct device_resource *list = NULL;
    size_t n = 0;
    gpushare_sums_add(&sums, 81559,
                      &(struct device_fractional){.max_shares = 10,
                                                  .memory_percent = 100,
                                                  .compute_percent = 100});
    gpushare_sums_add(&sums, 40960,
                      &(struct device_fractional){.max_shares = 10,
                                                  .memory_percent = 150,
                                                  .compute_percent = 100});
    gpushare_sums_offer(&sums, &list, &n);
    cr_assert_eq(n, 2);
    cr_expect_str_eq(list[0].name, GPUSHARE_COUNT);
    cr_expect_eq(list[0].count, 2);
    cr_expect_str_eq(list[1].name, GPUSHARE_MEMORY);
    cr_expect_eq(list[1].count, 79 + 60);
    for (size_t i = 0; i < n; i++) {
        cr_expect(gpushare_is_resource(list[i].name));
        free(list[i].name);
    }
    free(list);
}

Test(gpushare, without_such_a_card_there_are_no_numbers)
{
    const struct gpushare_sums sums = {0};
    struct device_resource *list = NULL;
    size_t n = 0;
    gpushare_sums_offer(&sums, &list, &n);
    cr_expect_eq(n, 0);
}
