/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/report/label_list.h"
#include "nodeagent/report/label_pool.h"

/* The labels of gpu-label, which MetaX's operator runs (developer.metax-tech.com). Pure. */

/* Adds the labels of the vendor's cards. driver: theirs, with "" for what it does not report. cards
 * are not empty. */
void metax_labels_add(struct label_list *l, const struct gpu_labels_input *in,
                      const struct gpu_driver *driver, const struct label_pool *cards);
