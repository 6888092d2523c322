/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim/smi/smi.h"

static const char usage[] =
    "nvidia-smi [-L | --list-gpus] [-i ID,...] [-mig 0|1] [-r | --gpu-reset]\n"
    "nvidia-smi mig [-i ID,...] [-gi ID,...] [-ci ID,...]\n"
    "           -lgip | -lgipp | -lgi | -cgi PROFILE[:START],... [-C] | -dgi\n"
    "           | -lcip | -lci | -cci [PROFILE,...] | -dci\n"
    "ID is an index, a UUID or a PCI bus id; PROFILE an id or a name.\n";

static void read_gpu(struct smi_gpu *gpu)
{
    nvmlPciInfo_t pci = {0};
    (void)nvmlDeviceGetName(gpu->device, gpu->name, sizeof(gpu->name));
    (void)nvmlDeviceGetUUID(gpu->device, gpu->uuid, sizeof(gpu->uuid));
    (void)nvmlDeviceGetPciInfo_v3(gpu->device, &pci);
    (void)snprintf(gpu->bus_id, sizeof(gpu->bus_id), "%s", pci.busId);
    (void)nvmlDeviceGetIndex(gpu->device, &gpu->index);
}

static bool add(struct smi *s, nvmlDevice_t device)
{
    if (s->count == SMI_MAX_GPUS)
        return false;
    struct smi_gpu *gpu = &s->gpus[s->count++];
    *gpu = (struct smi_gpu){.device = device};
    read_gpu(gpu);
    return true;
}

static int find_one(const char *id, nvmlDevice_t *device)
{
    char *end = NULL;
    unsigned long index = strtoul(id, &end, 10);
    if (*end == '\0' && end != id)
        return nvmlDeviceGetHandleByIndex_v2((unsigned int)index, device);
    if (strncmp(id, "GPU-", 4) == 0)
        return nvmlDeviceGetHandleByUUID(id, device);
    return nvmlDeviceGetHandleByPciBusId_v2(id, device);
}

static bool select_listed(struct smi *s, const char *ids)
{
    char id[96];
    for (const char *at = ids; *at != '\0';) {
        size_t length = strcspn(at, ",");
        nvmlDevice_t device = NULL;
        (void)snprintf(id, sizeof(id), "%.*s", (int)length, at);
        if (find_one(id, &device) != NVML_SUCCESS || !add(s, device)) {
            (void)printf("No devices were found\n");
            return false;
        }
        at += length + (at[length] == ',');
    }
    return true;
}

/* A lost card is reported and left out, as in the real tool. */
static bool select_all(struct smi *s)
{
    unsigned int count = 0;
    (void)nvmlDeviceGetCount_v2(&count);
    for (unsigned int i = 0; i < count; i++) {
        nvmlDevice_t device = NULL;
        int rc = nvmlDeviceGetHandleByIndex_v2(i, &device);
        if (rc == NVML_SUCCESS)
            (void)add(s, device);
        else
            (void)printf("Unable to determine the device handle for GPU%u: %s\n", i,
                         nvmlErrorString(rc));
    }
    return true;
}

/* The command and its value; option words are NULL where absent. */
struct words {
    const char *command, *value, *ids;
};

static bool is_any(const char *word, const char *const *choices)
{
    for (; *choices != NULL; choices++) {
        if (strcmp(word, *choices) == 0)
            return true;
    }
    return false;
}

static bool has_value(int argc, char **argv, int i)
{
    return i + 1 < argc && argv[i + 1][0] != '-';
}

static bool parse(struct smi *s, struct words *w, int argc, char **argv)
{
    static const char *const ids[] = {"-i", "--id", NULL};
    static const char *const gi[] = {"-gi", "--gpu-instance-id", NULL};
    static const char *const ci[] = {"-ci", "--compute-instance-id", NULL};
    static const char *const with_ci[] = {"-C", "--default-compute-instance", NULL};
    for (int i = 1; i < argc; i++) {
        const char *value = has_value(argc, argv, i) ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "mig") == 0 && i == 1)
            continue;
        if (is_any(argv[i], with_ci)) {
            s->create_ci = true;
            continue;
        }
        const char **into = is_any(argv[i], ids)  ? &w->ids
                            : is_any(argv[i], gi) ? &s->gi_ids
                            : is_any(argv[i], ci) ? &s->ci_ids
                                                  : &w->value;
        if (into == &w->value && w->command != NULL)
            return false;
        if (into == &w->value)
            w->command = argv[i];
        else if (value == NULL)
            return false;
        *into = value;
        i += value != NULL;
    }
    return true;
}

typedef int simple_fn(const struct smi *s);
static const struct {
    const char *word, *longer;
    simple_fn *run;
} simple[] = {
    {"-L", "--list-gpus", smi_list},
    {"-r", "--gpu-reset", smi_reset},
    {"-lgip", "--list-gpu-instance-profiles", smi_list_gi_profiles},
    {"-lgipp", "--list-gpu-instance-possible-placements", smi_list_gi_placements},
    {"-lgi", "--list-gpu-instances", smi_list_gis},
    {"-lcip", "--list-compute-instance-profiles", smi_list_ci_profiles},
    {"-lci", "--list-compute-instances", smi_list_cis},
    {"-dgi", "--destroy-gpu-instance", smi_destroy_gis},
    {"-dci", "--destroy-compute-instance", smi_destroy_cis},
};

static int dispatch(const struct smi *s, const struct words *w)
{
    if (w->command == NULL)
        return smi_table(s);
    for (size_t i = 0; i < sizeof(simple) / sizeof(simple[0]); i++) {
        if (strcmp(w->command, simple[i].word) == 0 || strcmp(w->command, simple[i].longer) == 0)
            return simple[i].run(s);
    }
    if (strcmp(w->command, "-cci") == 0 || strcmp(w->command, "--create-compute-instance") == 0)
        return smi_create_cis(s, w->value);
    if (w->value == NULL)
        return -1;
    if (strcmp(w->command, "-mig") == 0 || strcmp(w->command, "--multi-instance-gpu") == 0)
        return smi_set_mig(s, w->value);
    if (strcmp(w->command, "-cgi") == 0 || strcmp(w->command, "--create-gpu-instance") == 0)
        return smi_create_gis(s, w->value);
    return -1;
}

static bool wants_reset(int argc, char **argv)
{
    bool found = false;
    for (int i = 1; i < argc; i++)
        found |= strcmp(argv[i], "-r") == 0 || strcmp(argv[i], "--gpu-reset") == 0;
    return found;
}

int main(int argc, char **argv)
{
    static struct smi s;
    struct words w = {0};
    if (argc > 1 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)) {
        (void)fputs(usage, stdout);
        return 0;
    }
    if (wants_reset(argc, argv))
        (void)setenv("CLEAVE_SIM_RESETS", "1", 1);
    int rc = nvmlInit_v2();
    if (rc == NVML_ERROR_DRIVER_NOT_LOADED) {
        (void)printf(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
            "Make sure that the latest NVIDIA driver is installed and running.\n\n");
        return 9;
    }
    if (rc != NVML_SUCCESS) {
        (void)printf("Failed to initialize NVML: %s\n", nvmlErrorString(rc));
        return 255;
    }
    int exit_code = -1;
    if (parse(&s, &w, argc, argv))
        exit_code =
            (w.ids != NULL ? select_listed(&s, w.ids) : select_all(&s)) ? dispatch(&s, &w) : 6;
    if (exit_code < 0)
        (void)fputs(usage, stderr);
    (void)nvmlShutdown();
    return exit_code < 0 ? 2 : exit_code;
}
