/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, offsets and version words of the ABI, as measured; a wrong field stops the build. */
#include <stddef.h>

#include "sim/nvml.h"

_Static_assert(sizeof(nvmlPciInfo_t) == 68, "nvmlPciInfo_t");
_Static_assert(offsetof(nvmlPciInfo_t, busIdLegacy) == 0, "nvmlPciInfo_t.busIdLegacy");
_Static_assert(offsetof(nvmlPciInfo_t, domain) == 16, "nvmlPciInfo_t.domain");
_Static_assert(offsetof(nvmlPciInfo_t, bus) == 20, "nvmlPciInfo_t.bus");
_Static_assert(offsetof(nvmlPciInfo_t, device) == 24, "nvmlPciInfo_t.device");
_Static_assert(offsetof(nvmlPciInfo_t, pciDeviceId) == 28, "nvmlPciInfo_t.pciDeviceId");
_Static_assert(offsetof(nvmlPciInfo_t, pciSubSystemId) == 32, "nvmlPciInfo_t.pciSubSystemId");
_Static_assert(offsetof(nvmlPciInfo_t, busId) == 36, "nvmlPciInfo_t.busId");
_Static_assert(sizeof(nvmlPciInfoExt_t) == 64, "nvmlPciInfoExt_t");
_Static_assert(offsetof(nvmlPciInfoExt_t, version) == 0, "nvmlPciInfoExt_t.version");
_Static_assert(offsetof(nvmlPciInfoExt_t, domain) == 4, "nvmlPciInfoExt_t.domain");
_Static_assert(offsetof(nvmlPciInfoExt_t, bus) == 8, "nvmlPciInfoExt_t.bus");
_Static_assert(offsetof(nvmlPciInfoExt_t, device) == 12, "nvmlPciInfoExt_t.device");
_Static_assert(offsetof(nvmlPciInfoExt_t, pciDeviceId) == 16, "nvmlPciInfoExt_t.pciDeviceId");
_Static_assert(offsetof(nvmlPciInfoExt_t, pciSubSystemId) == 20, "nvmlPciInfoExt_t.pciSubSystemId");
_Static_assert(offsetof(nvmlPciInfoExt_t, baseClass) == 24, "nvmlPciInfoExt_t.baseClass");
_Static_assert(offsetof(nvmlPciInfoExt_t, subClass) == 28, "nvmlPciInfoExt_t.subClass");
_Static_assert(offsetof(nvmlPciInfoExt_t, busId) == 32, "nvmlPciInfoExt_t.busId");
_Static_assert(sizeof(nvmlUtilization_t) == 8, "nvmlUtilization_t");
_Static_assert(offsetof(nvmlUtilization_t, gpu) == 0, "nvmlUtilization_t.gpu");
_Static_assert(offsetof(nvmlUtilization_t, memory) == 4, "nvmlUtilization_t.memory");
_Static_assert(sizeof(nvmlMemory_t) == 24, "nvmlMemory_t");
_Static_assert(offsetof(nvmlMemory_t, total) == 0, "nvmlMemory_t.total");
_Static_assert(offsetof(nvmlMemory_t, free) == 8, "nvmlMemory_t.free");
_Static_assert(offsetof(nvmlMemory_t, used) == 16, "nvmlMemory_t.used");
_Static_assert(sizeof(nvmlMemory_v2_t) == 40, "nvmlMemory_v2_t");
_Static_assert(offsetof(nvmlMemory_v2_t, version) == 0, "nvmlMemory_v2_t.version");
_Static_assert(offsetof(nvmlMemory_v2_t, total) == 8, "nvmlMemory_v2_t.total");
_Static_assert(offsetof(nvmlMemory_v2_t, reserved) == 16, "nvmlMemory_v2_t.reserved");
_Static_assert(offsetof(nvmlMemory_v2_t, free) == 24, "nvmlMemory_v2_t.free");
_Static_assert(offsetof(nvmlMemory_v2_t, used) == 32, "nvmlMemory_v2_t.used");
_Static_assert(sizeof(nvmlSetMemoryLimits_v1_t) == 24, "nvmlSetMemoryLimits_v1_t");
_Static_assert(offsetof(nvmlSetMemoryLimits_v1_t, softLimit) == 8,
               "nvmlSetMemoryLimits_v1_t.softLimit");
_Static_assert(offsetof(nvmlSetMemoryLimits_v1_t, hardLimit) == 16,
               "nvmlSetMemoryLimits_v1_t.hardLimit");
