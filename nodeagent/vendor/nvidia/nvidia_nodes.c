/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/nvidia/nvidia_nodes.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/num.h"
#include "base/xalloc.h"

/* mig-minors has 135 lines of about 25 bytes for each of up to 32 cards; this leaves room. */
#define MINORS_BYTES  ((size_t)1 << 20)
#define DEVICES_BYTES ((size_t)64 * 1024)
#define MAX_CAPS      65536
#define MAX_MINOR     ((1 << 20) - 1)

/* Takes a number of digits at *at, at most max, and moves *at behind it. -1: there is none. */
static int take_number(const char **at, int max)
{
    assert(max <= 999999999); /* nine digits */
    size_t digits = strspn(*at, "0123456789");
    int64_t n = 0;
    if (digits == 0 || digits > 9)
        return -1;
    auto_free char *text = xstrndup(*at, digits);
    if (num_parse(text, 0, max, &n, NULL) < 0)
        return -1;
    *at += digits;
    return (int)n;
}

static bool take_word(const char **at, const char *word)
{
    size_t len = strlen(word);
    if (strncmp(*at, word, len) != 0)
        return false;
    *at += len;
    return true;
}

static const char *next_line(const char *at)
{
    const char *end = strchr(at, '\n');
    return end ? end + 1 : at + strlen(at);
}

static bool at_line_end(const char *at)
{
    return *at == '\n' || *at == '\0';
}

/* Finds "  1 mem" under "Character devices:"; "Block devices:" do not count. */
int nvidia_nodes_parse_major(const char *text, const char *name)
{
    for (const char *line = text; *line; line = next_line(line)) {
        const char *at = line;
        if (take_word(&at, "Block devices:"))
            return -1;
        at += strspn(at, " ");
        int major = take_number(&at, MAX_MINOR);
        if (major >= 0 && take_word(&at, " ") && take_word(&at, name) && at_line_end(at))
            return major;
    }
    return -1;
}

/* "gpu0/gi1/access 12", "gpu0/gi1/ci2/access 15". */
static bool parse_cap(const char *at, struct nvidia_nodes_cap *ret)
{
    if (!take_word(&at, "gpu"))
        return false;
    int card = take_number(&at, UINT16_MAX);
    if (card < 0 || !take_word(&at, "/gi"))
        return false;
    int gi = take_number(&at, UINT8_MAX);
    int ci = -1;
    if (gi < 0 || (take_word(&at, "/ci") && (ci = take_number(&at, INT8_MAX)) < 0))
        return false;
    if (!take_word(&at, "/access "))
        return false;
    int minor = take_number(&at, MAX_MINOR);
    if (minor < 0 || !at_line_end(at))
        return false;
    *ret = (struct nvidia_nodes_cap){(uint16_t)card, (uint8_t)gi, (int8_t)ci, (uint32_t)minor};
    return true;
}

static void parse_manager_cap(const char *at, const char *name, int *ret)
{
    if (!take_word(&at, name))
        return;
    int minor = take_number(&at, MAX_MINOR);
    if (minor >= 0 && at_line_end(at))
        *ret = minor;
}

static int compare_numbers(int a, int b)
{
    return (a > b) - (a < b);
}

static int compare_caps(const void *a, const void *b)
{
    const struct nvidia_nodes_cap *x = a;
    const struct nvidia_nodes_cap *y = b;
    int by_card = compare_numbers(x->card_minor, y->card_minor);
    int by_gi = compare_numbers(x->gi_id, y->gi_id);
    if (by_card)
        return by_card;
    return by_gi ? by_gi : compare_numbers(x->ci_id, y->ci_id);
}

int nvidia_nodes_parse_mig_minors(const char *text, struct nvidia_nodes *n, struct err *e)
{
    auto_free struct nvidia_nodes_cap *caps = NULL;
    size_t n_caps = 0;
    int config = -1;
    int monitor = -1;
    for (const char *line = text; *line; line = next_line(line)) {
        struct nvidia_nodes_cap cap;
        if (n_caps == MAX_CAPS)
            return err_set(e, ERR_TOO_LARGE, "more than %d MIG capabilities", MAX_CAPS);
        if (parse_cap(line, &cap))
            *XPUSH(caps, n_caps) = cap;
        parse_manager_cap(line, "config ", &config);
        parse_manager_cap(line, "monitor ", &monitor);
    }
    assert(n_caps <= MAX_CAPS);
    if (n_caps) {
        qsort(caps, n_caps, sizeof(*caps), compare_caps);
        caps = xreallocarray(caps, n_caps, sizeof(*caps)); /* grown to a power of two */
    }
    free(n->caps);
    n->caps = TAKE(caps);
    n->n_caps = n_caps;
    n->config_minor = config;
    n->monitor_minor = monitor;
    return 0;
}

int nvidia_nodes_cap_minor(const struct nvidia_nodes *n, unsigned card_minor, unsigned gi_id,
                           int ci_id)
{
    assert(n->caps || n->n_caps == 0);
    if (n->n_caps == 0 || card_minor > UINT16_MAX || gi_id > UINT8_MAX || ci_id < -1 ||
        ci_id > INT8_MAX)
        return -1;
    const struct nvidia_nodes_cap key = {(uint16_t)card_minor, (uint8_t)gi_id, (int8_t)ci_id, 0};
    const struct nvidia_nodes_cap *found =
        bsearch(&key, n->caps, n->n_caps, sizeof(*n->caps), compare_caps);
    return found ? (int)found->minor : -1;
}

/* The number behind "name: " at the beginning of a line; unchanged when the line has another
 * name. */
