/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "kubeclient/url.h"

static const struct kc_resource nodes = {"", "v1", "nodes", "Node", false};
static const struct kc_resource leases = {"coordination.k8s.io", "v1", "leases", "Lease", true};

#define EXPECT_PATH(path, ...)                                                                     \
    do {                                                                                           \
        auto_sb struct sb b = SB_INIT(1000);                                                       \
        url_add_target(&b, &(struct kc_target){__VA_ARGS__});                                      \
        cr_expect_str_eq(sb_str(&b), path);                                                        \
    } while (0)

Test(url, paths_are_those_of_the_api)
{
    EXPECT_PATH("/api/v1/nodes", .res = &nodes);
    EXPECT_PATH("/api/v1/nodes/n1/status", .res = &nodes, .name = "n1", .subresource = "status");
    EXPECT_PATH("/apis/coordination.k8s.io/v1/leases", .res = &leases);
    EXPECT_PATH("/apis/coordination.k8s.io/v1/namespaces/ns/leases/l", .res = &leases, .ns = "ns",
                .name = "l");
}

Test(url, names_cannot_leave_their_segment)
{
    EXPECT_PATH("/api/v1/nodes/..%2F..%2Fsecrets%3Fx%23", .res = &nodes,
                .name = "../../secrets?x#");
    EXPECT_PATH("/api/v1/nodes/%2E%2E", .res = &nodes, .name = "..");
    EXPECT_PATH("/api/v1/nodes/%C3%BC%20%25", .res = &nodes, .name = "ü %");
}

Test(url, queries_are_joined_and_escaped)
{
    auto_sb struct sb b = SB_INIT(1000);
    sb_add(&b, "/x");
    url_add_query(&b, "labelSelector", "a in (b,c)&limit=9");
    url_add_query(&b, "nothing", NULL);
    url_add_query_int(&b, "limit", 500);
    cr_expect_str_eq(sb_str(&b), "/x?labelSelector=a%20in%20%28b%2Cc%29%26limit%3D9&limit=500");
}
