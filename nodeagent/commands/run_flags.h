/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/log_options.h"

#include "nodeagent/commands/host.h"
#include "nodeagent/offer/plugin_config.h"
#include "nodeagent/telemetry/dcgm_page.h"
#include "service/metrics_access.h"

/*
 * The flags of `cleave-agent run`, and the configuration of NVIDIA's device plugin with those of
 * them that the plugin has too. Texts are borrowed from the command line and the environment.
 */

#define RUN_MPS_ROOT "/run/cleave/mps"

struct run_flags {
    struct host_flags host;
    const char *kubeconfig, *node;
    const char *health, *metrics;
    int64_t resync_ms, call_deadline_ms, settle_ms; /* settle_ms: --health-settle-seconds */
    int resource_publisher; /* --resources, enum api_publisher. API_PUBLISHER_OTHER, the word "none":
                               another device plugin serves the kubelet, which is only observed */
    const char *disable_checks, *enable_checks;
    const char *kubelet_dir, *cdi_dir, *cdi_hook;
    const char *install_runtime;
    const char *driver_root, *host_driver_root, *dev_root, *host_dev_root;
    /* Named as in NVIDIA's device plugin; NULL: not set. */
    const char *plugin_config, *list_strategy, *id_strategy, *pass_device_specs;
    const char *mig_strategy, *allocation_policy, *annotation_prefix, *gds, *mofed, *gdrcopy;
    const char *mps_root, *mps_control, *device_infos;
    const char *limiter_folder, *library_folder, *share_folder, *cgroup_root;
    bool koordinator_shares;
    int64_t telemetry_ms;           /* 0: off */
    const char *telemetry_counters; /* a file; NULL: the built-in list */
    enum dcgm_labels telemetry_labels;
    enum hami_names hami_names;
    struct metrics_access access;
    struct log_options log;
};

enum run_flags_what { RUN_FLAGS_GO, RUN_FLAGS_HELP };

/* Reads and checks the command line, and sets up the log by it. RUN_FLAGS_HELP: the help was asked
 * for and is printed. ERR_INVALID. */
int run_flags_parse(int argc, char **argv, struct run_flags *ret, enum run_flags_what *ret_what,
                    struct err *e) MUST_CHECK;

/* Loads the plugin's configuration (plugin_config_load) and logs its notices. */
int run_flags_load_config(const struct run_flags *f, struct plugin_config *ret,
                          struct err *e) MUST_CHECK;
