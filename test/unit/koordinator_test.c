/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <regex.h>
#include <string.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "api/koordinator.h"

static bool is_legal(const char *reason)
{
    regex_t pattern;
    cr_assert_eq(regcomp(&pattern, "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                         REG_EXTENDED | REG_NOSUB),
                 0);
    bool legal = regexec(&pattern, reason, 0, NULL, 0) == 0;
    regfree(&pattern);
    return legal && strlen(reason) <= KOORDINATOR_REASON_MAX;
}

Test(koordinator, a_reason_keeps_to_the_schema_of_koordinators_device)
{
    static const char *const table[][2] = {
        {"UncorrectableECC", "UncorrectableECC"},
        {"ECC error", "ECCError"},
        {"chip error", "chipError"},
        {"-8001", "Error8001"},
        {"Xid:79", "Xid:79"},
        {"  lost, ", "lost"},
        {"_x", "x"},
        {"A", "A"},
        {"\xc3\xa4", "Unknown"},
        {"", "Unknown"},
        {NULL, "Unknown"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        auto_free char *reason = koordinator_reason(table[i][0]);
        cr_expect_str_eq(reason, table[i][1]);
        cr_expect(is_legal(reason), "%s", reason);
    }
}

Test(koordinator, a_reason_has_a_bound)
{
    char text[3 * KOORDINATOR_REASON_MAX];
    memset(text, '7', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    auto_free char *reason = koordinator_reason(text);
    cr_expect(is_legal(reason), "%zu bytes", strlen(reason));
    cr_expect_eq(strlen(reason), KOORDINATOR_REASON_MAX);
}

Test(koordinator, what_is_decoded_encodes_to_the_same)
{
    auto_json json_t *device =
        json_pack("{s:{s:[{s:s, s:s, s:i, s:i, s:b, s:{s:s}, s:{s:i, s:i, s:s, s:s},"
                  " s:[{s:{s:s}, s:[{s:i, s:s}]}]}]}}",
                  "spec", "devices", "type", "gpu", "id", "x", "minor", 0, "moduleID", 3, "health",
                  false, "resources", KOORDINATOR_CORE, "100", "topology", "socketID", -1, "nodeID",
                  -1, "pcieID", "pci0000:3a", "busID", "0000:38:00.0", "vfGroups", "labels", "a",
                  "b", "vfs", "minor", -1, "busID", "0000:38:00.1");
    auto_koordinator_spec struct koordinator_spec spec = {0};
    cr_assert_eq(koordinator_spec_decode(device, &spec, NULL), 0);
    auto_json json_t *again = koordinator_spec_encode(&spec);
    cr_expect(json_equal(again, json_object_get(device, "spec")));
}
