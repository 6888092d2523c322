/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/yaml.h"

#include "nodeagent/report/last_status.h"

#define CARD(more) "{devices: [{uuid: GPU-1, vendor: nvidia, mode: mig" more "}]}"

static size_t cards_of(const char *status)
{
    auto_json json_t *json = NULL;
    auto_device_status struct device_status got = {0};
    cr_assert_eq(yaml_load(status, strlen(status), &json, NULL), 0, "%s", status);
    bool read = last_status_read(json, &got);
    cr_expect(read || (got.n_devices == 0 && !got.devices), "it is empty: %s", status);
    return read ? got.n_devices : 0;
}

Test(last_status, what_an_agent_writes_is_taken)
{
    cr_expect_eq(cards_of(CARD("")), 1);
    cr_expect_eq(cards_of(CARD(", inUseBy: [{namespace: a, name: b, container: c}]")), 1);
    cr_expect_eq(cards_of(CARD(", inUseBy: [{pid: 9, process: x}, {uid: u}]")), 1);
    cr_expect_eq(cards_of(CARD(", partitions: [{uuid: M, profile: 1g.10gb}]")), 1);
}

Test(last_status, what_none_writes_is_refused_whole)
{
    cr_expect_eq(cards_of(CARD(", inUseBy: [{name: b}]")), 0, "a pod in no namespace");
    cr_expect_eq(cards_of(CARD(", inUseBy: [{namespace: a}]")), 0);
    cr_expect_eq(cards_of(CARD(", partitions: [{uuid: M}]")), 0, "a partition of no kind");
    cr_expect_eq(cards_of(CARD(", partitions: [{uuid: M, profile: p, inUseBy: [{name: b}]}]")), 0);
    cr_expect_eq(cards_of("{devices: [{vendor: nvidia}]}"), 0);
    cr_expect_eq(cards_of("{devices: 3}"), 0);
    cr_expect_eq(cards_of("[]"), 0);
}
