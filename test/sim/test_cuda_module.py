# SPDX-License-Identifier: Apache-2.0
"""The simulated CUDA driver: modules and libraries of PTX."""
import pytest
from cuda import CONTEXT, FILE_NOT_FOUND, GRANULE, INVALID_CONTEXT, INVALID_HANDLE, INVALID_IMAGE, INVALID_PTX, INVALID_VALUE
from cuda import MIB, NO_BINARY, NOT_FOUND, NOT_READY, OUT_OF_MEMORY, SPIN, UNSUPPORTED_PTX
from test_cuda import ROOM, listed

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"


def refusal(worker, text):
    return worker.says(f"cu.code('cuModuleLoadData', c.c_void_p, {text.encode()!r})")


# --- What is no module ---


NO_MODULES = [
    ("", INVALID_IMAGE),
    ("hello", INVALID_IMAGE),
    ("\x01\x02\x03", INVALID_IMAGE),
    ("// a comment", INVALID_IMAGE),
    (".version", INVALID_PTX),
    (".version 8.0", INVALID_PTX),
    (".version x.y .target sm_90", INVALID_PTX),
    (".version 8.0 .target tx_90", INVALID_PTX),
    (".version 8.0 .target sm_90 .address_size 32", INVALID_PTX),
    (HEAD + ".nonsense", INVALID_PTX),
    (HEAD + "ret;", INVALID_PTX),
    (HEAD + ".entry", INVALID_PTX),
    (HEAD + ".entry f", INVALID_PTX),
    (HEAD + ".entry f(", INVALID_PTX),
    (HEAD + ".entry f(.param .u64) {}", INVALID_PTX),
    (HEAD + ".entry f(.param x) {}", INVALID_PTX),
    (HEAD + ".entry f(.param .u64 a,) {}", INVALID_PTX),
    (HEAD + ".entry f(.param .align 3 .b8 a[4]) {}", INVALID_PTX),
    (HEAD + ".entry f(.param .b8 a[32765]) {}", INVALID_PTX),
    (HEAD + ".entry f() {", INVALID_PTX),
    (HEAD + ".entry f() {} .entry f() {}", INVALID_PTX),
    (HEAD + ".entry f() { .shared .b8 a[99999999999999]; }", INVALID_PTX),
    (HEAD + ".global .u32 a[1099511627776];", INVALID_PTX),
    (HEAD + ".global .u32 a[4294967296][4294967296];", INVALID_PTX),
    (HEAD + ".global .u32 a", INVALID_PTX),
    (HEAD + ".global .u32 a[-1];", INVALID_PTX),
    (HEAD + ".section .debug { { }", INVALID_PTX),
    (HEAD.replace("sm_90", "sm_100"), INVALID_PTX),
    (HEAD.replace("8.0", "9.9"), UNSUPPORTED_PTX),
]


@pytest.mark.parametrize(("text", "code"), NO_MODULES)
def test_what_is_no_module_for_the_card_is_refused(worker, text, code):
    assert refusal(worker, text) == code
    assert worker.says("cu.free()") == ROOM - CONTEXT


@pytest.mark.parametrize("begin", [b"\x7fELF", b"\x50\xed\x55\xba", b"\xb1\x43\x62\x46"])
@pytest.mark.parametrize("call", ["cuModuleLoadData", "cuModuleLoadFatBinary"])
def test_machine_code_is_for_other_cards(worker, call, begin):
    assert worker.says(f"cu.code({call!r}, c.c_void_p, {begin + b'!'!r})") == NO_BINARY


def test_a_long_row_of_brackets_does_no_harm(worker):
    assert worker.says(f"cu.code('cuModuleLoadData', c.c_void_p, {HEAD.encode()!r} + b'.entry f() ' + b'{{' * 10**6)") == INVALID_PTX
    assert worker.says(f"cu.code('cuModuleLoadData', c.c_void_p, {HEAD.encode()!r} + b'.entry f(.param .u8 ' + b'a' * 10**6)") == INVALID_PTX


