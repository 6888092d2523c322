/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/sb.h"

#include "nodeagent/telemetry/counter_file.h"
#include "nodeagent/telemetry/dcgm_page.h"

/*
 * Input: a file of counters. What is read are known fields, each once; an error says what is wrong;
 * and a page of these counters has whole lines only, whatever the texts say.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_list(const struct counter_list *l)
{
    assert(l->n + l->n_notices <= COUNTER_FILE_MAX);
    for (size_t i = 0; i < l->n; i++) {
        assert(l->items[i].field == dcgm_field_find(l->items[i].field->name));
        for (size_t k = 0; k < i; k++)
            assert(l->items[k].field != l->items[i].field);
    }
    for (size_t i = 0; i < l->n_notices; i++)
        assert(l->notices[i].line > 0 && *l->notices[i].name && *l->notices[i].why);
}

static void check_line(const char *line)
{
    static const char *const starts[] = {"# HELP DCGM_FI_", "# TYPE DCGM_FI_", "DCGM_FI_"};
    bool known = false;
    for (size_t i = 0; i < ARRAY_LEN(starts); i++)
        known |= strncmp(line, starts[i], strlen(starts[i])) == 0;
    assert(known);
    (void)known;
}

static void check_page(const struct counter_list *l)
{
    static struct telemetry_card card;
    static struct telemetry_place place = {.gi_id = -1};
    static struct telemetry_node_card of = {.vendor = "nvidia",
                                            .places = &place,
                                            .n_places = 1,
                                            .uuid = "GPU-0"};
    static const struct telemetry_node node = {.cards = &of, .n = 1};
    const struct attribution_reading reading = {.card = &card};
    const struct dcgm_page p = {.node = &node, .readings = &reading, .counters = l, .host = "n1"};
    auto_sb struct sb out = SB_INIT(16 << 20);
    dcgm_page_write(&p, &out);
    assert(!out.overflow);
    const char *end;
    for (const char *line = sb_str(&out); *line; line = end + 1) {
        end = strchr(line, '\n');
        assert(end);
        check_line(line);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    auto_counter_list struct counter_list l = {0};
    auto_err struct err e = {0};
    int rc = counter_list_parse((const char *)data, len, &l, &e);
    assert((rc < 0) == (e.msg != NULL));
    if (rc < 0)
        return 0;
    check_list(&l);
    check_page(&l);
    return 0;
}
