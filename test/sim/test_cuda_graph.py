# SPDX-License-Identifier: Apache-2.0
"""The simulated CUDA driver: graphs, executable graphs, and their memory."""
import pytest
from conftest import used
from cuda import CONTEXT, EMPTY, GRANULE, GRAPH, HOST, INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE, INVALIDATED, KERNEL, MEM_ALLOC, MEM_FREE
from cuda import EVENT_RECORD, MEMCPY, MEMSET, NOT_READY, NOT_SUPPORTED, OUT_OF_MEMORY, UNSUPPORTED, WAIT_EVENT

MS = 1_000_000
UPDATE_FAILURE = 910
AUTO_FREE, UPLOAD, DEVICE_LAUNCH, PRIORITY = 1, 2, 4, 8
USED, USED_HIGH, RESERVED, RESERVED_HIGH = range(4)


@pytest.fixture
def graphs(worker):
    """worker, with a graph `g`, a stream `s`, memory `p`, and add(type, params, *nodes it depends on)."""
    worker.does("""
g, s, p = cu('cuGraphCreate', c.c_void_p, 0), cu.stream(1), cu.alloc(64)
spin, nothing, context = cu.function('spin_ns'), cu.function('nothing'), cu('cuCtxGetCurrent', c.c_void_p)
called = []
Function = c.CFUNCTYPE(None, c.c_void_p)
call = Function(lambda data: called.append(data))
kept = []
def add(name, params, *nodes, to=None):
    return cu(f'cuGraphAdd{name}', c.c_void_p, to or g, (c.c_void_p * len(nodes))(*nodes) if nodes else None, len(nodes), *params)
def empty(*nodes):
    return add('EmptyNode', [], *nodes)
def kernel(*nodes, ns=0, function=None, to=None):
    kept.append(c.c_uint64(ns))
    kept.append((c.c_void_p * 1)(c.addressof(kept[-1])))
    return add('KernelNode_v2', [c.byref(Kernel(function or spin, pointers=kept[-1]))], *nodes, to=to)
def sets(at, value, *nodes):
    return add('MemsetNode', [c.byref(Setting(at, 0, value, 4, 1, 1)), context], *nodes)
def host(data, *nodes):
    return add('HostNode', [c.byref((c.c_void_p * 2)(c.cast(call, c.c_void_p).value, data))], *nodes)
def allocate(size, *nodes, to=None):
    params = Allocation(size)
    return add('MemAllocNode', [c.byref(params)], *nodes, to=to), params.at
def instantiate(graph=None, flags=0):
    return cu('cuGraphInstantiateWithFlags', c.c_void_p, graph or g, flags)
def run(exec):
    cu('cuGraphLaunch', exec, s)
    cu('cuStreamSynchronize', s)
""")
    return worker


def attribute(worker, which, device=0):
    return worker.says(f"cu('cuDeviceGetGraphMemAttribute', {device}, {which}, c.c_uint64)")


# --- Graphs ---


def test_a_graph_lists_its_nodes_and_what_depends_on_what(graphs):
    graphs.does("a = empty(); b = empty(a); d = empty(a, b)")
    assert graphs.says("cu.nodes(g) == [a, b, d], cu.edges(g), cu.listed('cuGraphGetRootNodes', g) == [a]") == (True, [(0, 1), (0, 2), (1, 2)], True)
    assert graphs.says("cu.listed('cuGraphNodeGetDependencies', d) == [a, b], cu.listed('cuGraphNodeGetDependentNodes', a) == [b, d]") == (True, True)
    graphs.does("few, count = (c.c_void_p * 4)(1, 1, 1, 1), c.c_size_t(4); cu('cuGraphGetNodes', g, few, c.byref(count))")
    assert graphs.says("list(few) == [a, b, d, None], count.value") == (True, 3)
    graphs.does("few, count = (c.c_void_p * 2)(), c.c_size_t(2); cu('cuGraphGetNodes', g, few, c.byref(count))")
    assert graphs.says("list(few) == [a, b], count.value") == (True, 2)