def test_the_compiler_says_what_is_wrong(worker):
    worker.does("""
log = c.create_string_buffer(100)
options, values = (c.c_int * 4)(5, 6, 3, 4), (c.c_void_p * 4)(c.addressof(log), 100, c.addressof(c.create_string_buffer(9)), 9)
""")
    worker.does(f"load = lambda text: cu.code('cuModuleLoadDataEx', c.c_void_p, text, 4, options, values); bad = load({(HEAD + '.entry;').encode()!r})")
    assert worker.says("bad") == INVALID_PTX and b"line 4" in worker.says("log.value") and worker.says("values[1], values[3]") == (worker.says("len(log.value)"), None)
    worker.does("values[1] = 100")
    assert worker.says(f"load({HEAD.encode()!r}), values[1]") == (0, None)
    worker.does("options[0] = 99")
    assert worker.says(f"load({HEAD.encode()!r})") == INVALID_VALUE
    assert worker.says("cu.code('cuModuleLoadDataEx', c.c_void_p, b'', 1, None, None)") == INVALID_VALUE


# --- What is one ---


WHOLE = (
    """// as a compiler writes it
/* .version 1.0 */
"""
    + HEAD.replace("sm_90", "sm_90a, debug")
    + """
    .file 1 "/a/b.cu", 1234, 56
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.weak .func (.param .b32 r) helper(.param .b64 a)
{ { ret; } }
.extern .shared .align 16 .b8 dynamic[];
.global .align 1 .b8 text[] = {104, 105, 0};
.global .v4 .f32 four, eight[2] = {0f00000000};
.extern .global .u32 elsewhere;
.const .u64 pointer = generic(text);
.visible .entry _Z1fPfi(.param .u64 .ptr .global .align 4 a, .param .u32 b)
.reqntid 32, 2
.minnctapersm 1
{
  .reg .b32 %r<2>;
  $L__BB0: .loc 1 2 3
  { .param .b64 p; call (r), helper, (p); }
  ld.shared.u32 %r1, [dynamic];
}
.section .debug_str { .b8 1, 2 }
"""
)


def test_a_module_has_its_functions_and_variables(worker):
    worker.does(f"m = cu.load({WHOLE.encode()!r}); f = cu('cuModuleGetFunction', c.c_void_p, m, b'_Z1fPfi')")
    assert worker.says("cu('cuFuncGetAttribute', c.c_int, 0, f)") == 64
    found = "cu('cuModuleGetGlobal_v2', c.c_uint64, c.c_size_t, m, {!r})"
    assert [worker.says(found.format(name))[1] for name in (b"text", b"four", b"eight", b"pointer")] == [3, 16, 32, 8]
    worker.does(f"p, size = {found.format(b'eight')}; cu('cuMemsetD8_v2', p, 1, size)")
    assert worker.says("p % 16, cu('cuMemGetAddressRange_v2', c.c_uint64, c.c_size_t, p + 5) == (p, 32)") == (0, True)
    assert worker.says("cu('cuMemFree_v2', p)") == -INVALID_VALUE
    for name in (b"elsewhere", b"dynamic", b"_Z1fPfi"):
        assert worker.says(found.format(name)) == -NOT_FOUND
    assert worker.says("cu('cuModuleGetFunction', c.c_void_p, m, b'helper')") == -NOT_FOUND
    assert worker.says("cu('cuModuleGetFunction', c.c_void_p, m, None)") == -INVALID_VALUE
    assert worker.says("cu('cuModuleGetGlobal_v2', None, None, m, b'text')") is None


def test_a_module_takes_memory_and_gives_it_back(worker):
    text = SPIN + b".global .b8 large[%d];" % (5 * MIB)
    worker.does(f"m = cu.load({text!r})")
    assert worker.says("cu.free()") == ROOM - CONTEXT - 4 * GRANULE
    assert listed() == {worker.pid: CONTEXT + 4 * GRANULE}
    worker.does("f = cu('cuModuleGetFunction', c.c_void_p, m, b'nothing'); cu('cuModuleUnload', m)")
    assert worker.says("cu.free()") == ROOM - CONTEXT
    assert worker.says("cu('cuModuleUnload', m)") == -INVALID_HANDLE and worker.says("cu.launch(f)") == -INVALID_HANDLE
    assert worker.says(f"cu.load({SPIN!r} + b'.global .b8 huge[{ROOM}];')") == -OUT_OF_MEMORY
    assert worker.says("cu.free()") == ROOM - CONTEXT


def test_a_kernel_goes_on_when_its_module_is_unloaded(worker):
    worker.does("m, s = cu.load(), cu.stream(1); cu.launch(cu('cuModuleGetFunction', c.c_void_p, m, b'spin_ns'), c.c_uint64(FOREVER), stream=s)")
    worker.does("cu('cuModuleUnload', m)")
    assert worker.says("cu.code('cuStreamQuery', s)") == NOT_READY


