/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/vendor/nvidia/nvidia_make.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

/* Minors of the common files (nvidia-modprobe nvidia-modprobe-utils.h; kernel module nv.h). */
#define CTL_MINOR       255
#define MODESET_MINOR   254
#define UVM_MINOR       0
#define UVM_TOOLS_MINOR 1
#define SETTINGS_BYTES  ((size_t)16 * 1024)

/* A device file to make. */
struct wanted {
    int folder; /* borrowed */
    const char *name;
    dev_t number;
    const struct nvidia_nodes_file *how;
};

static int open_folder(int at, const char *name, int *ret_fd, struct err *e)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_set_errno(e, errno, "open folder %s of the device files", name);
    *ret_fd = fd;
    return 0;
}

static int open_dev(const struct driver_where *w, int *ret_fd, struct err *e)
{
    auto_fd int root = open(w->dev_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return err_set_errno(e, errno, "open %s", w->dev_root);
    return open_folder(root, "dev", ret_fd, e);
}

static int open_caps(int dev, int *ret_fd, struct err *e)
{
    if (mkdirat(dev, "nvidia-caps", 0755) < 0 && errno != EEXIST)
        return err_set_errno(e, errno, "create folder nvidia-caps");
    return open_folder(dev, "nvidia-caps", ret_fd, e);
}

/* The umask, which is not this module's to change, cuts mknod's mode. By then the path could be a
 * link, so chmod works on a descriptor. */
static int set_owner(const struct wanted *want, const char *name)
{
    auto_fd int fd = openat(want->folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    auto_free char *held = xasprintf("/proc/self/fd/%d", fd);
    /* The mode first: afterwards the file may be another user's, whose mode takes a further
     * capability to change. */
    if (chmod(held, want->how->mode) < 0)
        return -1;
    return fchownat(fd, "", want->how->uid, want->how->gid, AT_EMPTY_PATH);
}

static int make_draft(const struct wanted *want, const char *draft)
{
    mode_t mode = S_IFCHR | (mode_t)want->how->mode;
    if (mknodat(want->folder, draft, mode, want->number) == 0)
        return 0;
    /* A draft of a crashed agent. */
    if (errno != EEXIST || unlinkat(want->folder, draft, 0) < 0)
        return -1;
    return mknodat(want->folder, draft, mode, want->number);
}

static int make_error(const struct wanted *want, int saved_errno, struct err *e)
{
    if (saved_errno == EPERM || saved_errno == EACCES || saved_errno == EROFS)
        return err_set(e, ERR_FORBIDDEN, "cannot make device file %s: %s", want->name,
                       strerror(saved_errno));
    return err_set_errno(e, saved_errno, "make device file %s", want->name);
}

/* The file appears at once: a reader of the name finds nothing, the old file, or the new one with
 * its mode. */
static int make_file(const struct wanted *want, bool replace, struct err *e)
{
    assert(!strchr(want->name, '/') && want->how->modify);
    auto_free char *draft = xasprintf(".%s.cleave", want->name);
    if (make_draft(want, draft) < 0)
        return make_error(want, errno, e);
    unsigned flags = replace ? 0 : RENAME_NOREPLACE;
    if (set_owner(want, draft) == 0 &&
        renameat2(want->folder, draft, want->folder, want->name, flags) == 0)
        return 0;
    int saved_errno = errno;
    (void)unlinkat(want->folder, draft, 0);
    /* The driver's own tool was faster. */
    return saved_errno == EEXIST ? 0 : make_error(want, saved_errno, e);
}

static int ensure(const struct wanted *want, struct err *e)
{
    struct stat st;
    if (fstatat(want->folder, want->name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT)
            return make_error(want, errno, e);
        return want->how->modify ? make_file(want, /* replace= */ false, e) : 0;
    }
    if (!S_ISCHR(st.st_mode))
        return err_set(e, ERR_CONFLICT, "%s is no device file; remove it to have one made",
                       want->name);
    if (st.st_rdev == want->number || !want->how->modify)
        return 0;
    return make_file(want, /* replace= */ true, e);
}

/* Keeps the first failure and continues. */
static void note(int rc, struct err *first, struct err *now)
{
    if (rc < 0 && !first->kind)
        (void)err_move(first, now);
    err_clear(now);
}

static void ensure_one(int folder, const char *name, int major, int minor,
                       const struct nvidia_nodes_file *how, struct err *first)
{
    struct err now = {0};
    const struct wanted want = {folder, name, makedev((unsigned)major, (unsigned)minor), how};
    if (major <= 0 || minor < 0)
        return;
    note(ensure(&want, &now), first, &now);
}

/* Reads the driver's settings; its defaults where there is no such file. */
static int read_settings(const struct driver_where *w, const char *name, char **ret, struct err *e)
{
    auto_free char *path = xasprintf("%s/driver/%s", w->proc_root, name);
    return file_read(path, SETTINGS_BYTES, ret, /* ret_len= */ NULL, e);
}

static int read_params(const struct driver_where *w, struct nvidia_nodes_file *ret, struct err *e)
{
    auto_free char *text = NULL;
    auto_err struct err mine = {0};
    int rc = read_settings(w, "nvidia/params", &text, &mine);
    if (rc < 0 && rc != -ERR_NOT_FOUND)
        return err_move(e, &mine);
    *ret = nvidia_nodes_parse_file(text ? text : "");
    return 0;
}

static void make_commons(int dev, const struct nvidia_nodes *n, const struct nvidia_nodes_file *how,
                         struct err *first)
{
    ensure_one(dev, "nvidiactl", n->nvidia_major, CTL_MINOR, how, first);
    ensure_one(dev, "nvidia-uvm", n->uvm_major, UVM_MINOR, how, first);
    ensure_one(dev, "nvidia-uvm-tools", n->uvm_major, UVM_TOOLS_MINOR, how, first);
    if (n->has_modeset)
        ensure_one(dev, "nvidia-modeset", n->nvidia_major, MODESET_MINOR, how, first);
}

static void make_cards(int dev, const struct nvidia_nodes *n, const struct nvidia_nodes_file *how,
                       const unsigned *minors, size_t n_cards, struct err *first)
{
    for (size_t i = 0; i < n_cards; i++) {
        auto_free char *name = xasprintf("nvidia%u", minors[i]);
        ensure_one(dev, name, n->nvidia_major, (int)minors[i], how, first);
    }
}

/* Makes the file of one capability. `shown` has its mode, and its minor again. */
static int make_cap(const struct driver_where *w, const struct nvidia_nodes *n, int folder,
                    const char *shown, int minor, struct err *e)
{
    auto_free char *text = NULL;
    auto_free char *path = xasprintf("nvidia/capabilities/%s", shown);
    TRY(read_settings(w, path, &text, e));
    struct nvidia_nodes_file how = nvidia_nodes_parse_file(text);
    if (how.minor != minor)
        return err_set(e, ERR_PROTOCOL, "capability %s has minor %d there and %d in mig-minors",
                       shown, how.minor, minor);
    auto_free char *name = xasprintf("nvidia-cap%d", minor);
    const struct wanted want = {folder, name, makedev((unsigned)n->caps_major, (unsigned)minor),
                                &how};
    return ensure(&want, e);
}

/* Makes the files for managers of MIG. A card without MIG has none, which is no error. */
static void make_manager_caps(const struct driver_where *w, const struct nvidia_nodes *n, int dev,
                              struct err *first)
{
    static const char *const shown[] = {"mig/config", "mig/monitor"};
    const int minors[] = {n->config_minor, n->monitor_minor};
    auto_fd int folder = -1;
    struct err now = {0};
    if (n->caps_major <= 0)
        return;
    note(open_caps(dev, &folder, &now), first, &now);
    for (size_t i = 0; folder >= 0 && i < ARRAY_LEN(shown); i++) {
        int rc = minors[i] < 0 ? 0 : make_cap(w, n, folder, shown[i], minors[i], &now);
        note(rc == -ERR_NOT_FOUND ? 0 : rc, first, &now);
    }
}

int nvidia_make_cards(const struct driver_where *w, struct nvidia_nodes *n,
                      const unsigned *card_minors, size_t n_cards, struct err *e)
{
    auto_fd int dev = -1;
    auto_err struct err first = {0};
    struct nvidia_nodes_file how;
    if (n->nvidia_major <= 0)
        return 0;
    TRY(read_params(w, &how, e));
    TRY(open_dev(w, &dev, e));
    make_commons(dev, n, &how, &first);
    make_cards(dev, n, &how, card_minors, n_cards, &first);
    make_manager_caps(w, n, dev, &first);
    nvidia_nodes_look(w, n);
    return first.kind ? err_move(e, &first) : 0;
}

int nvidia_make_card(const struct driver_where *w, const struct nvidia_nodes *n, unsigned minor,
                     struct err *e)
{
    auto_fd int dev = -1;
    auto_err struct err first = {0};
    struct nvidia_nodes_file how;
    if (n->nvidia_major <= 0)
        return 0;
    TRY(read_params(w, &how, e));
    TRY(open_dev(w, &dev, e));
    make_cards(dev, n, &how, &minor, 1, &first);
    return first.kind ? err_move(e, &first) : 0;
}

int nvidia_make_caps(const struct driver_where *w, const struct nvidia_nodes *n,
                     unsigned card_minor, unsigned gi_id, unsigned ci_id, struct err *e)
{
    int gi = nvidia_nodes_cap_minor(n, card_minor, gi_id, -1);
    int ci = nvidia_nodes_cap_minor(n, card_minor, gi_id, (int)ci_id);
    auto_fd int dev = -1;
    auto_fd int folder = -1;
    if (n->caps_major <= 0 || gi < 0 || ci < 0)
        return err_set(e, ERR_NOT_FOUND, "the driver names no capability of gpu%u/gi%u/ci%u",
                       card_minor, gi_id, ci_id);
    TRY(open_dev(w, &dev, e));
    TRY(open_caps(dev, &folder, e));
    auto_free char *gi_file = xasprintf("gpu%u/mig/gi%u/access", card_minor, gi_id);
    auto_free char *ci_file = xasprintf("gpu%u/mig/gi%u/ci%u/access", card_minor, gi_id, ci_id);
    TRY(make_cap(w, n, folder, gi_file, gi, e));
    return make_cap(w, n, folder, ci_file, ci, e);
}