def test_edges_are_added_and_removed_all_or_none(graphs):
    graphs.does("a, b, d = empty(), empty(), empty(); pairs = lambda *nodes: (c.c_void_p * len(nodes))(*nodes)")
    assert graphs.says("cu('cuGraphAddDependencies', g, pairs(a, b), pairs(b, d), 2), cu.edges(g)") == (None, [(0, 1), (1, 2)])
    assert graphs.says("cu('cuGraphAddDependencies', g, pairs(a, a), pairs(d, b), 2)") == -INVALID_VALUE
    assert graphs.says("cu('cuGraphAddDependencies', g, pairs(a), pairs(a), 1)") == -INVALID_VALUE
    assert graphs.says("cu.edges(g)") == [(0, 1), (1, 2)]
    assert graphs.says("cu('cuGraphRemoveDependencies', g, pairs(a), pairs(b), 1), cu.edges(g)") == (None, [(1, 2)])
    assert graphs.says("cu('cuGraphRemoveDependencies_v2', g, pairs(a), pairs(b), None, 1)") == -INVALID_VALUE
    assert graphs.says("cu('cuGraphAddDependencies_v2', g, pairs(a), pairs(b), bytes([1] * 8), 1)") == -NOT_SUPPORTED
    assert graphs.says("cu('cuGraphDestroyNode', d), cu.edges(g), len(cu.nodes(g))") == (None, [], 2)


def test_a_node_is_one_of_its_graph(graphs):
    graphs.does("other, a = cu('cuGraphCreate', c.c_void_p, 0), empty()")
    assert graphs.says("add('EmptyNode', [], a, to=other)") == -INVALID_VALUE
    assert graphs.says("add('EmptyNode', [], 4096)") == -INVALID_VALUE
    assert graphs.says("add('EmptyNode', [], to=4096)") == -INVALID_VALUE
    assert graphs.says("cu('cuGraphDestroy', g), cu.code('cuGraphDestroy', g), cu.code('cuGraphNodeGetType', a, c.c_int)") == (None, INVALID_VALUE, INVALID_VALUE)
    assert graphs.says("cu('cuGraphCreate', c.c_void_p, 1)") == -INVALID_VALUE


def test_nodes_are_of_their_types(graphs):
    graphs.does("copy = Box(to_type=2, to_device=p, from_type=2, from_device=p + 8, width=4, height=1, depth=1); child = cu('cuGraphCreate', c.c_void_p, 0)")
    graphs.does("kernel(), add('MemcpyNode', [c.byref(copy), context]), sets(p, 7), host(1), add('ChildGraphNode', [child]), empty(), allocate(4)")
    assert graphs.says("cu.types(g)") == [KERNEL, MEMCPY, MEMSET, HOST, GRAPH, EMPTY, MEM_ALLOC]
    for call in ("add('MemcpyNode', [c.byref(Box()), context])", "sets(4096, 7)", "sets(p + 1, 7)", "add('ChildGraphNode', [g])", "allocate(0)", "add('MemFreeNode', [p])"):
        assert graphs.says(call) == -INVALID_VALUE, call
    assert graphs.says("kernel(function=4096)") == -INVALID_HANDLE


def test_a_node_is_added_by_one_function_of_whichever_type(graphs):
    graphs.does("node = lambda type, params=b'': cu('cuGraphAddNode_v2', c.c_void_p, g, None, None, 0, (bytes(c.c_int(type)) + bytes(12) + bytes(params)).ljust(256, b'\\0'))")
    graphs.does("kept.append((c.c_void_p * 1)(c.addressof(c.c_uint64(5))))")
    graphs.does("node(0, Kernel(nothing)), node(2, Setting(p, 0, 7, 4, 1, 1)), node(5), node(10, Allocation(4))")
    assert graphs.says("cu.types(g)") == [KERNEL, MEMSET, EMPTY, MEM_ALLOC]
    assert graphs.says("node(13)") == -NOT_SUPPORTED