def test_a_module_comes_from_a_file(worker, tmp_path):
    (tmp_path / "m.ptx").write_bytes(SPIN)
    assert worker.says(f"cu('cuModuleLoad', c.c_void_p, {str(tmp_path / 'm.ptx').encode()!r}) > 0") is True
    assert worker.says(f"cu('cuModuleLoad', c.c_void_p, {str(tmp_path / 'none').encode()!r})") == -FILE_NOT_FOUND
    assert worker.says(f"cu('cuModuleLoad', c.c_void_p, {str(tmp_path).encode()!r})") == -FILE_NOT_FOUND
    assert worker.says("cu('cuModuleLoad', c.c_void_p, None)") == -INVALID_VALUE
    (tmp_path / "m.ptx").write_bytes(b"")
    assert worker.says(f"cu('cuModuleLoad', c.c_void_p, {str(tmp_path / 'm.ptx').encode()!r})") == -INVALID_IMAGE


def test_a_module_is_its_contexts(worker):
    worker.does("m = cu.load(); f = cu('cuModuleGetFunction', c.c_void_p, m, b'nothing'); cu('cuCtxCreate_v2', c.c_void_p, 0, 1)")
    assert worker.says("cu.launch(f)") == -INVALID_HANDLE
    worker.does("cu('cuDevicePrimaryCtxReset_v2', 0)")
    assert worker.says("cu('cuModuleGetFunction', c.c_void_p, m, b'nothing')") == -INVALID_HANDLE
    worker.does("cu('cuCtxSetCurrent', None); cu('cuCtxSetCurrent', None)")
    assert worker.says("cu.load()") == -INVALID_CONTEXT


# --- Libraries ---


def test_a_library_is_loaded_into_each_context_that_needs_it(client):
    one = client()
    one.does("cu.init(); l = cu('cuLibraryLoadData', c.c_void_p, c.c_char_p(cu.SPIN), None, None, 0, None, None, 0)")
    one.does("k = cu('cuLibraryGetKernel', c.c_void_p, l, b'nothing')")
    assert one.says("cu('cuLibraryGetModule', c.c_void_p, l)") == -INVALID_CONTEXT and listed() == {}
    one.does("cu.init(0)")
    before = one.says("cu.free()")
    one.does("m, f = cu('cuLibraryGetModule', c.c_void_p, l), cu('cuKernelGetFunction', c.c_void_p, k)")
    assert one.says("cu.free()") == before - GRANULE
    assert one.says("[cu('cuLibraryGetModule', c.c_void_p, l) == m, cu('cuModuleGetFunction', c.c_void_p, m, b'nothing') == f]") == [True, True]
    assert one.says("[cu.launch(f), cu.launch(k), cu('cuFuncGetAttribute', c.c_int, 0, k)]") == [None, None, 1024]
    assert one.says("cu('cuModuleUnload', m)") == -INVALID_HANDLE
    one.does("cu('cuCtxCreate_v2', c.c_void_p, 0, 1); cu.launch(k)")
    one.does("cu('cuCtxDestroy_v2', cu('cuCtxGetCurrent', c.c_void_p)); cu('cuCtxSetCurrent', cu('cuDevicePrimaryCtxRetain', c.c_void_p, 0))")
    one.does("cu.launch(k); cu('cuLibraryUnload', l)")
    assert one.says("cu.free()") == before
    for call in ("'cuLibraryUnload', l", "'cuLibraryGetModule', c.c_void_p, l", "'cuLibraryGetKernel', c.c_void_p, l, b'nothing'", "'cuKernelGetFunction', c.c_void_p, k"):
        assert one.says(f"cu({call})") == -INVALID_HANDLE
    assert one.says("cu.launch(k)") == -INVALID_HANDLE


def test_a_library_that_is_none_is_refused(worker):
    load = "cu('cuLibraryLoadData', {}, {}, None, None, {}, None, None, 0)"
    assert worker.says(load.format("c.c_void_p", "b'hello'", 0)) == -INVALID_IMAGE
    assert worker.says(load.format("None", "c.c_char_p(cu.SPIN)", 0)) == -INVALID_VALUE
    assert worker.says(load.format("c.c_void_p", "c.c_char_p(cu.SPIN)", 1)) == -INVALID_VALUE
    worker.does(f"l = {load.format('c.c_void_p', 'c.c_char_p(cu.SPIN)', 0)}")
    assert worker.says("cu('cuLibraryGetKernel', c.c_void_p, l, b'none')") == -NOT_FOUND
    assert worker.says("cu('cuLibraryGetKernel', None, l, b'nothing')") == -INVALID_VALUE
