/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/telemetry/counter_file.h"

static void read_text(const char *text, struct counter_list *ret)
{
    auto_err struct err e = {0};
    cr_assert_eq(counter_list_parse(text, strlen(text), ret, &e), 0, "%s: %s", text, err_msg(&e));
}

static void expect_refused(const char *text, const char *why)
{
    auto_counter_list struct counter_list l = {0};
    auto_err struct err e = {0};
    cr_assert_lt(counter_list_parse(text, strlen(text), &l, &e), 0, "%s", text);
    cr_expect(strstr(err_msg(&e), why), "%s: %s", text, err_msg(&e));
    cr_expect_eq(l.n, 0);
}

/* One counter, with this help. */
static void expect_help(const char *text, const char *help)
{
    auto_counter_list struct counter_list l = {0};
    read_text(text, &l);
    cr_assert_eq(l.n, 1, "%s: %zu", text, l.n);
    cr_expect_str_eq(l.items[0].help, help);
}

Test(counter_file, a_file_as_people_have_it)
{
    auto_counter_list struct counter_list l = {0};
    read_text("# Format\n"
              "\n"
              "DCGM_FI_DEV_SM_CLOCK,  gauge, Clock (in MHz).\r\n"
              "  # indented\n"
              "DCGM_FI_DEV_DEC_UTIL ,     gauge, Decoder.\n"
              "DCGM_FI_DEV_PCIE_REPLAY_COUNTER,counter,Retries\n"
              "DCGM_FI_DRIVER_VERSION, label, Driver",
              &l);
    cr_assert_eq(l.n, 3);
    cr_expect_str_eq(l.items[0].field->name, "DCGM_FI_DEV_SM_CLOCK");
    cr_expect_str_eq(l.items[0].help, "Clock (in MHz).");
    cr_expect_not(l.items[0].is_counter);
    cr_expect_str_eq(l.items[1].field->name, "DCGM_FI_DEV_DEC_UTIL");
    cr_expect(l.items[2].is_counter);
    cr_expect(l.has_driver_version);
    cr_expect_eq(l.n_notices, 0);
}

Test(counter_file, the_built_in_list_is_dcgm_exporters_default_with_all_of_profiling)
{
    static const char *const some[] = {
        "DCGM_FI_DEV_GPU_UTIL",          "DCGM_FI_DEV_FB_USED",
        "DCGM_FI_DEV_POWER_USAGE",       "DCGM_FI_DEV_ROW_REMAP_FAILURE",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_OCCUPANCY",
    };
    auto_counter_list struct counter_list l = {0};
    counter_list_default(&l);
    cr_expect(l.has_driver_version);
    for (size_t k = 0; k < ARRAY_LEN(some); k++) {
        bool found = false;
        for (size_t i = 0; i < l.n; i++)
            found |= strcmp(l.items[i].field->name, some[k]) == 0;
        cr_expect(found, "%s", some[k]);
    }
}

Test(counter_file, each_value_that_is_measured_has_a_field)
{
    uint64_t shown = 0;
    for (size_t i = 0; i < dcgm_n_fields; i++)
        shown |= TELEMETRY_BIT(dcgm_fields[i].value);
    cr_expect_eq(shown, TELEMETRY_BIT(TELEMETRY_VALUES) - 1);
}

Test(counter_file, a_list_says_which_values_it_shows)
{
    auto_counter_list struct counter_list l = {0};
    read_text("DCGM_FI_DEV_PCIE_TX_THROUGHPUT, gauge, a\nDCGM_FI_DEV_GPU_TEMP, gauge, b\n", &l);
    cr_expect_eq(counter_list_values(&l),
                 TELEMETRY_BIT(TELEMETRY_PCIE_TX) | TELEMETRY_BIT(TELEMETRY_TEMPERATURE));
}