_Static_assert(sizeof(nvmlGetMemoryLimits_v1_t) == 32, "nvmlGetMemoryLimits_v1_t");
_Static_assert(offsetof(nvmlGetMemoryLimits_v1_t, currentUsed) == 24,
               "nvmlGetMemoryLimits_v1_t.currentUsed");
_Static_assert(sizeof(nvmlBAR1Memory_t) == 24, "nvmlBAR1Memory_t");
_Static_assert(offsetof(nvmlBAR1Memory_t, bar1Total) == 0, "nvmlBAR1Memory_t.bar1Total");
_Static_assert(offsetof(nvmlBAR1Memory_t, bar1Free) == 8, "nvmlBAR1Memory_t.bar1Free");
_Static_assert(offsetof(nvmlBAR1Memory_t, bar1Used) == 16, "nvmlBAR1Memory_t.bar1Used");
_Static_assert(sizeof(nvmlProcessInfo_t) == 24, "nvmlProcessInfo_t");
_Static_assert(offsetof(nvmlProcessInfo_t, pid) == 0, "nvmlProcessInfo_t.pid");
_Static_assert(offsetof(nvmlProcessInfo_t, usedGpuMemory) == 8, "nvmlProcessInfo_t.usedGpuMemory");
_Static_assert(offsetof(nvmlProcessInfo_t, gpuInstanceId) == 16, "nvmlProcessInfo_t.gpuInstanceId");
_Static_assert(offsetof(nvmlProcessInfo_t, computeInstanceId) == 20,
               "nvmlProcessInfo_t.computeInstanceId");
_Static_assert(sizeof(nvmlProcessDetailList_t) == 24, "nvmlProcessDetailList_t");
_Static_assert(offsetof(nvmlProcessDetailList_t, version) == 0, "nvmlProcessDetailList_t.version");
_Static_assert(offsetof(nvmlProcessDetailList_t, mode) == 4, "nvmlProcessDetailList_t.mode");
_Static_assert(offsetof(nvmlProcessDetailList_t, numProcArrayEntries) == 8,
               "nvmlProcessDetailList_t.numProcArrayEntries");
_Static_assert(offsetof(nvmlProcessDetailList_t, procArray) == 16,
               "nvmlProcessDetailList_t.procArray");
_Static_assert(sizeof(nvmlProcessDetail_v1_t) == 32, "nvmlProcessDetail_v1_t");
_Static_assert(offsetof(nvmlProcessDetail_v1_t, pid) == 0, "nvmlProcessDetail_v1_t.pid");
_Static_assert(offsetof(nvmlProcessDetail_v1_t, usedGpuMemory) == 8,
               "nvmlProcessDetail_v1_t.usedGpuMemory");
_Static_assert(offsetof(nvmlProcessDetail_v1_t, gpuInstanceId) == 16,
               "nvmlProcessDetail_v1_t.gpuInstanceId");
_Static_assert(offsetof(nvmlProcessDetail_v1_t, computeInstanceId) == 20,
               "nvmlProcessDetail_v1_t.computeInstanceId");
_Static_assert(offsetof(nvmlProcessDetail_v1_t, usedGpuCcProtectedMemory) == 24,
               "nvmlProcessDetail_v1_t.usedGpuCcProtectedMemory");
_Static_assert(sizeof(nvmlDeviceAttributes_t) == 40, "nvmlDeviceAttributes_t");
_Static_assert(offsetof(nvmlDeviceAttributes_t, multiprocessorCount) == 0,
               "nvmlDeviceAttributes_t.multiprocessorCount");
_Static_assert(offsetof(nvmlDeviceAttributes_t, sharedCopyEngineCount) == 4,
               "nvmlDeviceAttributes_t.sharedCopyEngineCount");
_Static_assert(offsetof(nvmlDeviceAttributes_t, sharedDecoderCount) == 8,
               "nvmlDeviceAttributes_t.sharedDecoderCount");
_Static_assert(offsetof(nvmlDeviceAttributes_t, sharedEncoderCount) == 12,
               "nvmlDeviceAttributes_t.sharedEncoderCount");
_Static_assert(offsetof(nvmlDeviceAttributes_t, sharedJpegCount) == 16,
               "nvmlDeviceAttributes_t.sharedJpegCount");
_Static_assert(offsetof(nvmlDeviceAttributes_t, sharedOfaCount) == 20,
               "nvmlDeviceAttributes_t.sharedOfaCount");
_Static_assert(offsetof(nvmlDeviceAttributes_t, gpuInstanceSliceCount) == 24,
               "nvmlDeviceAttributes_t.gpuInstanceSliceCount");
