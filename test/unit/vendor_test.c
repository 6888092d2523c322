/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "partition/resource_names.h"
#include "partition/vendor.h"

Test(vendor, names_under_which_cards_parts_and_slices_are_offered)
{
    const char *const ours[] = {"nvidia.com/gpu",         "nvidia.com/gpu.shared",
                                "nvidia.com/mig-1g.10gb", "metax-tech.com/gpu",
                                "metax-tech.com/sgpu",    "metax-tech.com/sgpu-small",
                                "metax-tech.com/vgpu",    "metax-tech.com/gpu.shared",
                                "nvidia.com/gpumem",      "nvidia.com/gpumem-percentage",
                                "nvidia.com/gpucores",    "gpu.cleave.dev/share"};
    const char *const others[] =
        {"nvidia.com/priority",    "nvidia.com/x",         "cpu",
         "metax-tech.com/vmemory", "metax-tech.com/sgpux", "amd.com/gpu",
         "metax-tech.com/vgpu-x",  "nvidia.com/vgpu",      "gpu.cleave.dev/x"};
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        cr_expect(vendor_offers(ours[i]) && vendor_owns(ours[i]), "%s", ours[i]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        cr_expect(!vendor_offers(others[i]), "%s", others[i]);
    cr_expect(vendor_owns("nvidia.com/x") && !vendor_owns("cpu") && !vendor_owns("amd.com/gpu"));
}

Test(vendor, each_is_found_by_its_name_and_no_other_is)
{
    cr_expect_str_eq(vendor_find("metax")->card, "metax-tech.com/gpu");
    cr_expect_str_eq(vendor_find("nvidia")->card, "nvidia.com/gpu");
    cr_expect_null(vendor_find("amd"));
    cr_expect_null(vendor_find(NULL));
}

Test(vendor, messages_call_each_by_its_title)
{
    for (const struct vendor *v = vendors; v->name; v++)
        cr_expect(v->title && *v->title, "%s", v->name);
    cr_expect_str_eq(vendor_title("metax"), "MetaX");
    cr_expect_str_eq(vendor_title("amd"), "amd");
    cr_expect_str_eq(vendor_title(NULL), "unknown");
}

Test(vendor, a_slice_is_named_by_its_alias)
{
    char name[RESOURCE_NAME_BYTES];
    cr_assert(resource_slice_name("metax", "small", name));
    cr_expect_str_eq(name, "metax-tech.com/sgpu-small");
    cr_assert(resource_slice_name("metax", NULL, name));
    cr_expect_str_eq(name, "metax-tech.com/sgpu");
    cr_expect(!resource_slice_name("nvidia", "small", name));
    cr_expect(!resource_slice_name("amd", NULL, name));
    cr_expect(!resource_name("metax", API_STRATEGY_MIXED, false, "1g.10gb", name));
}

Test(vendor, functions_are_metaxs_and_mps_and_shares_are_nvidias)
{
    cr_expect_str_eq(resource_function_name("metax"), "metax-tech.com/vgpu");
    cr_expect_null(resource_function_name("nvidia"));
    cr_expect_null(resource_function_name("amd"));
    cr_expect(vendor_find("nvidia")->has_mps && !vendor_find("metax")->has_mps);
    cr_expect(vendor_find("nvidia")->has_shares && !vendor_find("metax")->has_shares);
}
