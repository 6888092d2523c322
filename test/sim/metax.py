# SPDX-License-Identifier: Apache-2.0
"""MetaX's library as a client sees it: declarations of its ABI, from its description, and short ways to call it."""
import ctypes as c
import os
import sys

from conftest import OUT

LIB = c.CDLL(str(OUT / "libmxsml.so"), use_errno=True)
for counting in ("mxSmlGetDeviceBoardId",):
    getattr(LIB, counting).restype = c.c_int
LIB.mxSmlGetErrorString.restype = c.c_char_p
LIB.mxSmlDeviceRegisterEvents.argtypes = [c.c_uint, c.c_ulonglong, c.c_void_p]
for of_set in ("mxSmlEventSetWait", "mxSmlEventSetFree"):
    getattr(LIB, of_set).argtypes = [c.c_void_p, c.c_void_p][: 2 if of_set.endswith("Wait") else 1]

SUCCESS, FAILURE, NO_DEVICE, NOT_SUPPORT, SYSFS, SYSFS_WRITE, BAD_DEVICE = range(7)
PERMISSION, BAD_INPUT, TOO_SMALL, VF_GONE, BUSY = 8, 9, 10, 18, 23
BEST_EFFORT, FIXED_SHARE, BURST_SHARE = range(3)
NATIVE, PF, VF = range(3)

# The symbols of the description's three tables.
LIFE = """mxSmlInit mxSmlInitWithFlags mxSmlGetDeviceCount mxSmlGetPfDeviceCount mxSmlGetVirtualDevicesByPhysicalId
mxSmlGetDeviceInfo mxSmlGetAllLimitedDevices mxSmlGetLimitedDeviceInfo mxSmlGetMemoryInfo mxSmlGetDeviceVersion
mxSmlGetMacaVersion mxSmlGetDeviceState mxSmlGetDeviceUnavailableReason mxSmlGetSriovState mxSmlGetDeviceSlot
mxSmlGetDeviceBoardId mxSmlGetDeviceRealPath mxSmlGetErrorString""".split()
SLICES = """mxSmlGetSgpuToggle mxSmlSetSgpuToggle mxSmlCreateSgpu mxSmlRemoveSgpu mxSmlGetSgpuCount mxSmlGetSgpuInfo
mxSmlGetSgpuState mxSmlSetSgpuVramQuota mxSmlSetSgpuComputeQuota mxSmlSetSgpuDeviceQueuePriority
mxSmlGetSgpuAvailableQuota mxSmlGetSgpuUsage mxSmlGetSgpuMemory mxSmlGetDeviceTimeslice mxSmlSetDeviceTimeslice
mxSmlGetDeviceSchedClass mxSmlSetDeviceSchedClass mxSmlGetSgpuAlias mxSmlSetSgpuAlias
mxSmlGetSgpuAnnotationsId""".split()
HEALTH = """mxSmlGetEccState mxSmlGetTotalEccErrors mxSmlGetNumberOfProcess mxSmlGetProcessInfo_v3
mxSmlGetSingleGpuProcess_v3 mxSmlGetDeviceTopology mxSmlGetDeviceDistance mxSmlGetMetaXLinkInfo_v2
mxSmlGetMetaXLinkRemoteInfo mxSmlGetMetaXLinkTopo mxSmlGetNodeAffinity mxSmlGetCpuAffinity mxSmlGetDeviceIpUsage
mxSmlGetBoardPowerInfo mxSmlGetBoardPowerLimit mxSmlGetTemperatureInfo mxSmlReset mxSmlFunctionLevelReset
mxSmlEventSetCreate mxSmlDeviceRegisterEvents mxSmlEventSetWait mxSmlEventSetFree""".split()
SYMBOLS = LIFE + SLICES + HEALTH


def struct(name, *fields):
    return type(name, (c.Structure,), {"_fields_": list(fields)})


def unsigneds(name, *names):
    return struct(name, *((n, c.c_uint) for n in names))


