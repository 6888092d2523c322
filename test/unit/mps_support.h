/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Stands for nvidia-cuda-mps-control: the daemon (-f) adds a line to "starts" of its unit and stays; the
 * client is refused before. */
static const char mps_script[] = "#!/bin/sh\n"
                                 "cd \"$CUDA_MPS_PIPE_DIRECTORY\" || exit 9\n"
                                 "if [ \"$1\" = -f ]; then\n"
                                 "    echo >> \"$CUDA_MPS_LOG_DIRECTORY/starts\"\n"
                                 "    : > control\n"
                                 "    exec sleep 60\n"
                                 "fi\n"
                                 "[ -e control ]\n";
