/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/report/label_list.h"
#include "nodeagent/report/label_pool.h"

/*
 * The labels of NVIDIA's GPU feature discovery (k8s-device-plugin internal/lm and
 * tests/expected-output*.txt), name for name and value for value. Pure.
 */

/* Adds the labels of the vendor's cards. driver: theirs, with "" for what it does not report. cards
 * are not empty. */
void nvidia_labels_add(struct label_list *l, const struct gpu_labels_input *in,
                       const struct gpu_driver *driver, const struct label_pool *cards);
