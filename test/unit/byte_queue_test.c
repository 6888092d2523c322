/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "nodeagent/kubelet/byte_queue.h"

Test(byte_queue, gives_what_it_took_in_order)
{
    struct byte_queue q = {0};
    cr_expect_not_null(byte_queue_peek(&q));
    unsigned in = 0;
    unsigned out = 0;
    for (size_t round = 1; round < 400; round++) {
        uint8_t bytes[400];
        for (size_t i = 0; i < round; i++)
            bytes[i] = (uint8_t)in++;
        byte_queue_add(&q, bytes, round);
        for (size_t i = 0; i < round * 2 / 3; i++) {
            cr_assert_eq(*byte_queue_peek(&q), (uint8_t)out);
            byte_queue_skip(&q, 1);
            out++;
        }
        cr_assert_eq(byte_queue_len(&q), in - out);
    }
    byte_queue_done(&q);
}

Test(byte_queue, does_not_grow_while_it_is_emptied)
{
    struct byte_queue q = {0};
    uint8_t bytes[1000] = {0};
    byte_queue_add(&q, bytes, sizeof(bytes));
    for (int i = 0; i < 10000; i++) {
        byte_queue_add(&q, bytes, sizeof(bytes));
        byte_queue_skip(&q, sizeof(bytes));
    }
    cr_expect_lt(q.room, 10 * sizeof(bytes));
    byte_queue_done(&q);
}

Test(byte_queue, gives_back_the_memory_of_a_long_message)
{
    static uint8_t bytes[1 << 20];
    struct byte_queue q = {0};
    byte_queue_add(&q, bytes, sizeof(bytes));
    byte_queue_skip(&q, sizeof(bytes));
    cr_expect_eq(q.room, 0);
    byte_queue_done(&q);
}
