/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes that textures and surfaces may have, as the documentation of compute capabilities 7.5 to
 * 12.0 has them. */
#pragma once

#define TEXTURE_1D_WIDTH              131072
#define TEXTURE_1D_LAYERED_WIDTH      32768
#define TEXTURE_1D_LINEAR_WIDTH       268435456
#define TEXTURE_1D_MIPMAPPED_WIDTH    32768
#define TEXTURE_2D_WIDTH              131072
#define TEXTURE_2D_HEIGHT             65536
#define TEXTURE_2D_GATHER_WIDTH       32768
#define TEXTURE_2D_GATHER_HEIGHT      32768
#define TEXTURE_2D_LINEAR_WIDTH       131072
#define TEXTURE_2D_LINEAR_HEIGHT      65000
#define TEXTURE_2D_LINEAR_PITCH       2097120
#define TEXTURE_2D_MIPMAPPED_WIDTH    32768
#define TEXTURE_2D_MIPMAPPED_HEIGHT   32768
#define TEXTURE_2D_LAYERED_WIDTH      32768
#define TEXTURE_2D_LAYERED_HEIGHT     32768
#define TEXTURE_3D_WIDTH              16384
#define TEXTURE_3D_HEIGHT             16384
#define TEXTURE_3D_DEPTH              16384
#define TEXTURE_3D_WIDTH_ALTERNATE    8192
#define TEXTURE_3D_HEIGHT_ALTERNATE   8192
#define TEXTURE_3D_DEPTH_ALTERNATE    32768
#define TEXTURE_CUBEMAP_WIDTH         32768
#define TEXTURE_CUBEMAP_LAYERED_WIDTH 32768
#define TEXTURE_CUBEMAP_LAYERS        2046
#define TEXTURE_LAYERS                2048

#define SURFACE_1D_WIDTH              32768
#define SURFACE_1D_LAYERED_WIDTH      32768
#define SURFACE_2D_WIDTH              131072
#define SURFACE_2D_HEIGHT             65536
#define SURFACE_2D_LAYERED_WIDTH      32768
#define SURFACE_2D_LAYERED_HEIGHT     32768
#define SURFACE_3D_WIDTH              16384
#define SURFACE_3D_HEIGHT             16384
#define SURFACE_3D_DEPTH              16384
#define SURFACE_CUBEMAP_WIDTH         32768
#define SURFACE_CUBEMAP_LAYERED_WIDTH 32768
#define SURFACE_CUBEMAP_LAYERS        2046
#define SURFACE_LAYERS                2048