_Static_assert(offsetof(nvmlDeviceAttributes_t, computeInstanceSliceCount) == 28,
               "nvmlDeviceAttributes_t.computeInstanceSliceCount");
_Static_assert(offsetof(nvmlDeviceAttributes_t, memorySizeMB) == 32,
               "nvmlDeviceAttributes_t.memorySizeMB");
_Static_assert(sizeof(nvmlDeviceAddressingMode_t) == 8, "nvmlDeviceAddressingMode_t");
_Static_assert(offsetof(nvmlDeviceAddressingMode_t, version) == 0,
               "nvmlDeviceAddressingMode_t.version");
_Static_assert(offsetof(nvmlDeviceAddressingMode_t, value) == 4,
               "nvmlDeviceAddressingMode_t.value");
_Static_assert(sizeof(nvmlGpuInstancePlacement_t) == 8, "nvmlGpuInstancePlacement_t");
_Static_assert(offsetof(nvmlGpuInstancePlacement_t, start) == 0,
               "nvmlGpuInstancePlacement_t.start");
_Static_assert(offsetof(nvmlGpuInstancePlacement_t, size) == 4, "nvmlGpuInstancePlacement_t.size");
_Static_assert(sizeof(nvmlGpuInstanceProfileInfo_t) == 48, "nvmlGpuInstanceProfileInfo_t");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_t, id) == 0, "nvmlGpuInstanceProfileInfo_t.id");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_t, isP2pSupported) == 4,
               "nvmlGpuInstanceProfileInfo_t.isP2pSupported");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_t, sliceCount) == 8,
               "nvmlGpuInstanceProfileInfo_t.sliceCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_t, instanceCount) == 12,
               "nvmlGpuInstanceProfileInfo_t.instanceCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_t, multiprocessorCount) == 16,
               "nvmlGpuInstanceProfileInfo_t.multiprocessorCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_t, copyEngineCount) == 20,
               "nvmlGpuInstanceProfileInfo_t.copyEngineCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_t, decoderCount) == 24,
               "nvmlGpuInstanceProfileInfo_t.decoderCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_t, encoderCount) == 28,
               "nvmlGpuInstanceProfileInfo_t.encoderCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_t, jpegCount) == 32,
               "nvmlGpuInstanceProfileInfo_t.jpegCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_t, ofaCount) == 36,
               "nvmlGpuInstanceProfileInfo_t.ofaCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_t, memorySizeMB) == 40,
               "nvmlGpuInstanceProfileInfo_t.memorySizeMB");
_Static_assert(sizeof(nvmlGpuInstanceProfileInfo_v2_t) == 152, "nvmlGpuInstanceProfileInfo_v2_t");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v2_t, version) == 0,
               "nvmlGpuInstanceProfileInfo_v2_t.version");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v2_t, id) == 4,
               "nvmlGpuInstanceProfileInfo_v2_t.id");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v2_t, isP2pSupported) == 8,
               "nvmlGpuInstanceProfileInfo_v2_t.isP2pSupported");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v2_t, sliceCount) == 12,
               "nvmlGpuInstanceProfileInfo_v2_t.sliceCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v2_t, instanceCount) == 16,
               "nvmlGpuInstanceProfileInfo_v2_t.instanceCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v2_t, multiprocessorCount) == 20,
               "nvmlGpuInstanceProfileInfo_v2_t.multiprocessorCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v2_t, copyEngineCount) == 24,
               "nvmlGpuInstanceProfileInfo_v2_t.copyEngineCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v2_t, decoderCount) == 28,
               "nvmlGpuInstanceProfileInfo_v2_t.decoderCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v2_t, encoderCount) == 32,
               "nvmlGpuInstanceProfileInfo_v2_t.encoderCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v2_t, jpegCount) == 36,
               "nvmlGpuInstanceProfileInfo_v2_t.jpegCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v2_t, ofaCount) == 40,
               "nvmlGpuInstanceProfileInfo_v2_t.ofaCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v2_t, memorySizeMB) == 48,
               "nvmlGpuInstanceProfileInfo_v2_t.memorySizeMB");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v2_t, name) == 56,
               "nvmlGpuInstanceProfileInfo_v2_t.name");