def test_a_kernels_parameters_are_kept(graphs):
    graphs.does("n, found = kernel(ns=42), Kernel(None); kept.clear(); cu('cuGraphKernelNodeGetParams_v2', n, c.byref(found))")
    assert graphs.says("found.function == spin, found.grid[:], c.c_uint64.from_address(found.params[0]).value") == (True, [1, 1, 1], 42)
    graphs.does("cu('cuGraphKernelNodeSetParams_v2', n, c.byref(Kernel(nothing, grid=(2, 1, 1)))); cu('cuGraphKernelNodeGetParams_v2', n, c.byref(found))")
    assert graphs.says("found.function == nothing, found.grid[:]") == (True, [2, 1, 1])


def test_a_clone_is_a_graph_of_its_own(graphs):
    graphs.does("a = kernel(); b = sets(p, 7, a); clone = cu('cuGraphClone', c.c_void_p, g); twin = cu('cuGraphNodeFindInClone', c.c_void_p, b, clone)")
    graphs.does("cu('cuGraphDestroy', g)")
    assert graphs.says("cu.types(clone), cu.edges(clone), cu.nodes(clone)[1] == twin") == ([KERNEL, MEMSET], [(0, 1)], True)
    assert graphs.says("cu('cuGraphNodeFindInClone', c.c_void_p, twin, clone)") == -INVALID_VALUE


# --- Executable graphs ---


def test_a_launch_does_all_nodes_in_the_order_of_their_dependencies(graphs):
    graphs.does("late = sets(p, 9); early = sets(p, 7); cu('cuGraphAddDependencies', g, (c.c_void_p * 1)(early), (c.c_void_p * 1)(late), 1)")
    graphs.does("host(5, late); e = instantiate(); before = cu.word(p), list(called); run(e)")
    assert graphs.says("before, cu.word(p), called") == ((0, []), 9, [5])
    graphs.does("cu('cuMemsetD32_v2', p, 1, 1); cu('cuGraphDestroy', g); run(e); run(e)")
    assert graphs.says("cu.word(p), called, cu('cuGraphExecDestroy', e), cu.code('cuGraphLaunch', e, s)") == (9, [5] * 3, None, INVALID_VALUE)


def test_a_launch_takes_the_time_of_its_kernels_on_the_card(graphs):
    graphs.does(f"a = kernel(ns={3 * MS}); b, d = kernel(a, ns={4 * MS}), kernel(a, ns={5 * MS}); e = instantiate(); before, after = cu.event(), cu.event()")
    graphs.does("cu('cuEventRecord', before, s); cu('cuGraphLaunch', e, s); cu('cuEventRecord', after, s); asked = cu.code('cuStreamQuery', s); cu('cuStreamSynchronize', s)")
    assert graphs.says("asked, cu('cuEventElapsedTime', c.c_float, before, after) >= 12") == (NOT_READY, True)


def test_what_was_captured_is_launched(graphs):
    graphs.does(f"cu.spins(0); cu.capture(s); cu.spins({MS}, s); cu('cuMemsetD32Async', p, 7, 1, s); cu('cuMemcpyDtoDAsync_v2', p + 4, p, 4, s); cu('cuLaunchHostFunc', s, call, 5)")
    graphs.does("e = instantiate(cu.captured(s)); before = cu.word(p); run(e); run(e)")
    assert graphs.says("before, cu.word(p), cu.word(p + 4), called") == (0, 7, 7, [5, 5])


def test_a_large_graph_is_launched_whole(graphs):
    graphs.does("gate = cu.hold(s); [sets(p, i) for i in range(1500)]; e = instantiate(); cu('cuGraphLaunch', e, s); gate.set(); cu('cuStreamSynchronize', s)")
    assert graphs.says("cu.word(p)") == 1499


def test_launches_of_one_executable_graph_wait_for_each_other(graphs):
    graphs.does("host(1); e, t = instantiate(), cu.stream(1); gate = cu.hold(s); cu('cuGraphLaunch', e, s); cu('cuGraphLaunch', e, t)")
    assert graphs.says("cu.code('cuStreamQuery', t), list(called), gate.set(), cu('cuStreamSynchronize', t), called") == (NOT_READY, [], None, None, [1, 1])


