/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/sb.h"

#include "nodeagent/gpu/gpu.h"

/* Adds how the inventory's cards are joined as a table with its legend, in the words that people
 * know from `nvidia-smi topo -m`: NV# for active NVLinks, else PIX, PXB, PHB, NODE or SYS for the
 * way over PCIe, "?" where it is not known. Pure. */
void topology_table_add(struct sb *out, const struct gpu_inventory *inv);
