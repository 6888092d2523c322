/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

#include "nodeagent/vendor/metax/mxsml_abi.h"

/* The library as a table of functions (lib_table.h). X(member, needed, name, result, arguments) */
#define MXSML_FUNCTIONS(X)                                                                         \
    X(init, 1, "mxSmlInit", mxsml_ret, (void))                                                     \
    X(init_again, 0, "mxSmlInitWithFlags", mxsml_ret, (unsigned))                                  \
    X(count, 1, "mxSmlGetDeviceCount", unsigned, (void))                                           \
    X(pf_count, 0, "mxSmlGetPfDeviceCount", unsigned, (void))                                      \
    X(virtual_devices, 0, "mxSmlGetVirtualDevicesByPhysicalId", mxsml_ret,                         \
      (unsigned, struct mxsml_ids *))                                                              \
    X(info, 1, "mxSmlGetDeviceInfo", mxsml_ret, (unsigned, struct mxsml_info *))                   \
    X(memory, 0, "mxSmlGetMemoryInfo", mxsml_ret, (unsigned, struct mxsml_memory *))               \
    X(version, 0, "mxSmlGetDeviceVersion", mxsml_ret, (unsigned, unsigned, char *, unsigned *))    \
    X(maca_version, 0, "mxSmlGetMacaVersion", mxsml_ret, (char *, unsigned *))                     \
    X(state, 0, "mxSmlGetDeviceState", mxsml_ret, (unsigned, int *))                               \
    X(unavailable, 0, "mxSmlGetDeviceUnavailableReason", mxsml_ret,                                \
      (unsigned, struct mxsml_unavailable *))                                                      \
    X(toggle, 0, "mxSmlGetSgpuToggle", mxsml_ret, (unsigned, unsigned *))                          \
    X(set_toggle, 0, "mxSmlSetSgpuToggle", mxsml_ret, (unsigned, unsigned))                        \
    X(slice_create, 0, "mxSmlCreateSgpu", mxsml_ret, (unsigned, unsigned, unsigned, unsigned *))   \
    X(slice_remove, 0, "mxSmlRemoveSgpu", mxsml_ret, (unsigned, unsigned))                         \
    X(slice_count, 0, "mxSmlGetSgpuCount", unsigned, (unsigned))                                   \
    X(slice_info, 0, "mxSmlGetSgpuInfo", mxsml_ret, (unsigned, unsigned, struct mxsml_slice *))    \
    X(slice_state, 0, "mxSmlGetSgpuState", mxsml_ret, (unsigned, unsigned, int *))                 \
    X(quota, 0, "mxSmlGetSgpuAvailableQuota", mxsml_ret, (unsigned, struct mxsml_quota *))         \
    X(timeslice, 0, "mxSmlGetDeviceTimeslice", mxsml_ret, (unsigned, unsigned *))                  \
    X(set_timeslice, 0, "mxSmlSetDeviceTimeslice", mxsml_ret, (unsigned, unsigned))                \
    X(sched_class, 0, "mxSmlGetDeviceSchedClass", mxsml_ret, (unsigned, unsigned *))               \
    X(set_sched_class, 0, "mxSmlSetDeviceSchedClass", mxsml_ret, (unsigned, unsigned))             \
    X(alias, 0, "mxSmlGetSgpuAlias", mxsml_ret, (unsigned, unsigned, char *, unsigned *))          \
    X(set_alias, 0, "mxSmlSetSgpuAlias", mxsml_ret, (unsigned, unsigned, char *))                  \
    X(ecc_state, 0, "mxSmlGetEccState", mxsml_ret, (unsigned, unsigned *))                         \
    X(ecc_errors, 0, "mxSmlGetTotalEccErrors", mxsml_ret, (unsigned, struct mxsml_ecc *))          \
    X(processes, 0, "mxSmlGetSingleGpuProcess_v3", mxsml_ret,                                      \
      (unsigned, unsigned *, struct mxsml_process *))                                              \
    X(topology, 0, "mxSmlGetDeviceTopology", mxsml_ret, (unsigned, unsigned, unsigned *))          \
    X(temperature, 0, "mxSmlGetTemperatureInfo", mxsml_ret, (unsigned, unsigned, int *))           \
    X(power, 0, "mxSmlGetBoardPowerInfo", mxsml_ret, (unsigned, unsigned *, struct mxsml_power *)) \
    X(power_limit, 0, "mxSmlGetBoardPowerLimit", mxsml_ret, (unsigned, unsigned *))                \
    X(usage, 0, "mxSmlGetDeviceIpUsage", mxsml_ret, (unsigned, unsigned, int *))                   \
    X(reset, 0, "mxSmlReset", mxsml_ret, (unsigned))

#define MXSML_MEMBER(member, needed, name, result, args) result(*member) args;
#define MXSML_NAME(member, needed, name, result, args)   const char *member;

struct mxsml_lib {
    void *dl;
    const char *(*error_string)(mxsml_ret);
    MXSML_FUNCTIONS(MXSML_MEMBER)
};

/* The functions' names, for messages and the watchdog. */
struct mxsml_names {
    MXSML_FUNCTIONS(MXSML_NAME)
};
extern const struct mxsml_names mxsml_names;

/* Loads the library (NULL: libmxsml.so by the loader's rules, then MetaX's folder). ERR_NOT_FOUND,
 * ERR_PROTOCOL as lib_table_open. Caller closes. */
int mxsml_lib_open(const char *path, struct mxsml_lib *ret, struct err *e) MUST_CHECK;
void mxsml_lib_close(struct mxsml_lib *lib);

/* Sets e from a return code and the call's errno: a kind, a CamelCase reason, the call's name and
 * the library's text. Returns -kind. */
int mxsml_lib_error(const struct mxsml_lib *lib, const char *call, mxsml_ret rc, int saved_errno,
                    struct err *e);
