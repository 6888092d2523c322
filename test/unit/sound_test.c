/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "nodeagent/gpu/sound.h"

Test(sound, names_of_cards_are_those_that_name_files_and_devices)
{
    cr_expect(sound_is_name("GPU-5c8ddc0b-1d0c-4f2c-8f5a-000000000000"));
    cr_expect(sound_is_name("a_b.c:d"));
    static const char *const bad[] = {"", "-a", "a b", "a/b", "../a", "a\n", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_expect_not(sound_is_name(bad[i]), "\"%s\"", bad[i]);
}

/* Else "GPU-a::0" would be a card and the first replica of the card "GPU-a". */
Test(sound, no_name_is_that_of_a_replica)
{
    cr_expect_not(sound_is_name("GPU-a::0"));
    cr_expect_not(sound_is_part_name("MIG-a::0"));
}

Test(sound, names_of_parts_may_be_paths_that_lead_nowhere_else)
{
    cr_expect(sound_is_part_name("MIG-GPU-5c8ddc0b/1/0"));
    cr_expect_not(sound_is_part_name("MIG-GPU/../0"));
    cr_expect_not(sound_is_part_name("/MIG"));
}

Test(sound, an_address_on_the_bus_has_its_shape)
{
    cr_expect(sound_is_bus_id("00000000:17:00.0"));
    cr_expect(sound_is_bus_id("0000:aF:1f.7"));
    cr_expect_not(sound_is_bus_id("0000:17:00"));
    cr_expect_not(sound_is_bus_id("0000:17:00.0/.."));
    cr_expect_not(sound_is_bus_id("000000000:17:00.0"));
}

Test(sound, texts_for_people_are_printable_and_end)
{
    char text[6] = {'a', '\n', '\xff', 'b', 'c', 'd'};
    sound_text(text, sizeof(text));
    cr_expect_str_eq(text, "a??bc");
}
