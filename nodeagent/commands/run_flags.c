/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/commands/run_flags.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/options.h"

#include "api/device.h"
#include "nodeagent/offer/plugin_config_file.h"
#include "service/listen_socket.h"

enum { PLUGIN_FLAGS = 10 };

/* By enum api_publisher. */
static const char *const resources_names[] = {"kubelet", "controller", "none", NULL};

/* By enum dcgm_labels. */
static const char *const labels_names[] = {"old", "new", "oldest", NULL};

/* The place of the word among the names. said: the names, for the message. */
static int read_word(const char *flag, const char *word, const char *const *names, const char *said,
                     int *ret, struct err *e)
{
    for (int i = 0; names[i]; i++) {
        if (strcmp(names[i], word) == 0) {
            *ret = i;
            return 0;
        }
    }
    return err_set(e, ERR_INVALID, "--%s must be %s, not \"%s\"", flag, said, word);
}

/* Numbers and words as they were given. */
struct texts {
    const char *resources, *resync, *call_deadline, *settle, *koordinator_shares;
    const char *telemetry, *telemetry_labels, *hami_names;
};

static int read_seconds(const char *flag, const char *text, int64_t min, int64_t max,
                        int64_t *ret_ms, struct err *e)
{
    TRY(options_number(flag, text, min, max, ret_ms, e));
    *ret_ms *= 1000;
    return 0;
}

static int check_telemetry(struct run_flags *f, const struct texts *t, struct err *e)
{
    int labels;
    TRY(read_seconds("telemetry-interval", t->telemetry, 0, 3600, &f->telemetry_ms, e));
    TRY(read_word("telemetry-labels", t->telemetry_labels, labels_names, "old, new or oldest",
                  &labels, e));
    f->telemetry_labels = (enum dcgm_labels)labels;
    return hami_names_parse(t->hami_names, &f->hami_names, e);
}

static int check_flags(struct run_flags *f, const struct texts *t, struct err *e)
{
    TRY(read_word("resources", t->resources, resources_names, "kubelet, controller or none",
                  &f->resource_publisher, e));
    TRY(options_switch("koordinator-shares", t->koordinator_shares, "on", &f->koordinator_shares,
                       e));
    TRY(read_seconds("resync-seconds", t->resync, 1, 86400, &f->resync_ms, e));
    TRY(read_seconds("health-settle-seconds", t->settle, 1, 86400, &f->settle_ms, e));
    TRY(options_number("call-deadline-ms", t->call_deadline, 100, 3600000, &f->call_deadline_ms,
                       e));
    TRY(check_telemetry(f, t, e));
    bool token = false;
    TRY(listen_socket_check_addr("health-addr", f->health, e));
    TRY(listen_socket_check_addr("metrics-addr", f->metrics, e));
    TRY(metrics_access_check(&f->access, &token, e));
    TRY(log_options_apply(&f->log, e));
    if (!f->node || !*f->node)
        return err_set(e, ERR_INVALID, "--node-name (or $NODE_NAME) is missing");
    return options_check_utf8("--node-name (or $NODE_NAME)", f->node, e);
}

/* --- The configuration of NVIDIA's device plugin --- */

/* The agent's flags that the plugin has too. Returns the number of those set. */
static size_t plugin_flags(const struct run_flags *f, struct plugin_setting *ret)
{
    const struct plugin_setting all[PLUGIN_FLAGS] = {
        {"device-list-strategy", f->list_strategy},
        {"device-id-strategy", f->id_strategy},
        {"pass-device-specs", f->pass_device_specs},
        {"mig-strategy", f->mig_strategy},
        {"shared-devices-allocation-policy", f->allocation_policy},
        {"cdi-annotation-prefix", f->annotation_prefix},
        {"gds-enabled", f->gds},
        {"mofed-enabled", f->mofed},
        {"gdrcopy-enabled", f->gdrcopy},
        {"mps-root", f->mps_root},
    };
    size_t n = 0;
    for (size_t i = 0; i < PLUGIN_FLAGS; i++)
        if (all[i].value)
            ret[n++] = all[i];
    return n;
}

/* Under the controller only the Device decides the names of resources. */
static void disregard_names(struct plugin_config *c)
{
    if (c->said.mig_strategy)
        plugin_config_ignore(c, "migStrategy", "is ignored with --resources=controller");
    if (c->n_shared)
        plugin_config_ignore(c, ".sharing", "is ignored with --resources=controller");
    c->said.mig_strategy = false;
    c->sharing = PLUGIN_UNSHARED;
}

int run_flags_load_config(const struct run_flags *f, struct plugin_config *ret, struct err *e)
{
    struct plugin_setting flags[PLUGIN_FLAGS];
    const struct plugin_config_source src = {.environment = (const char *const *)environ,
                                             .flags = flags,
                                             .n_flags = plugin_flags(f, flags)};
    TRY(plugin_config_load(&src, f->plugin_config, /* label= */ NULL, ret, e));
    if (f->resource_publisher == API_PUBLISHER_CONTROLLER)
        disregard_names(ret);
    for (size_t i = 0; i < ret->n_notices; i++)
        log_warn("Part of the configuration is ignored", kv("where", ret->notices[i].where),
                 kv("why", ret->notices[i].why));
    return 0;
}

