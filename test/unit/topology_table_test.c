/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "nodeagent/commands/topology_table.h"

static void draw(struct gpu_pair pair, char *ret, size_t size)
{
    struct gpu_card cards[2] = {{.vendor = "nvidia", .index = 0, .numa_node = 1},
                                {.vendor = "nvidia", .index = 1, .numa_node = -1}};
    struct gpu_inventory inv = {.n_cards = 2, .cards = cards};
    auto_sb struct sb out = SB_INIT(4096);
    gpu_topology_init(&inv.topology, 2);
    *gpu_topology_at(&inv.topology, 0, 1) = pair;
    topology_table_add(&out, &inv);
    gpu_topology_done(&inv.topology);
    char *end = strchr(strchr(sb_str(&out), '\n') + 1, '\n');
    (void)snprintf(ret, size, "%.*s", (int)(end - sb_str(&out)), sb_str(&out));
}

Test(topology_table, each_way_has_the_word_that_people_know)
{
    static const struct {
        struct gpu_pair pair;
        const char *word;
    } words[] = {
        {{.level = GPU_LEVEL_BOARD}, "PIX"},
        {{.level = GPU_LEVEL_SWITCH}, "PIX"},
        {{.level = GPU_LEVEL_SWITCHES}, "PXB"},
        {{.level = GPU_LEVEL_HOST_BRIDGE}, "PHB"},
        {{.level = GPU_LEVEL_NODE}, "NODE"},
        {{.level = GPU_LEVEL_SYSTEM}, "SYS"},
        {{.level = GPU_LEVEL_SYSTEM, .links = 18}, "NV18"},
        {{.level = 0}, "?"},
    };
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        char drawn[256];
        char wanted[256];
        draw(words[i].pair, drawn, sizeof(drawn));
        (void)snprintf(wanted, sizeof(wanted), "        GPU0   GPU1   NUMA\nGPU0    X      %-6s 1",
                       words[i].word);
        cr_expect_str_eq(drawn, wanted);
    }
}

static char *draw_two(const char *first, const char *second, unsigned index)
{
    struct gpu_card cards[2] = {{.vendor = first, .numa_node = -1},
                                {.vendor = second, .index = index, .numa_node = -1}};
    struct gpu_inventory inv = {.n_cards = 2, .cards = cards};
    auto_sb struct sb out = SB_INIT(4096);
    gpu_topology_init(&inv.topology, 2);
    *gpu_topology_at(&inv.topology, 0, 1) =
        (struct gpu_pair){.level = GPU_LEVEL_NODE, .links = strcmp(first, second) == 0};
    topology_table_add(&out, &inv);
    gpu_topology_done(&inv.topology);
    return sb_take(&out);
}

Test(topology_table, links_have_the_name_that_their_vendor_gives_them)
{
    auto_free char *drawn = draw_two("metax", "metax", 1);
    cr_expect(strstr(drawn, "GPU0    X      MX     -\n"), "%s", drawn);
    cr_expect(strstr(drawn, "MetaXLink") && !strstr(drawn, "NVLink"), "%s", drawn);
    auto_free char *third = draw_two("intel", "intel", 1);
    cr_expect(strstr(third, "GPU0    X      LNK    -\n"), "%s", third);
}

Test(topology_table, cards_of_two_vendors_are_told_apart)
{
    auto_free char *drawn = draw_two("nvidia", "metax", 0);
    cr_expect(strstr(drawn, "           nvidia0   metax0    NUMA\n"
                            "nvidia0    X         NODE      -\n"
                            "metax0     NODE      X         -\n"),
              "%s", drawn);
    cr_expect(strstr(drawn, "NVLinks") && strstr(drawn, "MetaXLink"), "%s", drawn);
}

Test(topology_table, machine_without_cards_has_an_empty_table)
{
    const struct gpu_inventory none = {.n_cards = 0};
    auto_sb struct sb out = SB_INIT(4096);
    topology_table_add(&out, &none);
    cr_expect(strstr(sb_str(&out), "NUMA"));
}