Test(counter_file, what_is_not_measured_is_told_once_and_passed_over)
{
    auto_counter_list struct counter_list l = {0};
    read_text("DCGM_EXP_XID_ERRORS_COUNT, counter, Xids\n"
              "DCGM_FI_DEV_GPU_UTIL, gauge, Use\n"
              "DCGM_FI_DEV_SERIAL, label, Serial\n"
              "DCGM_FI_DEV_GPU_UTIL, gauge, Use again\n",
              &l);
    cr_assert_eq(l.n, 1);
    cr_expect_str_eq(l.items[0].help, "Use");
    cr_assert_eq(l.n_notices, 3);
    cr_expect_eq(l.notices[0].line, 1);
    cr_expect_str_eq(l.notices[0].name, "DCGM_EXP_XID_ERRORS_COUNT");
    cr_expect(strstr(l.notices[0].why, "not measured"));
    cr_expect_eq(l.notices[1].line, 3);
    cr_expect(strstr(l.notices[1].why, "label"));
    cr_expect_eq(l.notices[2].line, 4);
    cr_expect(strstr(l.notices[2].why, "before"));
}

Test(counter_file, texts_in_quotes_have_commas_and_quotes)
{
    expect_help("DCGM_FI_DEV_GPU_TEMP, gauge, \"Heat, in C\"", "Heat, in C");
    expect_help("\"DCGM_FI_DEV_GPU_TEMP\",\"gauge\",\"a \"\"b\"\"\" ", "a \"b\"");
    expect_help("DCGM_FI_DEV_GPU_TEMP, gauge,", "");
}

Test(counter_file, text_that_is_not_utf8_is_replaced)
{
    expect_help("DCGM_FI_DEV_GPU_TEMP, gauge, a\xff", "a\xef\xbf\xbd");
}

Test(counter_file, errors_name_the_line)
{
    expect_refused("\n# c\nDCGM_FI_DEV_GPU_TEMP, gauge", "line 3: it takes three fields");
    expect_refused("DCGM_FI_DEV_GPU_TEMP, gauge, a, b", "line 1: it takes three fields");
    expect_refused("\nDCGM_FI_DEV_GPU_TEMP, histogram, a", "line 2: the type must be gauge");
    expect_refused(", gauge, a", "line 1: the name of a field is missing");
    expect_refused("DCGM_FI_DEV_GPU_TEMP, gauge, \"a", "line 1: a quote is not closed");
    expect_refused("DCGM_FI_DEV_GPU_TEMP, gauge, \"a\" b", "line 1: text after a closed quote");
}

Test(counter_file, a_nul_byte_is_refused)
{
    static const char text[] = "DCGM_FI_DEV_GPU_TEMP, gauge, a\0b";
    auto_counter_list struct counter_list l = {0};
    auto_err struct err e = {0};
    cr_assert_lt(counter_list_parse(text, sizeof(text) - 1, &l, &e), 0);
    cr_expect(strstr(err_msg(&e), "line 1: a NUL byte"));
}

Test(counter_file, size_line_and_number_are_bounded)
{
    auto_sb struct sb b = SB_INIT(2 * (size_t)COUNTER_FILE_MAX_BYTES);
    for (int i = 0; i < COUNTER_FILE_MAX + 1; i++)
        sb_addf(&b, "UNKNOWN_%d, gauge, a\n", i);
    expect_refused(sb_str(&b), "line 513: more than 512 counters");
    sb_reset(&b);
    sb_add(&b, "DCGM_FI_DEV_GPU_TEMP, gauge, ");
    for (int i = 0; i < COUNTER_FILE_MAX_LINE; i++)
        sb_add_char(&b, 'a');
    expect_refused(sb_str(&b), "line 1: longer than 4096 bytes");
    sb_reset(&b);
    for (int i = 0; i < COUNTER_FILE_MAX_BYTES + 1; i++)
        sb_add_char(&b, '\n');
    expect_refused(sb_str(&b), "longer than 262144 bytes");
}

Test(counter_file, a_missing_file_is_named)
{
    auto_counter_list struct counter_list l = {0};
    auto_err struct err e = {0};
    cr_assert_lt(counter_list_load("/nowhere/counters.csv", &l, &e), 0);
    cr_expect_eq(e.kind, ERR_NOT_FOUND);
    cr_expect(strstr(err_msg(&e), "/nowhere/counters.csv"));
}
