# SPDX-License-Identifier: Apache-2.0
"""The simulated CUDA driver: older and newer forms of contexts, their limits, and attributes of devices."""
import pytest
from cuda import CONTEXT, INVALID_CONTEXT, INVALID_VALUE, MIB, NOT_SUPPORTED, OUT_OF_MEMORY

PRIMARY_ACTIVE, UNSUPPORTED_LIMIT, UNSUPPORTED_AFFINITY = 708, 215, 224
STACK, HEAP, SYNC_DEPTH, L2_FETCH = 0, 2, 3, 5


@pytest.mark.parametrize(
    ("call", "version"),
    [
        ("'cuCtxCreate', c.c_void_p, 0, 0", 3010),
        ("'cuCtxCreate_v2', c.c_void_p, 0, 0", 3020),
        ("'cuCtxCreate_v3', c.c_void_p, None, 0, 0, 0", 3020),
        ("'cuCtxCreate_v4', c.c_void_p, None, 0, 0", 3020),
    ],
)
def test_each_way_to_make_a_context_makes_it_current(worker, call, version):
    worker.does(f"made = cu({call})")
    assert worker.says("made == cu('cuCtxGetCurrent', c.c_void_p), cu('cuCtxGetApiVersion', made, c.c_uint)") == (True, version)
    assert worker.says("cu('cuCtxDestroy_v2', made)") is None


def test_a_part_of_the_processors_is_not_to_be_had_without_mps(worker):
    assert worker.says("cu('cuCtxCreate_v3', c.c_void_p, (c.c_int * 2)(0, 1), 1, 0, 0)") == -UNSUPPORTED_AFFINITY
    assert worker.says("cu('cuCtxCreate_v4', c.c_void_p, c.byref((c.c_void_p * 3)(0, 0, 1)), 0, 0)") == -NOT_SUPPORTED


def test_a_context_that_is_attached_ends_with_its_last_use(worker):
    worker.does("own = cu('cuCtxCreate_v2', c.c_void_p, 0, 0); cu('cuCtxAttach', c.c_void_p, 0)")
    assert worker.says("cu('cuCtxDestroy', own)") == -INVALID_CONTEXT
    assert worker.says("[cu('cuCtxDetach', own), cu('cuCtxGetDevice', c.c_int), cu('cuCtxDetach', own)]") == [None, 0, None]
    assert worker.says("cu('cuCtxGetCurrent', c.c_void_p) != own")


def test_a_context_that_is_not_current_is_asked_and_waited_for(worker):
    worker.does("there = cu('cuDevicePrimaryCtxRetain', c.c_void_p, 1)")
    assert worker.says("cu('cuCtxGetDevice_v2', c.c_int, there), cu('cuCtxGetDevice_v2', c.c_int, None)") == (1, 0)
    assert worker.says("cu('cuCtxSynchronize_v2', there)") is None
    assert worker.says("cu('cuCtxSynchronize_v2', 4096)") == -INVALID_CONTEXT


def test_flags_of_an_active_primary_context_could_not_be_changed_once(worker):
    assert worker.says("cu('cuDevicePrimaryCtxSetFlags', 0, 4)") == -PRIMARY_ACTIVE
    assert worker.says("cu('cuDevicePrimaryCtxSetFlags_v2', 0, 4)") is None


# --- Limits ---


def test_a_limit_is_what_was_set_or_the_nearest_there_is(worker):
    assert worker.says(f"cu('cuCtxGetLimit', c.c_size_t, {STACK}), cu('cuCtxGetLimit', c.c_size_t, {HEAP})") == (1024, 8 * MIB)
    assert worker.says(f"[cu('cuCtxSetLimit', {STACK}, 2041), cu('cuCtxGetLimit', c.c_size_t, {STACK})]") == [None, 2048]
    assert worker.says(f"[cu('cuCtxSetLimit', {L2_FETCH}, 4096), cu('cuCtxGetLimit', c.c_size_t, {L2_FETCH})]") == [None, 128]
    assert worker.says(f"cu('cuCtxSetLimit', {STACK}, {1 << 30})") == -INVALID_VALUE
    assert worker.says(f"cu('cuCtxSetLimit', {SYNC_DEPTH}, 4)") == -UNSUPPORTED_LIMIT
    assert worker.says("cu('cuCtxGetLimit', c.c_size_t, 99)") == -UNSUPPORTED_LIMIT


def test_a_larger_limit_takes_memory_of_the_card_and_gives_it_back(worker):
    before = worker.says("cu.free()")
    assert worker.says(f"[cu('cuCtxSetLimit', {HEAP}, {108 * MIB}), cu.free()][1]") == before - 100 * MIB
    assert worker.says(f"cu('cuCtxSetLimit', {HEAP}, {before + 108 * MIB})") == -OUT_OF_MEMORY
    assert worker.says("cu.free()") == before - 100 * MIB
    assert worker.says(f"[cu('cuCtxSetLimit', {HEAP}, 0), cu.free()][1]") == before


def test_a_limit_ends_with_its_context(worker):
    before = worker.says("cu.free()")
    worker.does(f"own = cu('cuCtxCreate_v2', c.c_void_p, 0, 0); cu('cuCtxSetLimit', {HEAP}, {108 * MIB})")
    assert worker.says("cu.free()") == before - CONTEXT - 100 * MIB
    assert worker.says("[cu('cuCtxDestroy_v2', own), cu.free()][1]") == before


# --- Attributes ---


def test_attributes_are_those_of_the_card(worker):
    """Of an H100: threads of a processor, its shared memory for a block that asks for it, the bus, and the last there is."""
    assert [worker.says(f"cu('cuDeviceGetAttribute', c.c_int, {a}, 0)") for a in (39, 97, 37, 115)] == [2048, 227 * 1024, 5120, 1]
    assert [worker.says(f"cu('cuDeviceGetAttribute', c.c_int, {a}, 0)") for a in (0, 146)] == [-INVALID_VALUE] * 2
