/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda_shape.h"

#include <stdbool.h>

#include "sim/cuda_texture.h"

#define FLAGS 0x1FFU

/* --- Formats --- */

struct format {
    int first, last;
    unsigned int channel_bytes; /* of formats with any number of channels ... */
    unsigned int channels;      /* ... or this one alone, ... */
    unsigned int block_bytes;   /* ... and then the bytes of a block of ... */
    unsigned int block_side;    /* ... so many elements each way */
};

static const struct format formats[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0, 0, 1},
    {CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_UNSIGNED_INT16, 2, 0, 0, 1},
    {CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_UNSIGNED_INT32, 4, 0, 0, 1},
    {CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_SIGNED_INT8, 1, 0, 0, 1},
    {CU_AD_FORMAT_SIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16, 2, 0, 0, 1},
    {CU_AD_FORMAT_SIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32, 4, 0, 0, 1},
    {CU_AD_FORMAT_HALF, CU_AD_FORMAT_HALF, 2, 0, 0, 1},
    {CU_AD_FORMAT_FLOAT, CU_AD_FORMAT_FLOAT, 4, 0, 0, 1},
    {CU_AD_FORMAT_UNORM_INT_101010_2, CU_AD_FORMAT_UNORM_INT_101010_2, 0, 4, 4, 1},
    {0x91, 0x92, 0, 4, 8, 4},  /* BC1 */
    {0x93, 0x96, 0, 4, 16, 4}, /* BC2, BC3 */
    {0x97, 0x98, 0, 1, 8, 4},  /* BC4 */
    {0x99, 0x9a, 0, 2, 16, 4}, /* BC5 */
    {0x9b, 0x9c, 0, 3, 16, 4}, /* BC6H */
    {0x9d, 0x9e, 0, 4, 16, 4}, /* BC7 */
    {0xc0, 0xc0, 0, 1, 1, 1},  /* normalised: 8 bits, ... */
    {0xc1, 0xc1, 0, 2, 2, 1},
    {0xc2, 0xc2, 0, 4, 4, 1},
    {0xc3, 0xc3, 0, 1, 2, 1}, /* ... 16 bits, ... */
    {0xc4, 0xc4, 0, 2, 4, 1},
    {0xc5, 0xc5, 0, 4, 8, 1},
    {0xc6, 0xc6, 0, 1, 1, 1}, /* ... and the same with a sign */
    {0xc7, 0xc7, 0, 2, 2, 1},
    {0xc8, 0xc8, 0, 4, 4, 1},
    {0xc9, 0xc9, 0, 1, 2, 1},
    {0xca, 0xca, 0, 2, 4, 1},
    {0xcb, 0xcb, 0, 4, 8, 1},
};

static const struct format *find_format(int format)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (format >= formats[i].first && format <= formats[i].last)
            return &formats[i];
    }
    return NULL;
}

static bool is_video(int format)
{
    return format >= CU_AD_FORMAT_P010 && format <= CU_AD_FORMAT_YUV444_16BIT_SEMIPLANAR;
}

static bool has_channels(const struct format *f, unsigned int channels)
{
    if (f->channels > 0)
        return channels == f->channels;
    return channels == 1 || channels == 2 || channels == 4;
}

/* --- Extents --- */

struct extent {
    size_t width, height, depth; /* 0: must be 0 */
};

static bool is_within(const CUDA_ARRAY3D_DESCRIPTOR *d, const struct extent *most)
{
    bool fits = d->Width > 0 && d->Width <= most->width;
    fits =
        fits && (most->height == 0 ? d->Height == 0 : d->Height > 0 && d->Height <= most->height);
    return fits && (most->depth == 0 ? d->Depth == 0 : d->Depth > 0 && d->Depth <= most->depth);
}

/* Layers and cubes may be as large for surfaces as for textures. */
_Static_assert(SURFACE_1D_LAYERED_WIDTH == TEXTURE_1D_LAYERED_WIDTH &&
                   SURFACE_2D_LAYERED_WIDTH == TEXTURE_2D_LAYERED_WIDTH &&
                   SURFACE_2D_LAYERED_HEIGHT == TEXTURE_2D_LAYERED_HEIGHT &&
                   SURFACE_LAYERS == TEXTURE_LAYERS &&
                   SURFACE_CUBEMAP_WIDTH == TEXTURE_CUBEMAP_WIDTH &&
                   SURFACE_CUBEMAP_LAYERED_WIDTH == TEXTURE_CUBEMAP_LAYERED_WIDTH &&
                   SURFACE_CUBEMAP_LAYERS == TEXTURE_CUBEMAP_LAYERS,
               "one check is for both");

