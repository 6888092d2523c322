# SPDX-License-Identifier: Apache-2.0
"""Memory: a container's processes together never have more of a card than its share."""
import pynvml as nv
import pytest
from container import BY_CONTEXTS
from cuda import MIB, NO_DEVICE, OUT_OF_MEMORY


def used(index=0):
    return nv.nvmlDeviceGetMemoryInfo(nv.nvmlDeviceGetHandleByIndex(index), version=nv.nvmlMemory_v2).used


def test_a_container_sees_its_share_and_no_more(h100, container):
    worker = container(h100, 3000).worker()
    assert worker.says("cu('cuMemGetInfo_v2', c.c_size_t, c.c_size_t)") == (3000 * MIB, 3000 * MIB)
    assert worker.says("cu('cuDeviceTotalMem_v2', c.c_size_t, 0)") == 3000 * MIB


def test_an_allocation_past_the_share_is_out_of_memory_and_takes_nothing_of_the_card(h100, container):
    worker = container(h100, 3000).worker()
    assert worker.says(f"cu.alloc({2000 * MIB}) > 0")
    before = used()
    assert worker.says(f"cu.alloc({1001 * MIB})") == -OUT_OF_MEMORY
    assert used() == before
    assert worker.says(f"cu.alloc({1000 * MIB}) > 0")
    assert worker.says("cu.free()") == 0


def test_what_is_freed_can_be_had_again(h100, container):
    worker = container(h100, 100).worker()
    for _ in range(3):
        pointer = worker.says(f"cu.alloc({100 * MIB})")
        assert pointer > 0 and worker.says("cu.free()") == 0
        assert worker.says(f"cu('cuMemFree_v2', {pointer})") is None
    assert worker.says("cu.free()") == 100 * MIB


def test_without_terms_there_is_no_device(h100, container):
    one = container(h100, 3000)
    (one.share / "terms").unlink()
    assert one.client().says("cu('cuInit', 0)") == -NO_DEVICE


def test_the_processes_of_a_container_share_its_share_and_another_container_is_untouched(h100, container):
    one, other = container(h100, 3000), container(h100, 3000)
    first, second, neighbour = one.worker(), one.worker(), other.worker()
    assert first.says(f"cu.alloc({2000 * MIB}) > 0")
    assert second.says("cu.free()") == 1000 * MIB
    assert second.says(f"cu.alloc({1001 * MIB})") == -OUT_OF_MEMORY
    assert neighbour.says("cu.free()") == 3000 * MIB


def test_nothing_is_left_of_a_process_that_was_killed(h100, container):
    one = container(h100, 3000)
    first, second = one.worker(), one.worker()
    assert first.says(f"cu.alloc({2000 * MIB}) > 0")
    first.kill()
    assert second.says("cu.free()") == 3000 * MIB
    assert second.says(f"cu.alloc({3000 * MIB}) > 0")


def test_what_contexts_have_of_it_is_said_apart_for_the_agent_that_measures_them(h100, container):
    one = container(h100, {"mib": 3000, "context": 400 * MIB})
    worker = one.worker()
    assert one.taken() == one.taken(table=BY_CONTEXTS) == {0: 400 * MIB}
    assert worker.says(f"cu.alloc({100 * MIB}) > 0")
    one.change(0, context=300 * MIB)
    assert worker.says(f"cu.alloc({100 * MIB}) > 0")
    assert (one.taken(), one.taken(table=BY_CONTEXTS)) == ({0: 500 * MIB}, {0: 300 * MIB})
    context = worker.says("cu('cuCtxCreate_v2', c.c_void_p, 0, 0)")
    assert one.taken(table=BY_CONTEXTS) == {0: 600 * MIB}
    assert worker.says(f"cu('cuCtxDestroy_v2', c.c_void_p({context}))") is None
    assert one.taken(table=BY_CONTEXTS) == {0: 300 * MIB}


def test_a_limit_that_changes_holds_at_once(h100, container):
    one = container(h100, 3000)
    worker = one.worker()
    assert worker.says(f"cu.alloc({1000 * MIB}) > 0")
    one.change(0, mib=1500)
    assert worker.says("cu('cuMemGetInfo_v2', c.c_size_t, c.c_size_t)") == (500 * MIB, 1500 * MIB)
    assert worker.says(f"cu.alloc({600 * MIB})") == -OUT_OF_MEMORY
    one.change(0, mib=500)
    assert worker.says("cu('cuMemGetInfo_v2', c.c_size_t, c.c_size_t)") == (0, 500 * MIB)
    one.change(0, mib=4000)
    assert worker.says(f"cu.alloc({3000 * MIB}) > 0")


def test_a_context_takes_what_the_terms_say_and_gives_it_back_with_all_that_was_allocated_in_it(h100, container):
    one = container(h100, {"mib": 1000, "context": 400 * MIB})
    first, second = one.worker(), one.client()
    assert first.says("cu.free()") == 600 * MIB
    assert first.says(f"cu.alloc({300 * MIB}) > 0")
    second.says("cu('cuInit', 0)")
    assert second.says("cu('cuDevicePrimaryCtxRetain', c.c_void_p, 0)") == -OUT_OF_MEMORY
    assert first.says("cu('cuDevicePrimaryCtxRelease_v2', 0)") is None
    assert one.taken() == {}
    assert second.says("cu.init(0)") is None and second.says("cu.free()") == 600 * MIB