def test_a_graph_that_is_destroyed_while_it_runs_is_done_all_the_same(graphs):
    graphs.does("gate = cu.hold(s); sets(p, 7); e = instantiate(); cu('cuGraphLaunch', e, s); cu('cuGraphExecDestroy', e); gate.set(); cu('cuStreamSynchronize', s)")
    assert graphs.says("cu.word(p)") == 7


def test_a_context_that_is_reset_ends_launches(graphs):
    graphs.does("a, at = allocate(4); kernel(a, ns=FOREVER); e = instantiate(); cu('cuGraphLaunch', e, s); cu('cuDevicePrimaryCtxReset_v2', 0); cu.init(0); s = cu.stream(1)")
    assert graphs.says("cu.code('cuGraphExecDestroy', e), cu('cuDeviceGraphMemTrim', 0), cu('cuMemFree_v2', at)") == (0, None, None)
    assert used() == CONTEXT or graphs.says("cu('cuDeviceGraphMemTrim', 0)") is None
    assert used() == CONTEXT


def test_a_circle_is_not_to_be_launched(graphs):
    graphs.does("a = empty(); b = empty(a); cu('cuGraphAddDependencies', g, (c.c_void_p * 1)(b), (c.c_void_p * 1)(a), 1)")
    assert graphs.says("instantiate()") == -INVALID_VALUE
    graphs.does("params = (c.c_uint64 * 4)(); code = cu.code('cuGraphInstantiateWithParams', c.c_void_p, g, params)")
    assert graphs.says("code, params[2] in (a, b), params[3]") == (INVALID_VALUE, True, 2)


def test_flags_are_kept_or_refused(graphs):
    assert graphs.says(f"cu('cuGraphExecGetFlags', instantiate(flags={AUTO_FREE | PRIORITY}), c.c_uint64)") == AUTO_FREE | PRIORITY
    assert [graphs.says(f"instantiate(flags={flags})") for flags in (16, UPLOAD, DEVICE_LAUNCH)] == [-INVALID_VALUE, -INVALID_VALUE, -NOT_SUPPORTED]
    assert graphs.says("cu('cuGraphInstantiate_v2', c.c_void_p, g, None, None, 0) > 0") is True


def test_a_graph_records_events_and_waits_for_them(graphs):
    graphs.does("e, f, t = cu.event(), cu.event(), cu.stream(1); a = sets(p, 7); add('EventRecordNode', [e], a); launched = instantiate(); gate = cu.hold(s); cu('cuGraphLaunch', launched, s)")
    assert graphs.says("cu.code('cuEventQuery', e), gate.set(), cu('cuEventSynchronize', e), cu.word(p)") == (NOT_READY, None, None, 7)
    graphs.does("g = cu('cuGraphCreate', c.c_void_p, 0); sets(p, 9, add('EventWaitNode', [f])); launched = instantiate(); gate = cu.hold(t); cu('cuEventRecord', f, t); cu('cuGraphLaunch', launched, s)")
    assert graphs.says("cu.code('cuStreamQuery', s), cu.word(p), gate.set(), cu('cuStreamSynchronize', s), cu.word(p)") == (NOT_READY, 7, None, None, 9)
    assert graphs.says("cu('cuEventDestroy_v2', f), cu.code('cuGraphLaunch', launched, s)") == (None, INVALID_HANDLE)
    assert graphs.says("add('EventWaitNode', [f])") == -INVALID_VALUE


def test_a_captured_stream_records_and_waits_for_events_of_others_by_nodes(graphs):
    assert [graphs.says(f"cu({call})") for call in ("'cuEventRecordWithFlags', cu.event(), s, 1", "'cuStreamWaitEvent', s, cu.event(), 1")] == [-INVALID_VALUE] * 2
    graphs.does("e, f = cu.event(), cu.event(); cu.capture(s); cu('cuStreamWaitEvent', s, f, 1); cu('cuEventRecordWithFlags', e, s, 1); captured = cu.captured(s)")
    assert graphs.says("cu.types(captured), cu.edges(captured), cu('cuEventQuery', e)") == ([WAIT_EVENT, EVENT_RECORD], [(0, 1)], None)
    assert graphs.says("run(instantiate(captured)), cu('cuEventQuery', e)") == (None, None)