_Static_assert(sizeof(nvmlGpuInstanceProfileInfo_v3_t) == 152, "nvmlGpuInstanceProfileInfo_v3_t");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v3_t, version) == 0,
               "nvmlGpuInstanceProfileInfo_v3_t.version");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v3_t, id) == 4,
               "nvmlGpuInstanceProfileInfo_v3_t.id");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v3_t, sliceCount) == 8,
               "nvmlGpuInstanceProfileInfo_v3_t.sliceCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v3_t, instanceCount) == 12,
               "nvmlGpuInstanceProfileInfo_v3_t.instanceCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v3_t, multiprocessorCount) == 16,
               "nvmlGpuInstanceProfileInfo_v3_t.multiprocessorCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v3_t, copyEngineCount) == 20,
               "nvmlGpuInstanceProfileInfo_v3_t.copyEngineCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v3_t, decoderCount) == 24,
               "nvmlGpuInstanceProfileInfo_v3_t.decoderCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v3_t, encoderCount) == 28,
               "nvmlGpuInstanceProfileInfo_v3_t.encoderCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v3_t, jpegCount) == 32,
               "nvmlGpuInstanceProfileInfo_v3_t.jpegCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v3_t, ofaCount) == 36,
               "nvmlGpuInstanceProfileInfo_v3_t.ofaCount");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v3_t, memorySizeMB) == 40,
               "nvmlGpuInstanceProfileInfo_v3_t.memorySizeMB");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v3_t, name) == 48,
               "nvmlGpuInstanceProfileInfo_v3_t.name");
_Static_assert(offsetof(nvmlGpuInstanceProfileInfo_v3_t, capabilities) == 144,
               "nvmlGpuInstanceProfileInfo_v3_t.capabilities");
_Static_assert(sizeof(nvmlGpuInstanceInfo_t) == 24, "nvmlGpuInstanceInfo_t");
_Static_assert(offsetof(nvmlGpuInstanceInfo_t, device) == 0, "nvmlGpuInstanceInfo_t.device");
_Static_assert(offsetof(nvmlGpuInstanceInfo_t, id) == 8, "nvmlGpuInstanceInfo_t.id");
_Static_assert(offsetof(nvmlGpuInstanceInfo_t, profileId) == 12, "nvmlGpuInstanceInfo_t.profileId");
_Static_assert(offsetof(nvmlGpuInstanceInfo_t, placement) == 16, "nvmlGpuInstanceInfo_t.placement");
_Static_assert(sizeof(nvmlComputeInstancePlacement_t) == 8, "nvmlComputeInstancePlacement_t");
_Static_assert(offsetof(nvmlComputeInstancePlacement_t, start) == 0,
               "nvmlComputeInstancePlacement_t.start");
_Static_assert(offsetof(nvmlComputeInstancePlacement_t, size) == 4,
               "nvmlComputeInstancePlacement_t.size");
_Static_assert(sizeof(nvmlComputeInstanceProfileInfo_t) == 36, "nvmlComputeInstanceProfileInfo_t");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_t, id) == 0,
               "nvmlComputeInstanceProfileInfo_t.id");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_t, sliceCount) == 4,
               "nvmlComputeInstanceProfileInfo_t.sliceCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_t, instanceCount) == 8,
               "nvmlComputeInstanceProfileInfo_t.instanceCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_t, multiprocessorCount) == 12,
               "nvmlComputeInstanceProfileInfo_t.multiprocessorCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_t, sharedCopyEngineCount) == 16,
               "nvmlComputeInstanceProfileInfo_t.sharedCopyEngineCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_t, sharedDecoderCount) == 20,
               "nvmlComputeInstanceProfileInfo_t.sharedDecoderCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_t, sharedEncoderCount) == 24,
               "nvmlComputeInstanceProfileInfo_t.sharedEncoderCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_t, sharedJpegCount) == 28,
               "nvmlComputeInstanceProfileInfo_t.sharedJpegCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_t, sharedOfaCount) == 32,
               "nvmlComputeInstanceProfileInfo_t.sharedOfaCount");
_Static_assert(sizeof(nvmlComputeInstanceProfileInfo_v2_t) == 136,
               "nvmlComputeInstanceProfileInfo_v2_t");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v2_t, version) == 0,
               "nvmlComputeInstanceProfileInfo_v2_t.version");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v2_t, id) == 4,
               "nvmlComputeInstanceProfileInfo_v2_t.id");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v2_t, sliceCount) == 8,
               "nvmlComputeInstanceProfileInfo_v2_t.sliceCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v2_t, instanceCount) == 12,
               "nvmlComputeInstanceProfileInfo_v2_t.instanceCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v2_t, multiprocessorCount) == 16,
               "nvmlComputeInstanceProfileInfo_v2_t.multiprocessorCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v2_t, sharedCopyEngineCount) == 20,
               "nvmlComputeInstanceProfileInfo_v2_t.sharedCopyEngineCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v2_t, sharedDecoderCount) == 24,
               "nvmlComputeInstanceProfileInfo_v2_t.sharedDecoderCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v2_t, sharedEncoderCount) == 28,
               "nvmlComputeInstanceProfileInfo_v2_t.sharedEncoderCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v2_t, sharedJpegCount) == 32,
               "nvmlComputeInstanceProfileInfo_v2_t.sharedJpegCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v2_t, sharedOfaCount) == 36,
               "nvmlComputeInstanceProfileInfo_v2_t.sharedOfaCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v2_t, name) == 40,
               "nvmlComputeInstanceProfileInfo_v2_t.name");