static bool is_cubemap(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    static const struct extent one = {TEXTURE_CUBEMAP_WIDTH, TEXTURE_CUBEMAP_WIDTH, 6};
    static const struct extent layered = {TEXTURE_CUBEMAP_LAYERED_WIDTH,
                                          TEXTURE_CUBEMAP_LAYERED_WIDTH, TEXTURE_CUBEMAP_LAYERS};
    const struct extent *most = (d->Flags & CUDA_ARRAY3D_LAYERED) != 0 ? &layered : &one;
    return is_within(d, most) && d->Width == d->Height && d->Depth % 6 == 0;
}

static bool is_layered(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    static const struct extent lines = {TEXTURE_1D_LAYERED_WIDTH, 0, TEXTURE_LAYERS};
    static const struct extent planes = {TEXTURE_2D_LAYERED_WIDTH, TEXTURE_2D_LAYERED_HEIGHT,
                                         TEXTURE_LAYERS};
    return is_within(d, &lines) || is_within(d, &planes);
}

static bool is_surface(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    static const struct extent most[] = {
        {SURFACE_1D_WIDTH, 0, 0},
        {SURFACE_2D_WIDTH, SURFACE_2D_HEIGHT, 0},
        {SURFACE_3D_WIDTH, SURFACE_3D_HEIGHT, SURFACE_3D_DEPTH},
    };
    return is_within(d, &most[0]) || is_within(d, &most[1]) || is_within(d, &most[2]);
}

static bool is_texture(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    static const struct extent most[] = {
        {TEXTURE_1D_WIDTH, 0, 0},
        {TEXTURE_2D_WIDTH, TEXTURE_2D_HEIGHT, 0},
        {TEXTURE_3D_WIDTH, TEXTURE_3D_HEIGHT, TEXTURE_3D_DEPTH},
        {TEXTURE_3D_WIDTH_ALTERNATE, TEXTURE_3D_HEIGHT_ALTERNATE, TEXTURE_3D_DEPTH_ALTERNATE},
    };
    bool found = false;
    for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++)
        found = found || is_within(d, &most[i]);
    return found;
}

static bool has_extent(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    static const struct extent gathered = {TEXTURE_2D_GATHER_WIDTH, TEXTURE_2D_GATHER_HEIGHT, 0};
    bool surface = (d->Flags & CUDA_ARRAY3D_SURFACE_LDST) != 0;
    if ((d->Flags & CUDA_ARRAY3D_TEXTURE_GATHER) != 0 && !is_within(d, &gathered))
        return false;
    if ((d->Flags & CUDA_ARRAY3D_CUBEMAP) != 0)
        return is_cubemap(d);
    if ((d->Flags & CUDA_ARRAY3D_LAYERED) != 0)
        return is_layered(d);
    return surface ? is_surface(d) : is_texture(d);
}

/* --- Sizes: no product is beyond 2^53, as the extents are within their limits --- */

static size_t in_blocks(size_t elements, const struct format *f)
{
    return (elements + f->block_side - 1) / f->block_side;
}

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static void measure(const CUDA_ARRAY3D_DESCRIPTOR *d, const struct format *f, struct shape *ret)
{
    struct shape s = {.element_bytes =
                          f->channels > 0 ? f->block_bytes : f->channel_bytes * d->NumChannels};
    s.row_bytes = in_blocks(d->Width, f) * s.element_bytes;
    s.rows = d->Height > 0 ? in_blocks(d->Height, f) : 1;
    s.planes = d->Depth > 0 ? d->Depth : 1;
    s.pitch = round_up(s.row_bytes, SHAPE_ROW_ALIGNMENT);
    s.plane_bytes = s.pitch * (s.rows > 1 ? round_up(s.rows, SHAPE_PLANE_ALIGNMENT) : 1);
    s.bytes = s.plane_bytes * s.planes;
    *ret = s;
}

CUresult shape_of(const CUDA_ARRAY3D_DESCRIPTOR *d, struct shape *ret)
{
    const struct format *f = find_format(d->Format);
    if (is_video(d->Format) || (d->Flags & CUDA_ARRAY3D_VIDEO_ENCODE_DECODE) != 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (f == NULL || !has_channels(f, d->NumChannels) || (d->Flags & ~FLAGS) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!has_extent(d))
        return CUDA_ERROR_INVALID_VALUE;
    measure(d, f, ret);
    return CUDA_SUCCESS;
}

/* --- Levels --- */

static bool has_layers(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    return (d->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
}

static size_t half(size_t n)
{
    return n > 1 ? n / 2 : n;
}

CUDA_ARRAY3D_DESCRIPTOR shape_next_level(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    CUDA_ARRAY3D_DESCRIPTOR next = *d;
    next.Width = half(d->Width);
    next.Height = half(d->Height);
    next.Depth = has_layers(d) ? d->Depth : half(d->Depth);
    return next;
}

unsigned int shape_max_levels(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    size_t most = d->Width > d->Height ? d->Width : d->Height;
    if (!has_layers(d) && d->Depth > most)
        most = d->Depth;
    unsigned int levels = 1;
    while (most > 1) {
        most /= 2;
        levels++;
    }
    return levels;
}
