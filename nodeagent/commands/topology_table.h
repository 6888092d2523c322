/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/sb.h"

#include "nodeagent/gpu/gpu.h"

/* Adds a table of the connections between the inventory's cards, with its legend, in the words of
 * `nvidia-smi topo -m`: NV# for active NVLinks, else PIX, PXB, PHB, NODE or SYS for the path over
 * PCIe, "?" where it is not known. Pure. */
void topology_table_add(struct sb *out, const struct gpu_inventory *inv);