_Static_assert(sizeof(nvmlComputeInstanceProfileInfo_v3_t) == 140,
               "nvmlComputeInstanceProfileInfo_v3_t");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v3_t, version) == 0,
               "nvmlComputeInstanceProfileInfo_v3_t.version");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v3_t, id) == 4,
               "nvmlComputeInstanceProfileInfo_v3_t.id");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v3_t, sliceCount) == 8,
               "nvmlComputeInstanceProfileInfo_v3_t.sliceCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v3_t, instanceCount) == 12,
               "nvmlComputeInstanceProfileInfo_v3_t.instanceCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v3_t, multiprocessorCount) == 16,
               "nvmlComputeInstanceProfileInfo_v3_t.multiprocessorCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v3_t, sharedCopyEngineCount) == 20,
               "nvmlComputeInstanceProfileInfo_v3_t.sharedCopyEngineCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v3_t, sharedDecoderCount) == 24,
               "nvmlComputeInstanceProfileInfo_v3_t.sharedDecoderCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v3_t, sharedEncoderCount) == 28,
               "nvmlComputeInstanceProfileInfo_v3_t.sharedEncoderCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v3_t, sharedJpegCount) == 32,
               "nvmlComputeInstanceProfileInfo_v3_t.sharedJpegCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v3_t, sharedOfaCount) == 36,
               "nvmlComputeInstanceProfileInfo_v3_t.sharedOfaCount");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v3_t, name) == 40,
               "nvmlComputeInstanceProfileInfo_v3_t.name");
_Static_assert(offsetof(nvmlComputeInstanceProfileInfo_v3_t, capabilities) == 136,
               "nvmlComputeInstanceProfileInfo_v3_t.capabilities");
_Static_assert(sizeof(nvmlComputeInstanceInfo_t) == 32, "nvmlComputeInstanceInfo_t");
_Static_assert(offsetof(nvmlComputeInstanceInfo_t, device) == 0,
               "nvmlComputeInstanceInfo_t.device");
_Static_assert(offsetof(nvmlComputeInstanceInfo_t, gpuInstance) == 8,
               "nvmlComputeInstanceInfo_t.gpuInstance");
_Static_assert(offsetof(nvmlComputeInstanceInfo_t, id) == 16, "nvmlComputeInstanceInfo_t.id");
_Static_assert(offsetof(nvmlComputeInstanceInfo_t, profileId) == 20,
               "nvmlComputeInstanceInfo_t.profileId");
_Static_assert(offsetof(nvmlComputeInstanceInfo_t, placement) == 24,
               "nvmlComputeInstanceInfo_t.placement");
_Static_assert(sizeof(nvmlEventData_t) == 32, "nvmlEventData_t");
_Static_assert(offsetof(nvmlEventData_t, device) == 0, "nvmlEventData_t.device");
_Static_assert(offsetof(nvmlEventData_t, eventType) == 8, "nvmlEventData_t.eventType");
_Static_assert(offsetof(nvmlEventData_t, eventData) == 16, "nvmlEventData_t.eventData");
_Static_assert(offsetof(nvmlEventData_t, gpuInstanceId) == 24, "nvmlEventData_t.gpuInstanceId");
_Static_assert(offsetof(nvmlEventData_t, computeInstanceId) == 28,
               "nvmlEventData_t.computeInstanceId");
