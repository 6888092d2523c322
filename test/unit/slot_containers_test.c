/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/xalloc.h"

#include "nodeagent/slots/slot_containers.h"

/* Which containers the kubelet's list shows with slots. */

static struct holders holders;

static void tear_down(void)
{
    holders_done(&holders);
}

TestSuite(slot_containers, .fini = tear_down);

struct given {
    const char *id, *pod, *container;
};

static void list(const struct given *given, size_t n)
{
    struct holder *listed = NULL;
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        *XPUSH(listed, count) = (struct holder){.id = xstrdup(given[i].id),
                                                .ns = xstrdup("ns"),
                                                .pod = xstrdup(given[i].pod),
                                                .container = xstrdup(given[i].container),
                                                .resource = xstrdup("nvidia.com/gpu")};
    holders_list(&holders, listed, count, 2000);
}

static void done(struct slot_container *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        slot_container_done(&list[i]);
    free(list);
}

static bool is(const struct slot_container *c, const char *name, enum slot_pool pool)
{
    return strcmp(c->ns, "ns") == 0 && strcmp(c->pod, "p") == 0 && strcmp(c->name, name) == 0 &&
           c->pool == pool;
}

Test(slot_containers, a_containers_slots_of_a_pool_are_together_in_their_order)
{
    size_t n;
    list((struct given[]){{"share@9", "p", "c"},
                          {"GPU-1", "p", "c"},
                          {"share@3", "p", "c"},
                          {"koord@3", "p", "c"},
                          {"share@4", "p", "d"}},
         5);
    struct slot_container *found = slot_containers_of(&holders, &n);
    cr_assert_eq(n, 3, "a card is no slot, and the pools are apart");
    cr_expect(is(&found[0], "c", SLOT_POOL_SHARE));
    cr_expect(found[0].n_slots == 2 && slot_number(found[0].slots[0]) == 3 &&
              slot_number(found[0].slots[1]) == 9);
    cr_expect(is(&found[1], "c", SLOT_POOL_KOORDINATOR));
    cr_expect(is(&found[2], "d", SLOT_POOL_SHARE));
    done(found, n);
}

Test(slot_containers, the_same_container_with_other_slots_is_another)
{
    size_t n;
    list((struct given[]){{"share@3", "p", "c"}, {"share@4", "p", "d"}}, 2);
    struct slot_container *found = slot_containers_of(&holders, &n);
    cr_assert_eq(n, 2);
    unsigned other[] = {slot_at(SLOT_POOL_SHARE, 5)};
    struct slot_container moved = found[0];
    moved.slots = other;
    cr_expect(slot_container_same(&found[0], &found[0]));
    cr_expect_not(slot_container_same(&found[0], &found[1]));
    cr_expect_not(slot_container_same(&found[0], &moved));
    done(found, n);
}

Test(slot_containers, a_slot_that_is_granted_again_is_told)
{
    size_t n;
    list((struct given[]){{"share@3", "p", "c"}, {"share@4", "q", "c"}}, 2);
    holders_grant(&holders, (const char *const[]){"share@3"}, 1, 3000);
    struct slot_container *found = slot_containers_of(&holders, &n);
    cr_assert_eq(n, 2);
    cr_expect(found[0].is_granted_anew && !found[1].is_granted_anew);
    done(found, n);
}

Test(slot_containers, an_empty_list_has_none)
{
    size_t n = 7;
    struct slot_container *found = slot_containers_of(&holders, &n);
    cr_expect(!found && n == 0);
}