def test_what_a_context_takes_follows_the_terms(h100, container):
    one = container(h100, 1000)
    worker = one.worker()
    one.change(0, context=300 * MIB)
    assert worker.says("cu.free()") == 700 * MIB
    one.change(0, context=100 * MIB)
    assert worker.says(f"cu.alloc({900 * MIB}) > 0")
    one.change(0, context=200 * MIB)
    assert worker.says("cu.free()") == 0 and worker.says("cu.alloc(1)") == -OUT_OF_MEMORY


def test_a_context_of_its_own_frees_what_was_allocated_in_it(h100, container):
    one = container(h100, 1000)
    worker = one.client()
    worker.says("cu('cuInit', 0)")
    worker.says("globals().update(x=cu('cuCtxCreate_v2', c.c_void_p, 0, 0))")
    for mib in (100, 300):
        assert worker.says(f"cu.alloc({mib * MIB}) > 0")
    assert sum(one.taken().values()) == 400 * MIB
    assert worker.says("cu('cuCtxDestroy_v2', c.c_void_p(x))") is None
    assert one.taken() == {}


def test_small_allocations_take_granules_together(h100, container):
    one = container(h100, 4)
    worker = one.worker()
    worker.says("globals().update(p=[cu.alloc(512 << 10) for _ in range(8)])")
    assert sum(one.taken().values()) == 4 * MIB
    assert worker.says("cu.alloc(1)") == -OUT_OF_MEMORY
    worker.says("[cu('cuMemFree_v2', one) for one in p]")
    assert one.taken() == {}


def small(worker, mib):
    """Fills granules of 2 MiB with pieces of 64 KiB, and leaves one of each granule: the addresses."""
    return worker.says(f"(lambda p: [a for i, a in enumerate(p) if i % 32 == 0 or cu('cuMemFree_v2', a)])([cu.alloc(64 << 10) for _ in range({mib * 16})])")


def test_a_piece_that_stays_keeps_its_granule(h100, container):
    one = container(h100, 100)
    worker, before = one.worker(), used()
    left = small(worker, 60)
    assert len(left) == 30 and sum(one.taken().values()) == 60 * MIB == used() - before
    assert worker.says(f"cu.alloc({41 * MIB})") == -OUT_OF_MEMORY
    assert worker.says(f"[cu('cuMemFree_v2', a) for a in {left}]") == [None] * 30
    assert one.taken() == {}


def test_rounds_of_small_pieces_never_have_more_of_the_card_than_the_share(h100, container):
    one = container(h100, 100)
    worker, before = one.worker(), used()
    for _ in range(4):
        small(worker, 60)
        assert used() - before <= 100 * MIB
    assert used() - before == 100 * MIB == sum(one.taken().values())


def test_at_the_limit_a_piece_goes_where_there_is_room_for_it(h100, container):
    one = container(h100, 4)
    worker = one.worker()
    assert worker.says(f"cu.alloc({2 * MIB}) > 0 and [cu.alloc(300 << 10) > 0 for _ in range(6)]") == [True] * 6
    assert worker.says("cu.alloc(300 << 10)") == -OUT_OF_MEMORY, "there is room for none of that size"
    assert worker.says("cu.alloc(1 << 10) > 0 and cu.alloc(200 << 10) > 0")
    assert sum(one.taken().values()) == 4 * MIB


def test_small_pieces_end_with_their_context(h100, container):
    one = container(h100, 100)
    worker = one.worker()
    small(worker, 20)
    assert worker.says("cu('cuDevicePrimaryCtxRelease_v2', 0)") is None
    assert one.taken() == {}


@pytest.mark.parametrize("call", [f"cu.alloc({2**64 - 1})", f"cu('cuMemAllocPitch_v2', c.c_uint64, c.c_size_t, {2**63}, {2**40}, 4)"])
def test_sizes_that_no_card_has_are_out_of_memory(h100, container, call):
    one = container(h100, 1000)
    assert one.worker().says(call) == -OUT_OF_MEMORY
    assert one.taken() == {}


def test_each_card_has_its_own_limit_whatever_order_the_program_sees_them_in(h100, container):
    one = container(h100, 1000, 2000)
    for order, limits in (("0,1", (1000, 2000)), ("1,0", (2000, 1000))):
        client = one.client(CUDA_VISIBLE_DEVICES=order)
        client.says("cu('cuInit', 0)")
        assert [client.says(f"cu('cuDeviceTotalMem_v2', c.c_size_t, {i})") // MIB for i in (0, 1)] == list(limits)
    by_uuid = one.client(CUDA_VISIBLE_DEVICES=one.cards[1][0])
    by_uuid.says("cu('cuInit', 0)")
    assert by_uuid.says("cu('cuDeviceTotalMem_v2', c.c_size_t, 0)") == 2000 * MIB
    assert one.client(CUDA_VISIBLE_DEVICES="").says("cu('cuInit', 0)") == -NO_DEVICE


def test_a_card_that_is_no_share_of_the_container_is_not_limited(h100, container):
    one = container(h100, 1000)
    assert one.worker(card=1).says("cu.free() > 10000 * (1 << 20)")