_Static_assert(sizeof(nvmlFieldValue_t) == 40, "nvmlFieldValue_t");
_Static_assert(offsetof(nvmlFieldValue_t, fieldId) == 0, "nvmlFieldValue_t.fieldId");
_Static_assert(offsetof(nvmlFieldValue_t, scopeId) == 4, "nvmlFieldValue_t.scopeId");
_Static_assert(offsetof(nvmlFieldValue_t, timestamp) == 8, "nvmlFieldValue_t.timestamp");
_Static_assert(offsetof(nvmlFieldValue_t, latencyUsec) == 16, "nvmlFieldValue_t.latencyUsec");
_Static_assert(offsetof(nvmlFieldValue_t, valueType) == 24, "nvmlFieldValue_t.valueType");
_Static_assert(offsetof(nvmlFieldValue_t, nvmlReturn) == 28, "nvmlFieldValue_t.nvmlReturn");
_Static_assert(offsetof(nvmlFieldValue_t, value) == 32, "nvmlFieldValue_t.value");
_Static_assert(sizeof(nvmlValue_t) == 8, "nvmlValue_t");
_Static_assert(offsetof(nvmlValue_t, dVal) == 0, "nvmlValue_t.dVal");
_Static_assert(offsetof(nvmlValue_t, siVal) == 0, "nvmlValue_t.siVal");
_Static_assert(offsetof(nvmlValue_t, uiVal) == 0, "nvmlValue_t.uiVal");
_Static_assert(offsetof(nvmlValue_t, ulVal) == 0, "nvmlValue_t.ulVal");
_Static_assert(offsetof(nvmlValue_t, ullVal) == 0, "nvmlValue_t.ullVal");
_Static_assert(offsetof(nvmlValue_t, sllVal) == 0, "nvmlValue_t.sllVal");
_Static_assert(offsetof(nvmlValue_t, usVal) == 0, "nvmlValue_t.usVal");
_Static_assert(sizeof(nvmlProcessUtilizationSample_t) == 32, "nvmlProcessUtilizationSample_t");
_Static_assert(offsetof(nvmlProcessUtilizationSample_t, pid) == 0,
               "nvmlProcessUtilizationSample_t.pid");
_Static_assert(offsetof(nvmlProcessUtilizationSample_t, timeStamp) == 8,
               "nvmlProcessUtilizationSample_t.timeStamp");
_Static_assert(offsetof(nvmlProcessUtilizationSample_t, smUtil) == 16,
               "nvmlProcessUtilizationSample_t.smUtil");
_Static_assert(offsetof(nvmlProcessUtilizationSample_t, memUtil) == 20,
               "nvmlProcessUtilizationSample_t.memUtil");
_Static_assert(offsetof(nvmlProcessUtilizationSample_t, encUtil) == 24,
               "nvmlProcessUtilizationSample_t.encUtil");
_Static_assert(offsetof(nvmlProcessUtilizationSample_t, decUtil) == 28,
               "nvmlProcessUtilizationSample_t.decUtil");
_Static_assert(sizeof(nvmlGpuFabricInfo_t) == 28, "nvmlGpuFabricInfo_t");
_Static_assert(offsetof(nvmlGpuFabricInfo_t, clusterUuid) == 0, "nvmlGpuFabricInfo_t.clusterUuid");
_Static_assert(offsetof(nvmlGpuFabricInfo_t, status) == 16, "nvmlGpuFabricInfo_t.status");
_Static_assert(offsetof(nvmlGpuFabricInfo_t, cliqueId) == 20, "nvmlGpuFabricInfo_t.cliqueId");
_Static_assert(offsetof(nvmlGpuFabricInfo_t, state) == 24, "nvmlGpuFabricInfo_t.state");
_Static_assert(sizeof(nvmlGpuFabricInfo_v2_t) == 36, "nvmlGpuFabricInfo_v2_t");
_Static_assert(offsetof(nvmlGpuFabricInfo_v2_t, version) == 0, "nvmlGpuFabricInfo_v2_t.version");
_Static_assert(offsetof(nvmlGpuFabricInfo_v2_t, clusterUuid) == 4,
               "nvmlGpuFabricInfo_v2_t.clusterUuid");
_Static_assert(offsetof(nvmlGpuFabricInfo_v2_t, status) == 20, "nvmlGpuFabricInfo_v2_t.status");
_Static_assert(offsetof(nvmlGpuFabricInfo_v2_t, cliqueId) == 24, "nvmlGpuFabricInfo_v2_t.cliqueId");
_Static_assert(offsetof(nvmlGpuFabricInfo_v2_t, state) == 28, "nvmlGpuFabricInfo_v2_t.state");
_Static_assert(offsetof(nvmlGpuFabricInfo_v2_t, healthMask) == 32,
               "nvmlGpuFabricInfo_v2_t.healthMask");
_Static_assert(sizeof(nvmlGpuFabricInfo_v3_t) == 40, "nvmlGpuFabricInfo_v3_t");
_Static_assert(offsetof(nvmlGpuFabricInfo_v3_t, version) == 0, "nvmlGpuFabricInfo_v3_t.version");
_Static_assert(offsetof(nvmlGpuFabricInfo_v3_t, clusterUuid) == 4,
               "nvmlGpuFabricInfo_v3_t.clusterUuid");