def test_a_child_is_launched_where_it_stands(graphs):
    graphs.does("child = g; sets(p, 7); g = cu('cuGraphCreate', c.c_void_p, 0); a = sets(p, 1); b = add('ChildGraphNode', [child], a); copy = Box(to_type=2, to_device=p + 4, from_type=2, from_device=p, width=4, height=1, depth=1)")
    graphs.does("add('MemcpyNode', [c.byref(copy), context], b); cu('cuGraphDestroy', child); run(instantiate())")
    assert graphs.says("cu.word(p + 4), cu.types(cu('cuGraphChildGraphNodeGetGraph', b, c.c_void_p))") == (7, [MEMSET])
    assert graphs.says("cu('cuGraphDestroy', cu('cuGraphChildGraphNodeGetGraph', b, c.c_void_p))") == -INVALID_VALUE


def test_a_launch_is_captured_as_a_child(graphs):
    graphs.does("sets(p, 7); e = instantiate(); cu.capture(s); cu('cuGraphLaunch', e, s); cu('cuLaunchHostFunc', s, call, 5); outer = cu.captured(s)")
    assert graphs.says("cu.types(outer), cu.edges(outer), run(instantiate(outer)), cu.word(p)") == ([GRAPH, HOST], [(0, 1)], None, 7)


def test_an_executable_graph_does_what_another_of_its_form_does(graphs):
    graphs.does("sets(p, 7, kernel()); e = instantiate(); g = cu('cuGraphCreate', c.c_void_p, 0); sets(p, 9, kernel()); info = (c.c_uint64 * 3)(1)")
    assert graphs.says("cu('cuGraphExecUpdate_v2', e, g, info), info[0], run(e), cu.word(p)") == (None, 0, None, 9)
    graphs.does("empty(); larger = g; g = cu('cuGraphCreate', c.c_void_p, 0); sets(p, 9); kernel(cu.nodes(g)[0]); swapped = g; g = cu('cuGraphCreate', c.c_void_p, 0); kernel(); sets(p, 9)")
    for name, why in (("larger", 2), ("swapped", 3), ("g", 2)):
        assert graphs.says(f"cu('cuGraphExecUpdate_v2', e, {name}, info)") == -UPDATE_FAILURE
        assert graphs.says("info[0] & 15, run(e), cu.word(p)") == (why, None, 9)


def test_a_kernel_of_an_executable_graph_gets_other_parameters(graphs):
    graphs.does(f"n = kernel(ns=0); e = instantiate(); ns = c.c_uint64({8 * MS}); pointers = (c.c_void_p * 1)(c.addressof(ns)); before, after = cu.event(), cu.event()")
    graphs.does("cu('cuGraphExecKernelNodeSetParams_v2', e, n, c.byref(Kernel(spin, pointers=pointers))); cu('cuEventRecord', before, s); cu('cuGraphLaunch', e, s); cu('cuEventRecord', after, s)")
    assert graphs.says("cu('cuStreamSynchronize', s), cu('cuEventElapsedTime', c.c_float, before, after) >= 8") == (None, True)
    assert graphs.says("cu('cuGraphExecKernelNodeSetParams_v2', e, empty(), c.byref(Kernel(nothing)))") == -INVALID_VALUE


# --- Memory ---


def test_memory_of_a_graph_is_taken_by_the_first_launch_and_given_back_by_a_trim(graphs):
    before = used()
    graphs.does(f"a, at = allocate({3 * GRANULE}); b = sets(at, 7, a); add('MemFreeNode', [at], b); e = instantiate()")
    assert used() == before and attribute(graphs, USED) == attribute(graphs, RESERVED) == 0
    graphs.does("run(e); run(e)")
    assert used() == before + 3 * GRANULE and attribute(graphs, USED) == attribute(graphs, RESERVED) == 3 * GRANULE
    graphs.does("cu('cuDeviceGraphMemTrim', 0)")
    assert used() == before and attribute(graphs, RESERVED) == 0
    graphs.does("run(e); cu('cuGraphExecDestroy', e); cu('cuGraphDestroy', g)")
    assert (attribute(graphs, USED), attribute(graphs, RESERVED), used()) == (0, 3 * GRANULE, before + 3 * GRANULE)
    graphs.does("cu('cuDeviceGraphMemTrim', 0)")
    assert used() == before