static void take_setting(const char *line, const char *name, int max, int *ret)
{
    const char *at = line;
    if (!take_word(&at, name) || !take_word(&at, ": "))
        return;
    int n = take_number(&at, max);
    if (n >= 0 && at_line_end(at))
        *ret = n;
}

struct nvidia_nodes_file nvidia_nodes_parse_file(const char *text)
{
    int minor = -1;
    int mode = 0666;
    int uid = 0;
    int gid = 0;
    int modify = 1;
    for (const char *line = text; *line; line = next_line(line)) {
        take_setting(line, "DeviceFileMinor", MAX_MINOR, &minor);
        take_setting(line, "DeviceFileMode", 0777, &mode);
        take_setting(line, "DeviceFileUID", 999999999, &uid);
        take_setting(line, "DeviceFileGID", 999999999, &gid);
        take_setting(line, "DeviceFileModify", 1, &modify);
        take_setting(line, "ModifyDeviceFiles", 1, &modify);
    }
    return (struct nvidia_nodes_file){minor, (unsigned)mode, (unsigned)uid, (unsigned)gid,
                                      modify != 0};
}

/* The file's text; "" where there is none. */
static int read_optional(const char *root, const char *name, size_t max, char **ret, struct err *e)
{
    auto_free char *path = xasprintf("%s/%s", root, name);
    auto_err struct err mine = {0};
    int rc = file_read(path, max, ret, /* ret_len= */ NULL, &mine);
    if (rc == -ERR_NOT_FOUND) {
        *ret = xstrdup("");
        return 0;
    }
    return rc < 0 ? err_move(e, &mine) : 0;
}

static int read_majors(const char *proc_root, struct nvidia_nodes *n, struct err *e)
{
    auto_free char *text = NULL;
    TRY(read_optional(proc_root, "devices", DEVICES_BYTES, &text, e));
    /* Drivers before about 525 call it nvidia-frontend. */
    n->nvidia_major = nvidia_nodes_parse_major(text, "nvidia");
    if (n->nvidia_major < 0)
        n->nvidia_major = nvidia_nodes_parse_major(text, "nvidia-frontend");
    n->uvm_major = nvidia_nodes_parse_major(text, "nvidia-uvm");
    n->caps_major = nvidia_nodes_parse_major(text, "nvidia-caps");
    n->has_modeset = nvidia_nodes_parse_major(text, "nvidia-modeset") >= 0;
    return 0;
}

/* Links do not count, since they may lead to a container's file. */
static bool stands(const char *dev_root, const char *name)
{
    struct stat st;
    auto_free char *path = xasprintf("%s/dev/%s", dev_root, name);
    return lstat(path, &st) == 0 && !S_ISLNK(st.st_mode) && !S_ISDIR(st.st_mode);
}

static void look_for_cards(const char *dev_root, struct nvidia_nodes *n)
{
    auto_free char *path = xasprintf("%s/dev", dev_root);
    DIR *dir = opendir(path);
    memset(n->cards, 0, sizeof(n->cards));
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        const char *at = entry->d_name;
        int minor = take_word(&at, "nvidia") ? take_number(&at, NVIDIA_NODES_MAX_CARDS - 1) : -1;
        if (minor >= 0 && *at == '\0' && stands(dev_root, entry->d_name))
            n->cards[minor] = true;
    }
    if (dir)
        (void)closedir(dir);
}

void nvidia_nodes_look(const struct driver_where *w, struct nvidia_nodes *n)
{
    n->ctl = stands(w->dev_root, "nvidiactl");
    n->modeset = stands(w->dev_root, "nvidia-modeset");
    n->uvm = stands(w->dev_root, "nvidia-uvm");
    n->uvm_tools = stands(w->dev_root, "nvidia-uvm-tools");
    look_for_cards(w->dev_root, n);
}

bool nvidia_nodes_are_current(const struct driver_where *w, const struct nvidia_nodes *n)
{
    struct nvidia_nodes now = {0};
    if (read_majors(w->proc_root, &now, /* e= */ NULL) < 0)
        return false;
    nvidia_nodes_look(w, &now);
    return now.nvidia_major == n->nvidia_major && now.uvm_major == n->uvm_major &&
           now.caps_major == n->caps_major && now.has_modeset == n->has_modeset &&
           now.ctl == n->ctl && now.modeset == n->modeset && now.uvm == n->uvm &&
           now.uvm_tools == n->uvm_tools && memcmp(now.cards, n->cards, sizeof(now.cards)) == 0;
}

bool nvidia_nodes_have_card(const struct nvidia_nodes *n, unsigned minor)
{
    bool is_known = n->nvidia_major > 0 && minor < NVIDIA_NODES_MAX_CARDS;
    return !is_known || n->cards[minor];
}

int nvidia_nodes_read(const struct driver_where *w, struct nvidia_nodes *ret, struct err *e)
{
    auto_nvidia_nodes struct nvidia_nodes n = {.config_minor = -1, .monitor_minor = -1};
    auto_free char *minors = NULL;
    TRY(read_majors(w->proc_root, &n, e));
    TRY(read_optional(w->proc_root, "driver/nvidia-caps/mig-minors", MINORS_BYTES, &minors, e));
    TRY(nvidia_nodes_parse_mig_minors(minors, &n, e));
    nvidia_nodes_look(w, &n);
    bool is_root = !w->host_dev_root || strcmp(w->host_dev_root, "/") == 0;
    n.host_dev_root = xstrdup(is_root ? "" : w->host_dev_root);
    *ret = n;
    n = (struct nvidia_nodes){0};
    return 0;
}

void nvidia_nodes_done(struct nvidia_nodes *n)
{
    free(n->caps);
    free(n->host_dev_root);
    *n = (struct nvidia_nodes){0};
}