_Static_assert(offsetof(nvmlGpuFabricInfo_v3_t, status) == 20, "nvmlGpuFabricInfo_v3_t.status");
_Static_assert(offsetof(nvmlGpuFabricInfo_v3_t, cliqueId) == 24, "nvmlGpuFabricInfo_v3_t.cliqueId");
_Static_assert(offsetof(nvmlGpuFabricInfo_v3_t, state) == 28, "nvmlGpuFabricInfo_v3_t.state");
_Static_assert(offsetof(nvmlGpuFabricInfo_v3_t, healthMask) == 32,
               "nvmlGpuFabricInfo_v3_t.healthMask");
_Static_assert(offsetof(nvmlGpuFabricInfo_v3_t, healthSummary) == 36,
               "nvmlGpuFabricInfo_v3_t.healthSummary");
_Static_assert(sizeof(nvmlEccSramErrorStatus_t) == 104, "nvmlEccSramErrorStatus_t");
_Static_assert(offsetof(nvmlEccSramErrorStatus_t, version) == 0,
               "nvmlEccSramErrorStatus_t.version");
_Static_assert(offsetof(nvmlEccSramErrorStatus_t, aggregateUncParity) == 8,
               "nvmlEccSramErrorStatus_t.aggregateUncParity");
_Static_assert(offsetof(nvmlEccSramErrorStatus_t, aggregateUncSecDed) == 16,
               "nvmlEccSramErrorStatus_t.aggregateUncSecDed");
_Static_assert(offsetof(nvmlEccSramErrorStatus_t, aggregateCor) == 24,
               "nvmlEccSramErrorStatus_t.aggregateCor");
_Static_assert(offsetof(nvmlEccSramErrorStatus_t, volatileUncParity) == 32,
               "nvmlEccSramErrorStatus_t.volatileUncParity");
_Static_assert(offsetof(nvmlEccSramErrorStatus_t, volatileUncSecDed) == 40,
               "nvmlEccSramErrorStatus_t.volatileUncSecDed");
_Static_assert(offsetof(nvmlEccSramErrorStatus_t, volatileCor) == 48,
               "nvmlEccSramErrorStatus_t.volatileCor");
_Static_assert(offsetof(nvmlEccSramErrorStatus_t, aggregateUncBucketL2) == 56,
               "nvmlEccSramErrorStatus_t.aggregateUncBucketL2");
_Static_assert(offsetof(nvmlEccSramErrorStatus_t, aggregateUncBucketSm) == 64,
               "nvmlEccSramErrorStatus_t.aggregateUncBucketSm");
_Static_assert(offsetof(nvmlEccSramErrorStatus_t, aggregateUncBucketPcie) == 72,
               "nvmlEccSramErrorStatus_t.aggregateUncBucketPcie");
_Static_assert(offsetof(nvmlEccSramErrorStatus_t, aggregateUncBucketMcu) == 80,
               "nvmlEccSramErrorStatus_t.aggregateUncBucketMcu");
_Static_assert(offsetof(nvmlEccSramErrorStatus_t, aggregateUncBucketOther) == 88,
               "nvmlEccSramErrorStatus_t.aggregateUncBucketOther");
_Static_assert(offsetof(nvmlEccSramErrorStatus_t, bThresholdExceeded) == 96,
               "nvmlEccSramErrorStatus_t.bThresholdExceeded");
_Static_assert(sizeof(nvmlViolationTime_t) == 16, "nvmlViolationTime_t");
_Static_assert(offsetof(nvmlViolationTime_t, violationTime) == 8, "nvmlViolationTime_t");
_Static_assert(sizeof(nvmlTemperature_t) == 12, "nvmlTemperature_t");
_Static_assert(offsetof(nvmlTemperature_t, version) == 0, "nvmlTemperature_t.version");
_Static_assert(offsetof(nvmlTemperature_t, sensorType) == 4, "nvmlTemperature_t.sensorType");
_Static_assert(offsetof(nvmlTemperature_t, temperature) == 8, "nvmlTemperature_t.temperature");
_Static_assert(sizeof(nvmlUUID_t) == 52, "nvmlUUID_t");
_Static_assert(offsetof(nvmlUUID_t, version) == 0, "nvmlUUID_t.version");
_Static_assert(offsetof(nvmlUUID_t, type) == 4, "nvmlUUID_t.type");
_Static_assert(offsetof(nvmlUUID_t, value) == 8, "nvmlUUID_t.value");
_Static_assert(sizeof(nvmlUUIDValue_t) == 41, "nvmlUUIDValue_t");
_Static_assert(offsetof(nvmlUUIDValue_t, str) == 0, "nvmlUUIDValue_t.str");
_Static_assert(offsetof(nvmlUUIDValue_t, bytes) == 0, "nvmlUUIDValue_t.bytes");
_Static_assert(NVML_STRUCT_VERSION(sizeof(nvmlPciInfoExt_t), 1U) == 0x01000040U,
               "nvmlPciInfoExt version 1");
