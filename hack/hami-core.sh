#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds HAMi-core, the library that HAMi preloads in containers, and its own tests, beside which the limiter is tried and measured.
#
#   hack/hami-core.sh             from its repository on GitHub
#   hack/hami-core.sh CHECKOUT    from a checkout that is here already, at the same commit
#
# Into build/hami-core: libvgpu.so, for `HAMI_CORE=… make bench`, and tests/, for HAMI_CORE_TESTS (test/limiter/test_hami_core.py).
# It takes CUDA's headers from PyPI. No library of NVIDIA's is linked: in place of the driver's there are those of the simulator.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly COMMIT=8f3a89c67b037d8fdfe6c4cd4d8c4f0cd6504811
readonly REPOSITORY=https://github.com/Project-HAMi/HAMi-core
readonly HEADERS=(nvidia-cuda-runtime-cu12==12.9.79 nvidia-cuda-nvcc-cu12==12.9.86 nvidia-cuda-cccl-cu12==12.9.27 nvidia-nvml-dev-cu12==12.9.79)
readonly SIM=$PWD/build/release/sim OUT=$PWD/build/hami-core

# Those of the driver API. Those of the runtime's (test_runtime_*) need NVIDIA's libcudart; test_alloc_hold never ends.
readonly TESTS=(test_alloc test_alloc_host test_alloc_managed test_alloc_pitch test_create_array test_create_3d_array test_host_alloc
    test_host_register test_mem_create)

case "${1:-}" in -h | --help)
    awk 'NR <= 2 {next} !/^#/ {exit} {sub(/^# ?/, ""); print}' "$0"
    exit 0
    ;;
esac

take_source() { # FOLDER [CHECKOUT]
    git init -q "$1"
    git -C "$1" fetch -q --depth 1 "${2:-$REPOSITORY}" "$COMMIT"
    git -C "$1" checkout -q "$COMMIT"
}

# A folder as the toolkit has it: include, and lib64 with what stands for the driver.
take_cuda() { # FOLDER
    mkdir -p "$1/wheels" "$1/include" "$1/lib64"
    python3 -m pip download -q --disable-pip-version-check --no-deps -d "$1/wheels" "${HEADERS[@]}"
    for wheel in "$1"/wheels/*.whl; do
        unzip -q -o "$wheel" 'nvidia/*/include/*' -d "$1/wheels"
    done
    cp -r "$1"/wheels/nvidia/*/include/. "$1/include"
    ln -s "$SIM/libcuda.so.1" "$1/lib64/libcuda.so"
    ln -s "$SIM/libnvidia-ml.so.1" "$1/lib64/libnvidia-ml.so"
}

# With the options of its own build.sh. Its tests are left out, for which cmake would want all of CUDA's toolkit.
build_library() { # SOURCE CUDA
    sed -i '/^add_subdirectory(test)$/d' "$1/CMakeLists.txt"
    local options=(-DDLSYM_HOOK_ENABLE=1 -DMULTIPROCESS_LIMIT_ENABLE=1 -DHOOK_MEMINFO_ENABLE=1 -DHOOK_NVML_ENABLE=1 -DCMAKE_BUILD_TYPE=Debug)
    CUDA_HOME=$2 LIBRARY_PATH=$2/lib64 cmake -Wno-dev -S "$1" -B "$1/build" "${options[@]}" >"$1/cmake.log"
    LIBRARY_PATH=$2/lib64 make -s -C "$1/build" vgpu >"$1/make.log" 2>&1 || { cat "$1/make.log" && return 1; }
    cp "$1/build/libvgpu.so" "$OUT"
}

build_tests() { # SOURCE CUDA
    mkdir -p "$OUT/tests"
    for name in "${TESTS[@]}"; do
        gcc -w -O1 -DTEST_DEVICE_ID=0 -I"$1/src" -I"$2/include" -L"$2/lib64" -o "$OUT/tests/$name" "$1/test/$name.c" -lcuda -lnvidia-ml -lpthread
    done
}

make -s VARIANT=release sim
rm -rf "$OUT"
mkdir -p "$OUT"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
take_source "$work/source" "${1:+$(realpath "$1")}"
take_cuda "$work/cuda"
build_library "$work/source" "$work/cuda"
build_tests "$work/source" "$work/cuda"
echo "$OUT"
