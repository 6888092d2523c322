/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "limiter/array_size.h"

/* CUarray_format, and the flags of CUDA_ARRAY3D_DESCRIPTOR, by NVIDIA's cuda.h. */
enum { UINT8 = 0x01, UINT16 = 0x02, UINT32 = 0x03, INT8 = 0x08, INT16 = 0x09, HALF = 0x10 };
enum { FLOAT = 0x20, NV12 = 0xb0 };
enum { LAYERED = 0x01, CUBEMAP = 0x04, SPARSE = 0x40, DEFERRED = 0x80 };

static struct array3d_descriptor shape(size_t width, size_t height, size_t depth)
{
    return (struct array3d_descriptor){.width = width,
                                       .height = height,
                                       .depth = depth,
                                       .format = UINT8,
                                       .channels = 1};
}

static uint64_t size_of(struct array3d_descriptor d)
{
    return array_bytes(&d, 1);
}

static uint64_t levels_of(struct array3d_descriptor d, unsigned int flags, unsigned int levels)
{
    d.flags = flags;
    return array_bytes(&d, levels);
}

Test(array_size, it_is_what_the_sides_make)
{
    cr_expect_eq(size_of(shape(100, 20, 3)), 6000);
}

Test(array_size, a_side_of_0_is_a_dimension_that_it_has_not)
{
    cr_expect_eq(size_of(shape(100, 20, 0)), 2000);
    cr_expect_eq(size_of(shape(100, 0, 0)), 100);
}

Test(array_size, each_channel_has_the_bytes_of_its_format)
{
    static const struct {
        int format;
        uint64_t bytes;
    } formats[] = {{UINT8, 1}, {INT8, 1},   {UINT16, 2}, {INT16, 2},
                   {HALF, 2},  {UINT32, 4}, {FLOAT, 4}};
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        struct array3d_descriptor d = shape(10, 10, 0);
        d.format = formats[i].format;
        cr_expect_eq(size_of(d), 100 * formats[i].bytes, "format %#x", d.format);
        d.channels = 4;
        cr_expect_eq(size_of(d), 400 * formats[i].bytes, "format %#x", d.format);
    }
}

Test(array_size, a_format_that_is_not_known_counts_as_the_widest)
{
    struct array3d_descriptor d = shape(10, 10, 0);
    d.format = NV12;
    cr_expect_eq(size_of(d), 400);
}

Test(array_size, each_level_has_half_the_sides_of_the_one_before)
{
    cr_expect_eq(levels_of(shape(8, 4, 2), 0, 2), 64 + 8);
    cr_expect_eq(levels_of(shape(8, 4, 0), 0, 4), 32 + 8 + 2 + 1);
}

Test(array_size, no_side_gets_shorter_than_1)
{
    cr_expect_eq(levels_of(shape(4, 1, 0), 0, 5), 4 + 2 + 1 + 1 + 1);
}

Test(array_size, layers_and_faces_of_a_cube_stay_as_many)
{
    cr_expect_eq(levels_of(shape(8, 8, 6), LAYERED, 2), 384 + 96);
    cr_expect_eq(levels_of(shape(8, 8, 6), CUBEMAP, 2), 384 + 96);
    cr_expect_eq(levels_of(shape(8, 8, 6), 0, 2), 384 + 48);
}

Test(array_size, what_is_mapped_later_takes_nothing)
{
    cr_expect_eq(levels_of(shape(8, 8, 0), SPARSE, 1), 0);
    cr_expect_eq(levels_of(shape(8, 8, 0), DEFERRED, 1), 0);
    cr_expect_eq(levels_of(shape(8, 8, 0), SPARSE | LAYERED, 3), 0);
}

Test(array_size, what_is_too_much_for_any_card_is_not_little)
{
    cr_expect_eq(size_of(shape(SIZE_MAX, SIZE_MAX, SIZE_MAX)), UINT64_MAX);
    cr_expect_eq(size_of(shape(SIZE_MAX, 2, 0)), UINT64_MAX);
    cr_expect_eq(levels_of(shape(SIZE_MAX, 0, 0), 0, 2), UINT64_MAX);
}

Test(array_size, levels_end_where_nothing_more_can_be_halved)
{
    cr_expect_lt(levels_of(shape(1, 1, 0), 0, UINT32_MAX), 1000);
}