_Static_assert(NVML_STRUCT_VERSION(sizeof(nvmlMemory_v2_t), 2U) == 0x02000028U,
               "nvmlMemory version 2");
_Static_assert(NVML_STRUCT_VERSION(sizeof(nvmlProcessDetailList_t), 1U) == 0x01000018U,
               "nvmlProcessDetailList version 1");
_Static_assert(NVML_STRUCT_VERSION(sizeof(nvmlDeviceAddressingMode_t), 1U) == 0x01000008U,
               "nvmlDeviceAddressingMode version 1");
_Static_assert(NVML_STRUCT_VERSION(sizeof(nvmlUUID_t), 1U) == 0x01000034U, "nvmlUUID version 1");
_Static_assert(NVML_STRUCT_VERSION(sizeof(nvmlEccSramErrorStatus_t), 1U) == 0x01000068U,
               "nvmlEccSramErrorStatus version 1");
_Static_assert(NVML_STRUCT_VERSION(sizeof(nvmlGpuFabricInfo_v2_t), 2U) == 0x02000024U,
               "nvmlGpuFabricInfo version 2");
_Static_assert(NVML_STRUCT_VERSION(sizeof(nvmlGpuFabricInfo_v3_t), 3U) == 0x03000028U,
               "nvmlGpuFabricInfo version 3");
_Static_assert(NVML_STRUCT_VERSION(sizeof(nvmlTemperature_t), 1U) == 0x0100000cU,
               "nvmlTemperature version 1");
_Static_assert(NVML_STRUCT_VERSION(sizeof(nvmlGpuInstanceProfileInfo_v2_t), 2U) == 0x02000098U,
               "nvmlGpuInstanceProfileInfo version 2");
_Static_assert(NVML_STRUCT_VERSION(sizeof(nvmlGpuInstanceProfileInfo_v3_t), 3U) == 0x03000098U,
               "nvmlGpuInstanceProfileInfo version 3");
_Static_assert(NVML_STRUCT_VERSION(sizeof(nvmlComputeInstanceProfileInfo_v2_t), 2U) == 0x02000088U,
               "nvmlComputeInstanceProfileInfo version 2");
_Static_assert(NVML_STRUCT_VERSION(sizeof(nvmlComputeInstanceProfileInfo_v3_t), 3U) == 0x0300008cU,
               "nvmlComputeInstanceProfileInfo version 3");
_Static_assert(sizeof(nvmlGpmSupport_t) == 8, "nvmlGpmSupport_t");
_Static_assert(offsetof(nvmlGpmSupport_t, isSupportedDevice) == 4,
               "nvmlGpmSupport_t.isSupportedDevice");
_Static_assert(sizeof(nvmlGpmMetric_t) == 40, "nvmlGpmMetric_t");
_Static_assert(offsetof(nvmlGpmMetric_t, nvmlReturn) == 4, "nvmlGpmMetric_t.nvmlReturn");
_Static_assert(offsetof(nvmlGpmMetric_t, value) == 8, "nvmlGpmMetric_t.value");
_Static_assert(offsetof(nvmlGpmMetric_t, metricInfo) == 16, "nvmlGpmMetric_t.metricInfo");
_Static_assert(sizeof(nvmlGpmMetricsGet_t) == 13344, "nvmlGpmMetricsGet_t");
_Static_assert(offsetof(nvmlGpmMetricsGet_t, numMetrics) == 4, "nvmlGpmMetricsGet_t.numMetrics");
_Static_assert(offsetof(nvmlGpmMetricsGet_t, sample1) == 8, "nvmlGpmMetricsGet_t.sample1");
_Static_assert(offsetof(nvmlGpmMetricsGet_t, sample2) == 16, "nvmlGpmMetricsGet_t.sample2");
_Static_assert(offsetof(nvmlGpmMetricsGet_t, metrics) == 24, "nvmlGpmMetricsGet_t.metrics");