def test_what_a_graph_leaves_reserved_is_the_next_ones(graphs):
    before = used()
    graphs.does(f"add('MemFreeNode', [allocate({3 * GRANULE})[1]]); e = instantiate(); run(e); g = cu('cuGraphCreate', c.c_void_p, 0)")
    graphs.does(f"add('MemFreeNode', [allocate({2 * GRANULE})[1]]); cu('cuGraphExecDestroy', e); run(instantiate())")
    assert used() == before + 3 * GRANULE and attribute(graphs, USED) == 2 * GRANULE


@pytest.mark.parametrize("upload", ["cu('cuGraphUpload', instantiate(), s)", f"cu('cuGraphInstantiateWithParams', c.c_void_p, g, (c.c_uint64 * 4)({UPLOAD}))"])
def test_an_upload_takes_the_memory(graphs, upload):
    before = used()
    graphs.does(f"allocate({GRANULE + 1}); {upload}")
    assert used() == before + 2 * GRANULE and attribute(graphs, USED) == 2 * GRANULE


def test_an_upload_is_into_a_stream(graphs):
    graphs.does(f"upload = lambda stream: cu('cuGraphInstantiateWithParams', c.c_void_p, g, (c.c_uint64 * 4)({UPLOAD}, stream)); cu.capture(s)")
    assert [graphs.says(f"upload({stream})") for stream in ("4096", "s")] == [-INVALID_HANDLE, -UNSUPPORTED]
    assert graphs.says("cu.captured(s)") == -INVALIDATED and graphs.says("upload(s) > 0") is True


def test_a_launch_needs_room_on_the_card(graphs):
    left = graphs.says("cu.free()")
    graphs.does(f"allocate({left}); e = instantiate(); a = cu.alloc({GRANULE})")
    assert graphs.says("cu('cuGraphLaunch', e, s)") == -OUT_OF_MEMORY and attribute(graphs, USED) == 0
    assert graphs.says("cu('cuMemFree_v2', a), run(e), cu.free()") == (None, None, 0)


def test_a_graph_gets_the_memory_of_one_that_does_not_run(graphs):
    graphs.does("half = cu.free() // 2 + (2 << 20); add('MemFreeNode', [allocate(half)[1]]); one = instantiate(); g = cu('cuGraphCreate', c.c_void_p, 0)")
    graphs.does("add('MemFreeNode', [allocate(half)[1]]); two = instantiate(); run(one); run(two); gate = cu.hold(s); cu('cuGraphLaunch', one, s); t = cu.stream(1)")
    assert graphs.says("cu('cuGraphLaunch', two, t)") == -OUT_OF_MEMORY
    assert graphs.says("gate.set(), cu('cuStreamSynchronize', s), cu('cuGraphLaunch', two, t)") == (None, None, None)


@pytest.mark.parametrize("free", ["cu('cuMemFree_v2', at)", "cu('cuMemFreeAsync', at, s)"])
def test_what_a_graph_does_not_free_is_the_programs(graphs, free):
    before = used()
    graphs.does("a, at = allocate(4); sets(at, 7, a); e = instantiate(); run(e)")
    assert graphs.says("cu.word(at)") == 7 and graphs.says("cu('cuGraphLaunch', e, s)") == -INVALID_VALUE
    graphs.does("cu('cuDeviceGraphMemTrim', 0)")
    assert used() == before + GRANULE
    assert graphs.says(f"{free}, cu.code('cuMemFree_v2', at), run(e)") == (None, INVALID_VALUE, None)
    graphs.does("cu('cuGraphExecDestroy', e); cu('cuGraphDestroy', g); cu('cuDeviceGraphMemTrim', 0)")
    assert used() == before + GRANULE and graphs.says("cu.word(at)") == 7
    assert graphs.says(f"{free}, cu('cuStreamSynchronize', s), cu('cuDeviceGraphMemTrim', 0)") == (None, None, None) and used() == before