/* --- The command line --- */

static const struct run_flags defaults = {
    .host = HOST_FLAGS_DEFAULT,
    .health = ":8081",
    .metrics = ":8080",
    .access = METRICS_ACCESS_DEFAULT,
    .log = LOG_OPTIONS_DEFAULT,
    .kubelet_dir = "/var/lib/kubelet",
    .cdi_dir = "/var/run/cdi",
    .limiter_folder = "/usr/lib/cleave/limiter",
    .library_folder = "/var/lib/cleave/lib",
    .share_folder = "/run/cleave/shares",
    .cgroup_root = "/sys/fs/cgroup",
};

#define TELEMETRY_INTERVAL_HELP                                                                    \
    "seconds between two readings of what the cards measure, for the page /metrics/telemetry; "    \
    "0: off"
#define TELEMETRY_COUNTERS_HELP                                                                    \
    "file of counters, as dcgm-exporter has it: the metrics of /metrics/telemetry; absent: "       \
    "dcgm-exporter's default list and the profiling fields"
#define TELEMETRY_LABELS_HELP                                                                      \
    "spelling of labels: as dcgm-exporter's releases up to 4.8 (old), later ones (new), or its "   \
    "--use-old-namespace (oldest)"
#define HAMI_METRICS_HELP                                                                          \
    "metrics of HAMi's monitor on /metrics/telemetry as well, under their names since HAMi 2.10 "  \
    "(current), the earlier ones (legacy), or both"
#define TELEMETRY_OPTIONS(f, texts)                                                                \
    {.name = "telemetry-interval",                                                                 \
     .value = "N",                                                                                 \
     .help = TELEMETRY_INTERVAL_HELP,                                                              \
     .text = &(texts).telemetry},                                                                  \
        {.name = "telemetry-counters",                                                             \
         .value = "PATH",                                                                          \
         .help = TELEMETRY_COUNTERS_HELP,                                                          \
         .text = &(f).telemetry_counters},                                                         \
        {.name = "telemetry-labels",                                                               \
         .value = "old|new|oldest",                                                                \
         .help = TELEMETRY_LABELS_HELP,                                                            \
         .text = &(texts).telemetry_labels},                                                       \
    {                                                                                              \
        .name = "hami-metrics", .value = "none|current|legacy|both", .help = HAMI_METRICS_HELP,    \
        .text = &(texts).hami_names                                                                \
    }

