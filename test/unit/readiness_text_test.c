/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "nodeagent/commands/readiness_text.h"
#include "nodeagent/report/node_readiness.h"
#include "service/conditions.h"

Test(readiness_text, each_condition_of_an_installer_has_its_status_reason_and_message)
{
    auto_conditions struct conditions c = {0};
    auto_sb struct sb out = SB_INIT(4096);
    (void)condition_set(&c, "RebootRequired", CONDITION_UNKNOWN, "NotRead", "no cards", 0, 0);
    (void)condition_set(&c, "Ready", CONDITION_TRUE, "Applied", "nothing is wanted", 0, 0);
    (void)condition_set(&c, "DriverReady", CONDITION_FALSE, "LibraryNotFound", "load it", 0, 0);
    (void)condition_set(&c, "PersistenceMode", CONDITION_TRUE, "Enabled", "it is on", 0, 0);
    readiness_text_add(&out, &c);
    cr_expect_str_eq(sb_str(&out), "DriverReady            False    LibraryNotFound\n"
                                   "    load it\n"
                                   "PersistenceMode        True     Enabled\n"
                                   "    it is on\n"
                                   "RebootRequired         Unknown  NotRead\n"
                                   "    no cards\n");
}

Test(readiness_text, nothing_is_asked_where_there_is_no_card)
{
    auto_conditions struct conditions c = {0};
    auto_sb struct sb out = SB_INIT(4096);
    (void)condition_set(&c, "Ready", CONDITION_TRUE, "NoCards", "no card is here", 0, 0);
    readiness_text_add(&out, &c);
    cr_expect_str_empty(sb_str(&out));
}