Ids = struct("Ids", ("number", c.c_int), ("device", c.c_int * 128))
Info = struct(
    "Info",
    ("device", c.c_uint),
    ("type", c.c_uint),
    ("bdf", c.c_char * 32),
    ("gpu", c.c_uint),
    ("node", c.c_uint),
    ("uuid", c.c_char * 96),
    ("brand", c.c_uint),
    ("mode", c.c_uint),
    ("name", c.c_char * 32),
)
Memory = struct("Memory", *((n, c.c_long) for n in ("vis_total", "vis_use", "total", "use", "xtt_total", "xtt_use")))
Reason = struct("Reason", ("code", c.c_int), ("reason", c.c_char * 64))
Slice = struct(
    "Slice",
    ("parent", c.c_uint),
    ("id", c.c_uint),
    ("vram", c.c_uint),
    ("sw_priority", c.c_uint),
    ("compute", c.c_uint),
    ("minor", c.c_uint),
    ("priority", c.c_uint),
    ("uuid", c.c_char * 96),
)
Quota = unsigneds("Quota", "total", "vram", "compute")
SliceMemory = struct("SliceMemory", ("total", c.c_long), ("used", c.c_long), ("free", c.c_long))
Ecc = unsigneds("Ecc", "sram_ce", "sram_ue", "dram_ce", "dram_ue", "retired")
OnGpu = struct(
    "OnGpu",
    ("bdf", c.c_char * 32),
    ("gpu", c.c_uint),
    ("memory", c.c_ulong),
    ("die", c.c_uint),
    ("slice", c.c_int),
)
Process = struct(
    "Process", ("pid", c.c_uint), ("name", c.c_char * 64), ("gpus", c.c_uint), ("gpu", OnGpu * 64)
)
Link = struct("Link", ("speed", c.c_float), ("lanes", c.c_uint))
Remote = struct("Remote", ("device", c.c_int), ("bdf", c.c_char * 32))
LinkTopo = unsigneds("LinkTopo", "topology", "socket", "die")
Power = unsigneds("Power", "voltage", "current", "power")
Event = struct("Event", ("device", c.c_int), ("type", c.c_int), ("data", c.c_char * 1024))


class Refused(Exception):
    """The return code of a call that failed, and its errno."""

    def __init__(self, call, code):
        super().__init__(f"{call}: {code}")
        self.code, self.errno = code, c.get_errno()


def call(name, *args):
    """The call "mxSml" + name, which must succeed."""
    code = getattr(LIB, "mxSml" + name)(*args)
    if code != SUCCESS:
        raise Refused(name, code)


def get(name, kind, *args):
    """What the call writes behind its last argument: an integer, or a struct."""
    out = kind()
    call(name, *args, c.byref(out))
    return out.value if hasattr(out, "value") else out


def text(name, *args):
    """A text that is asked with its room."""
    size = c.c_uint(0)
    code = getattr(LIB, "mxSml" + name)(*args, None, c.byref(size))
    assert code == TOO_SMALL, code
    out = c.create_string_buffer(size.value)
    call(name, *args, out, c.byref(size))
    return out.value.decode()


def start():
    """Reads the hardware that the environment names now."""
    call("InitWithFlags", 1)


def code_of(name, *args):
    c.set_errno(0)
    return getattr(LIB, "mxSml" + name)(*args)


def refused(name, *args):
    """The return code of a call that must fail, with its errno."""
    code = code_of(name, *args)
    assert code != SUCCESS, name
    return code, c.get_errno()


def toggle(dev=0, on=1):
    call("SetSgpuToggle", dev, on)


def create(vram, compute, dev=0):
    return get("CreateSgpu", c.c_uint, dev, vram, compute)


def info(dev=0):
    return get("GetDeviceInfo", Info, dev)


def slice_info(id, dev=0):
    return get("GetSgpuInfo", Slice, dev, id)


def slices(dev=0):
    """The slices that there are."""
    return [slice_info(i, dev) for i in range(16) if code_of("GetSgpuInfo", dev, i, c.byref(Slice())) == SUCCESS]


def child(work):
    """Runs `work` as a client in a forked process; its exit code, or minus its signal."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            call("Init")
            work()
            code = 0
        except Refused as e:
            print(e, file=sys.stderr)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