int run_flags_parse(int argc, char **argv, struct run_flags *ret, enum run_flags_what *ret_what,
                    struct err *e)
{
    struct texts texts = {.resources = resources_names[API_PUBLISHER_KUBELET],
                          .resync = "30",
                          .call_deadline = "30000",
                          .settle = "60",
                          .koordinator_shares = "off",
                          .telemetry = "15",
                          .telemetry_labels = labels_names[DCGM_LABELS_OLD],
                          .hami_names = "none"};
    bool help = false;
    struct run_flags f = defaults;
    const struct option_def defs[] = {
        {"node-name", 0, "NODE_NAME", "NAME", "name of this node", &f.node, NULL},
        {"kubeconfig", 0, NULL, "PATH",
         "kubeconfig; absent: $KUBECONFIG, the pod's, ~/.kube/config", &f.kubeconfig, NULL},
        HOST_OPTIONS(f.host),
        {"resources", 0, NULL, "WHO",
         "who publishes the node's resources: kubelet (the agent serves it), controller, or none "
         "(another device plugin)",
         &texts.resources, NULL},
        {"kubelet-dir", 0, NULL, "PATH", "holds device-plugins/ and pod-resources/", &f.kubelet_dir,
         NULL},
        {"plugin-config", 0, NULL, "PATH",
         "configuration of NVIDIA's device plugin; absent: $CONFIG_FILE. Its variables count too",
         &f.plugin_config, NULL},
        {"mig-strategy", 0, NULL, "HOW",
         "names of partitions where no profile decides: none, single or mixed", &f.mig_strategy,
         NULL},
        {"device-list-strategy", 0, NULL, "WAYS",
         "how containers get devices: cdi-cri (default), cdi-annotations, envvar, volume-mounts, "
         "or several",
         &f.list_strategy, NULL},
        {"device-id-strategy", 0, NULL, "HOW",
         "how they are named to NVIDIA's runtime: uuid (default) or index", &f.id_strategy, NULL},
        {"pass-device-specs", 0, NULL, NULL,
         "list device files beside ways other than CDI; beside CDI they are until the runtime is known to do it",
         &f.pass_device_specs, NULL},
        {"cdi-annotation-prefix", 0, NULL, "PREFIX",
         "prefix of the keys of cdi-annotations; absent: cdi.k8s.io/", &f.annotation_prefix, NULL},
        {"shared-devices-allocation-policy", 0, NULL, "HOW",
         "replicas on as many cards as possible (distributed, default) or as few (packed)",
         &f.allocation_policy, NULL},
        {"mps-root", 0, NULL, "PATH",
         "pipes of MPS daemons, the same path for the agent and on the host; absent: " RUN_MPS_ROOT,
         &f.mps_root, NULL},
        {"mps-control", 0, NULL, "PATH", "absent: /usr/bin/nvidia-cuda-mps-control", &f.mps_control,
         NULL},
        {"gds-enabled", 0, NULL, NULL, "containers get GPUDirect Storage of NVIDIA's runtime",
         &f.gds, NULL},
        {"mofed-enabled", 0, NULL, NULL, "containers get MOFED of NVIDIA's runtime", &f.mofed,
         NULL},
        {"gdrcopy-enabled", 0, NULL, NULL, "containers get GDRCopy of NVIDIA's runtime", &f.gdrcopy,
         NULL},
        {"koordinator-device-infos", 0, NULL, "PATH",
         "koordlet's folder of device infos, where koordlet writes Koordinator's Device; empty: off",
         &f.device_infos, NULL},
        {"koordinator-shares", 0, NULL, "on|off",
         "on: shares of cards are offered under gpu.cleave.dev/share too, for pods that ask in Koordinator's words",
         &texts.koordinator_shares, NULL},
        {"limiter-folder", 0, NULL, "PATH", "has the limiter of shares", &f.limiter_folder, NULL},
        {"library-folder", 0, NULL, "PATH",
         "the limiter is copied there for containers; the same path for the agent and on the host",
         &f.library_folder, NULL},
        {"share-folder", 0, NULL, "PATH",
         "in memory, for what containers with limited shares have in common with the agent; the same path for both. Where it does not exist, no share is limited",
         &f.share_folder, NULL},
        {"cgroup-root", 0, NULL, "PATH",
         "the kubelet's cgroup root, for limits of memory that the driver keeps (cgroups of version 2 alone); the same path for the agent and on the host; empty: there are none",
         &f.cgroup_root, NULL},
        {"cdi-dir", 0, NULL, "PATH", "folder for the CDI files", &f.cdi_dir, NULL},
        {"cdi-hook", 0, NULL, "PATH", "nvidia-cdi-hook on the host; absent: no hooks", &f.cdi_hook,
         NULL},
        {"install-runtime", 0, NULL, "PATH",
         "copy cleave-runtime into this folder, for container runtimes without CDI; absent: no",
         &f.install_runtime, NULL},
        {"driver-root", 0, NULL, "PATH",
         "the driver's installation, as the agent sees it; absent: /", &f.driver_root, NULL},
        {"host-driver-root", 0, NULL, "PATH", "the same as the host sees it; absent: --driver-root",
         &f.host_driver_root, NULL},
        {"dev-root", 0, "CLEAVE_DEV_ROOT", "PATH",
         "the folder that holds dev/, as the agent sees it; absent: /", &f.dev_root, NULL},
        {"host-dev-root", 0, NULL, "PATH", "the same as the host sees it; absent: /",
         &f.host_dev_root, NULL},
        {"resync-seconds", 0, NULL, "N", "seconds between two readings of the whole hardware",
         &texts.resync, NULL},
        {"call-deadline-ms", 0, NULL, "N", "time after which a library call counts as hung",
         &texts.call_deadline, NULL},
        {"health-settle-seconds", 0, NULL, "N",
         "how long after an Xid the driver may still ask for a recovery", &texts.settle, NULL},
        {"disable-health-checks", 0, "DP_DISABLE_HEALTHCHECKS", "XIDS",
         "Xids that make nothing unhealthy, besides those that programs cause; all: no Xid does",
         &f.disable_checks, NULL},
        {"enable-health-checks", 0, "DP_ENABLE_HEALTHCHECKS", "XIDS",
         "Xids that always make hardware unhealthy; wins over the flag before", &f.enable_checks,
         NULL},
        {"health-addr", 0, NULL, "ADDR", "/healthz and /readyz; empty: off", &f.health, NULL},
        {"metrics-addr", 0, NULL, "ADDR", "/metrics; empty: off", &f.metrics, NULL},
        TELEMETRY_OPTIONS(f, texts),
        METRICS_ACCESS_OPTIONS(&f.access),
        LOG_OPTIONS(&f.log),
        {"help", 'h', NULL, NULL, "show this", NULL, &help},
        {0},
    };
    size_t n;
    auto_free struct option_def *all = host_options(&f.host, defs);
    TRY(options_parse(all, argc, argv, NULL, 0, &n, e));
    if (help) {
        options_help("cleave-agent run [flags]",
                     "Runs the agent of one node: keeps its cards as its Device wants them.", all);
        *ret_what = RUN_FLAGS_HELP;
        return 0;
    }
    TRY(check_flags(&f, &texts, e));
    *ret = f;
    *ret_what = RUN_FLAGS_GO;
    return 0;
}