def test_a_launch_frees_what_the_last_one_gave_where_that_was_wanted(graphs):
    before = used()
    graphs.does(f"allocate(4); e = instantiate(flags={AUTO_FREE}); run(e); run(e); run(e)")
    assert used() == before + GRANULE


def test_another_graph_frees_what_a_graph_gave(graphs):
    graphs.does("a, at = allocate(4); e = instantiate(); g = cu('cuGraphCreate', c.c_void_p, 0); b = add('MemFreeNode', [at]); frees = instantiate()")
    assert graphs.says("cu('cuGraphLaunch', frees, s)") == -INVALID_VALUE
    assert graphs.says("run(e), run(frees), run(e), run(frees), cu.code('cuMemFree_v2', at)") == (None, None, None, None, INVALID_VALUE)
    assert graphs.says("cu('cuGraphMemFreeNodeGetParams', b, c.c_uint64) == at") is True


def test_memory_keeps_its_graph_from_some_things(graphs):
    graphs.does("a, at = allocate(4); b = add('MemFreeNode', [at], a); e = instantiate()")
    assert graphs.says("instantiate()") == -INVALID_VALUE
    assert graphs.says("add('MemFreeNode', [at], a)") == -INVALID_VALUE
    assert graphs.says("cu('cuGraphClone', c.c_void_p, g)") == -NOT_SUPPORTED
    assert graphs.says("cu('cuGraphDestroyNode', b)") == -NOT_SUPPORTED
    assert graphs.says("add('ChildGraphNode', [g], to=cu('cuGraphCreate', c.c_void_p, 0))") == -NOT_SUPPORTED
    graphs.does("found = Allocation(0); cu('cuGraphMemAllocNodeGetParams', a, c.byref(found))")
    assert graphs.says("found.at == at, found.size, cu('cuGraphExecDestroy', e), instantiate() > 0") == (True, 4, None, True)


def test_memory_of_a_captured_stream_is_the_graphs(graphs):
    before = used()
    graphs.does("cu.capture(s); at = cu('cuMemAllocAsync', c.c_uint64, 4, s); cu('cuMemsetD32Async', at, 7, 1, s); cu('cuMemFreeAsync', at, s); captured = cu.captured(s)")
    assert graphs.says("cu.types(captured)") == [MEM_ALLOC, MEMSET, MEM_FREE] and used() == before
    graphs.does("run(instantiate(captured))")
    assert used() == before + GRANULE


def test_a_captured_stream_frees_no_other_memory(graphs):
    graphs.does("cu.capture(s)")
    assert graphs.says("cu('cuMemFreeAsync', p, s)") == -INVALID_VALUE
    assert graphs.says("cu.captured(s)") == -INVALIDATED


def test_the_highest_values_are_kept_until_they_are_reset(graphs):
    graphs.does(f"add('MemFreeNode', [allocate({GRANULE})[1]]); run(instantiate()); cu('cuDeviceGraphMemTrim', 0)")
    assert [attribute(graphs, which) for which in range(4)] == [0, GRANULE, 0, GRANULE]
    graphs.does(f"zero = c.c_uint64(); cu('cuDeviceSetGraphMemAttribute', 0, {USED_HIGH}, c.byref(zero)); cu('cuDeviceSetGraphMemAttribute', 0, {RESERVED_HIGH}, c.byref(zero))")
    assert [attribute(graphs, which) for which in range(4)] == [0, 0, 0, 0]
    assert graphs.says(f"cu('cuDeviceSetGraphMemAttribute', 0, {USED}, c.byref(zero))") == -INVALID_VALUE
    assert attribute(graphs, 4) == -INVALID_VALUE and attribute(graphs, USED, device=2) == -INVALID_DEVICE
    assert graphs.says("cu('cuDeviceGraphMemTrim', 2)") == -INVALID_DEVICE
