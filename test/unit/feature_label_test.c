/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

#include "api/feature_label.h"
#include "api/label_value.h"

struct row {
    const char *key, *value;
};

Test(feature_label, those_of_the_discoverers_are_taken)
{
    static const struct row rows[] = {
        {"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"},
        {"nvidia.com/gpu.sharing-strategy", ""},
        {"nvidia.com/gpu.compute.major", "9"},
        {"nvidia.com/gpu.engines.ofa", "1"},
        {"nvidia.com/cuda.driver-version.full", "570.86.15"},
        {"nvidia.com/cuda.driver.rev", ""},
        {"nvidia.com/gfd.timestamp", "1767323045"},
        {"nvidia.com/mig.strategy", "mixed"},
        {"nvidia.com/mig-1g.10gb.count", "7"},
        {"nvidia.com/mig-1c.3g.40gb.slices.ci", "1"},
        {"nvidia.com/mig-1g.24gb.me.all.engines.jpeg", "4"},
        {"nvidia.com/mig-1g.24gb-me.sharing-strategy", "none"},
        {"nvidia.com/vgpu.host-driver-branch", "r460_00"},
        {"metax-tech.com/gpu.product", "MXC500"},
        {"metax-tech.com/gpu.driver.patch", "0"},
        {"feature.node.kubernetes.io/pci-10de.present", "true"},
        {"feature.node.kubernetes.io/pci-0302_10de.present", "true"},
        {"feature.node.kubernetes.io/pci-0302_10de.sriov.capable", "true"},
        {"gpu.cleave.dev/NVIDIA-H100-80GB-HBM3.count", "8"},
        {"gpu.cleave.dev/NVIDIA-H100-80GB-HBM3.memory", "81559"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_expect(feature_label_allowed(rows[i].key, rows[i].value), "%s", rows[i].key);
}

Test(feature_label, nothing_else_is)
{
    static const struct row rows[] = {
        {"node-role.kubernetes.io/control-plane", ""},
        {"kubernetes.io/hostname", "n2"},
        {"pool", "a"},
        {"nvidia.com/mig.config", "all-1g.10gb"},
        {"nvidia.com/mig.config.state", "success"},
        {"nvidia.com/gpu.deploy.driver", "false"},
        {"nvidia.com/device-plugin.config", "x"},
        {"nvidia.com/gpu", "8"},
        {"nvidia.com/gpu.", "8"},
        {"nvidia.com/gpu.count.count", "8"},
        {"nvidia.com/mig-.count", "8"},
        {"nvidia.com/mig-1g.10gb", "8"},
        {"nvidia.com/mig-1g.10gb.counts", "8"},
        {"nvidia.com/mig-1G.10gb.count", "8"},
        {"nvidia.com/mig-evil.count", "8"},
        {"nvidia.com/vgpu.evil", "8"},
        {"metax-tech.com/gpu", "8"},
        {"metax-tech.com/gpu.evil", "8"},
        {"metax-tech.com/maca.ready", "true"},
        {"x.nvidia.com/gpu.count", "8"},
        {"feature.node.kubernetes.io/pci-10de.present", "false"},
        {"feature.node.kubernetes.io/pci-10DE.present", "true"},
        {"feature.node.kubernetes.io/pci-10de.absent", "true"},
        {"feature.node.kubernetes.io/pci-10de_10de_10de.present", "true"},
        {"feature.node.kubernetes.io/cpu-model.vendor_id", "true"},
        {"feature.node.kubernetes.io/pci-.present", "true"},
        {"gpu.cleave.dev/NVIDIA-H100.count", "many"},
        {"gpu.cleave.dev/NVIDIA-H100.count", ""},
        {"gpu.cleave.dev/managed", "1"},
        {"gpu.cleave.dev/.count", "1"},
        {"gpu.cleave.dev/", "1"},
        {"", ""},
        {"/", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_expect(!feature_label_allowed(rows[i].key, rows[i].value), "%s", rows[i].key);
}

Test(feature_label, an_illegal_value_is_not_taken)
{
    cr_expect(!feature_label_allowed("nvidia.com/gpu.product", "a b"));
    cr_expect(!feature_label_allowed("nvidia.com/gpu.product", "-a"));
    cr_expect(!feature_label_allowed("nvidia.com/gpu.product", "a\n"));
    cr_expect(
        !feature_label_allowed("nvidia.com/gpu.product",
                               "a234567890123456789012345678901234567890123456789012345678901234"));
}

Test(feature_label, names_are_at_most_sixty_three_bytes)
{
    cr_expect(feature_label_allowed(
        "gpu.cleave.dev/a2345678901234567890123456789012345678901234567890123456.memory", "1"));
    cr_expect(!feature_label_allowed(
        "gpu.cleave.dev/a23456789012345678901234567890123456789012345678901234567.memory", "1"));
}

Test(feature_label, text_is_cut_between_letters_and_digits)
{
    static const struct {
        const char *text;
        unsigned max;
        const char *expected;
    } rows[] = {
        {"NVIDIA RTX PRO", 63, "NVIDIA-RTX-PRO"},
        {"NVIDIA RTX PRO", 7, "NVIDIA"},
        {"a  b", 63, "a-b"},
        {" a ( b ) ", 63, "a-b"},
        {"a/b", 63, "ab"},
        {"a b", 2, "a"},
        {"(a)", 63, "a"},
        {"-.a.-", 63, "a"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        auto_free char *value = label_value_of(rows[i].text, rows[i].max);
        cr_expect_str_eq(value, rows[i].expected, "%s: %s", rows[i].text, value);
        cr_expect(label_value_legal(value));
    }
    cr_expect_null(label_value_of("()", 63));
    cr_expect_null(label_value_of("", 63));
}
