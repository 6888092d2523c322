# SPDX-License-Identifier: Apache-2.0
"""Memory: a container's processes together never have more of a card than its share."""
import pynvml as nv
import pytest
from cuda import CONTEXT, MIB, NO_DEVICE, OUT_OF_MEMORY


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
