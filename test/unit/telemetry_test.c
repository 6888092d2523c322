/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "nodeagent/gpu/telemetry.h"

enum { LISTED = TELEMETRY_MAX_PROCESSES + 44 };

static struct telemetry_card card;
static struct telemetry_process list[LISTED];

static struct telemetry_process process(unsigned pid, int gi_id)
{
    return (struct telemetry_process){.pid = pid, .gi_id = gi_id};
}

Test(telemetry, processes_come_by_pid_and_part)
{
    list[0] = process(7, 2);
    list[1] = process(9, -1);
    list[2] = process(7, 1);
    telemetry_take_processes(&card, list, 3);
    cr_assert_eq(card.n_processes, 3);
    cr_expect_eq(card.n_left_out, 0);
    cr_expect(card.processes[0].pid == 7 && card.processes[0].gi_id == 1);
    cr_expect(card.processes[1].pid == 7 && card.processes[1].gi_id == 2);
    cr_expect_eq(card.processes[2].pid, 9);
}

Test(telemetry, the_same_processes_are_left_out_in_whatever_order_they_are_listed)
{
    for (int turn = 0; turn < 2; turn++) {
        for (unsigned i = 0; i < LISTED; i++)
            list[i] = process(turn ? i + 1 : LISTED - i, -1);
        telemetry_take_processes(&card, list, LISTED);
        cr_assert_eq(card.n_processes, TELEMETRY_MAX_PROCESSES);
        cr_expect_eq(card.n_left_out, 44);
        cr_expect_eq(card.processes[0].pid, 1);
        cr_expect_eq(card.processes[TELEMETRY_MAX_PROCESSES - 1].pid, TELEMETRY_MAX_PROCESSES);
    }
}

Test(telemetry, a_card_without_processes_has_none)
{
    telemetry_take_processes(&card, /* list= */ NULL, 0);
    cr_expect(card.n_processes == 0 && card.n_left_out == 0);
}
