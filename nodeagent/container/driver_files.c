/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/driver_files.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/container/rooted.h"

#define MAX_FILES 1024

/*
 * The folders of internal/lookup/library.go. Where none of them has the driver, the toolkit asks
 * the root's ld.so.cache; here library_folder must be set. The cache of another root, in another
 * libc's format, is less reliable than the administrator's setting.
 */
static const char *const library_folders[] = {
    "/",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/lib64",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/lib/x86_64-linux-gnu/nvidia/current",
    "/lib/aarch64-linux-gnu/nvidia/current",
    "/glibc/lib",
};

/* Libraries with version numbers of their own. */
static const char *const unversioned[] = {"libnvidia-nvvm70.so.*", "libnvidia-egl-gbm.so.*.*",
                                          "libnvidia-egl-wayland.so.*.*"};

static const char *const program_folders[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                              "/usr/bin",        "/sbin",          "/bin"};

static const char *const programs[] = {
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-imex",
    "nvidia-imex-ctl",
};

/* The toolkit's list also has /tmp/nvidia-mps, the pipe folder of a host's own MPS daemon. It is
 * left out: once the daemon's folder is removed, everybody may make a link of that name in /tmp,
 * and the runtime would mount its target. */
static const char *const sockets[] = {"/var/run/nvidia-persistenced/socket",
                                      "/var/run/nvidia-fabricmanager/socket"};

static const char *const setting_folders[] = {"/etc", "/usr/local/share", "/usr/share"};

static const char *const settings[] = {
    "glvnd/egl_vendor.d/10_nvidia.json",
    "egl/egl_external_platform.d/15_nvidia_gbm.json",
    "egl/egl_external_platform.d/10_nvidia_wayland.json",
    "nvidia/nvoptix.bin",
    "X11/xorg.conf.d/10-nvidia.conf",
    "X11/xorg.conf.d/nvidia-drm-outputclass.conf",
};

/* In the container these are below /etc, wherever the host has them. */
static const char *const vulkan_settings[] = {
    "vulkan/icd.d/nvidia_icd.json",
    "vulkan/icd.d/nvidia_icd.x86_64.json",
    "vulkan/icd.d/nvidia_icd.aarch64.json",
    "vulkan/icd.d/nvidia_layers.json",
    "vulkan/implicit_layer.d/nvidia_layers.json",
};

/* Names that programs rely on and packages may lack (internal/discover/symlinks.go, graphics.go).
 * "%" is the driver's version. */
static const struct {
    const char *library, *link, *target;
} known_links[] = {
    {"libcuda.so.%", "libcuda.so", "libcuda.so.1"},
    {"libnvidia-opticalflow.so.%", "libnvidia-opticalflow.so", "libnvidia-opticalflow.so.1"},
    {"libGLX_nvidia.so.%", "libGLX_indirect.so.0", "libGLX_nvidia.so.%"},
    {"libnvidia-vulkan-producer.so.%", "libnvidia-vulkan-producer.so",
     "libnvidia-vulkan-producer.so.%"},
    {"libnvidia-allocator.so.%", "gbm/nvidia-drm_gbm.so", "../libnvidia-allocator.so.1"},
};

/* The search: where, and what it found so far. */
struct search {
    const struct driver_files_where *w;
    struct driver_files found;
    struct err refused; /* the first existing file that others than root may change */
};

static char *host_path(const struct search *s, const char *resolved)
{
    return rooted_join(s->w->host_root ? s->w->host_root : s->w->root, resolved);
}

/* True when the file exists, whoever may change it; also where the kernel cannot tell (before
 * 5.6). */
static bool is_there(const char *root, const char *part)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
    auto_fd int at = open(root[0] ? root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    auto_fd int fd = (int)syscall(SYS_openat2, at, part, &how, sizeof(how));
    return fd >= 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* Notes a refusal, unless it concerns a folder on the way and the file itself does not exist. */
static void note_refused(struct search *s, const char *part, struct err *why)
{
    auto_free char *seen = rooted_join(s->w->root, part);
    if (why->kind == ERR_FORBIDDEN && !s->refused.kind && is_there(s->w->root, part))
        (void)err_set(&s->refused, ERR_FORBIDDEN, "%s cannot be taken: %s", seen, err_msg(why));
    err_clear(why);
}

/* Resolves a path below the root. False: no file there that only root may change. Caller frees
 * *ret_resolved. */
static bool resolve_file(struct search *s, const char *path, char **ret_resolved,
                         struct stat *ret_st)
{
    auto_fd int fd = -1;
    struct err why = {0};
    if (rooted_open(s->w->root, path, ret_resolved, &fd, &why) < 0) {
        note_refused(s, path, &why);
        return false;
    }
    if (fstat(fd, ret_st) == 0)
        return true;
    xstr_set(ret_resolved, NULL);
    return false;
}

static int add_file(struct search *s, enum driver_file_kind kind, const char *resolved,
                    const char *container_path, struct err *e)
{
    struct driver_files *f = &s->found;
    assert(resolved && resolved[0] == '/');
    if (f->n_files == MAX_FILES)
        return err_set(e, ERR_TOO_LARGE, "the driver has more than %d files", MAX_FILES);
    struct driver_file *file = XPUSH(f->files, f->n_files);
    file->kind = kind;
    file->host_path = host_path(s, resolved);
    file->container_path = xstrdup(container_path);
    return 0;
}

/* Adds a file of the folder if it is a plain one. */
static int add_plain(struct search *s, enum driver_file_kind kind, const char *folder,
                     const char *name, struct err *e)
{
    auto_free char *path = rooted_join(folder, name);
    auto_free char *resolved = NULL;
    struct stat st;
    if (!resolve_file(s, path, &resolved, &st) || !S_ISREG(st.st_mode))
        return 0;
    return add_file(s, kind, resolved, path, e);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* The names in a folder, sorted, as malloc'ed strings; none when the folder is missing. */
struct names {
    char **items;
    size_t count;
};

static void names_done(struct names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->items[i]);
    free(n->items);
}

static int list_folder(struct search *s, const char *folder, struct names *ret, struct err *e)
{
    auto_fd int fd = -1;
    auto_free char *resolved = NULL;
    struct err why = {0};
    struct dirent **entries = NULL;
    if (rooted_open(s->w->root, folder, &resolved, &fd, &why) < 0) {
        note_refused(s, folder, &why);
        return 0;
    }
    int n = scandirat(fd, ".", &entries, NULL, by_name);
    if (n < 0 && errno != ENOENT) {
        int saved_errno = errno;
        auto_free char *seen = rooted_join(s->w->root, folder);
        return err_set_errno(e, saved_errno, "read folder %s", seen);
    }
    for (int i = 0; i < n; i++) {
        *XPUSH(ret->items, ret->count) = xasprintf("/%s", entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return 0;
}

static bool is_library(const struct search *s, const char *name)
{
    auto_free char *pattern = xasprintf("/*.so.%s", s->w->version);
    if (fnmatch(pattern, name, 0) == 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(unversioned); i++) {
        if (fnmatch(unversioned[i], name + 1, 0) == 0)
            return true;
    }
    return false;
}

/* The library with this host path; NULL: it is not among those found. */
static const struct driver_file *library_at(const struct driver_files *f, const char *host)
{
    for (size_t i = 0; i < f->n_files; i++) {
        if (f->files[i].kind == DRIVER_LIBRARY && strcmp(f->files[i].host_path, host) == 0)
            return &f->files[i];
    }
    return NULL;
}

static const struct driver_file *library_named(const struct driver_files *f, const char *path)
{
    for (size_t i = 0; i < f->n_files; i++) {
        if (strcmp(f->files[i].container_path, path) == 0)
            return &f->files[i];
    }
    return NULL;
}

static void add_link(struct search *s, const char *path, const char *target, const char *host)
{
    for (size_t i = 0; i < s->found.n_links; i++) {
        if (strcmp(s->found.links[i].path, path) == 0)
            return;
    }
    struct driver_link *link = XPUSH(s->found.links, s->found.n_links);
    link->path = xstrdup(path);
    link->target = xstrdup(target);
    link->host_path = xstrdup(host);
}

/* The name of a link beside the libraries is another name of the library that it leads to. */
static void note_link(struct search *s, const char *folder, const char *name)
{
    auto_free char *path = rooted_join(folder, name);
    auto_free char *resolved = NULL;
    struct stat st;
    if (library_named(&s->found, path) || !strstr(name, ".so") ||
        !resolve_file(s, path, &resolved, &st))
        return;
    auto_free char *host = host_path(s, resolved);
    const struct driver_file *library = library_at(&s->found, host);
    if (library)
        add_link(s, path, strrchr(library->container_path, '/') + 1, host);
}

static char *with_version(const char *text, const char *version)
{
    const char *mark = strchr(text, '%');
    if (!mark)
        return xstrdup(text);
    return xasprintf("%.*s%s%s", (int)(mark - text), text, version, mark + 1);
}

static void note_known_links(struct search *s, const char *folder)
{
    for (size_t i = 0; i < ARRAY_LEN(known_links); i++) {
        auto_free char *name = with_version(known_links[i].library, s->w->version);
        auto_free char *target = with_version(known_links[i].target, s->w->version);
        auto_free char *slashed = xasprintf("/%s", name);
        auto_free char *path = rooted_join(folder, slashed);
        auto_free char *link = xasprintf("/%s", known_links[i].link);
        auto_free char *link_path = rooted_join(folder, link);
        const struct driver_file *library = library_named(&s->found, path);
        if (library)
            add_link(s, link_path, target, library->host_path);
    }
}

static int add_libraries(struct search *s, const char *folder, struct err *e)
{
    __attribute__((cleanup(names_done))) struct names names = {0};
    size_t before = s->found.n_files;
    TRY(list_folder(s, folder, &names, e));
    for (size_t i = 0; i < names.count; i++) {
        if (is_library(s, names.items[i]))
            TRY(add_plain(s, DRIVER_LIBRARY, folder, names.items[i], e));
    }
    for (size_t i = 0; i < names.count; i++)
        note_link(s, folder, names.items[i]);
    note_known_links(s, folder);
    if (s->found.n_files > before)
        *XPUSH(s->found.library_folders, s->found.n_library_folders) = xstrdup(folder);
    return 0;
}

/* The driver's libraries are in the folder with libcuda or NVML of its version (root/root.go).
 * NULL: not in this one. */
static char *driver_folder(struct search *s, const char *folder)
{
    static const char *const witnesses[] = {"libcuda", "libnvidia-ml"};
    for (size_t i = 0; i < ARRAY_LEN(witnesses); i++) {
        auto_free char *name = xasprintf("/%s.so.%s", witnesses[i], s->w->version);
        auto_free char *path = rooted_join(folder, name);
        auto_free char *resolved = NULL;
        char *resolved_folder = NULL;
        struct stat st;
        if (resolve_file(s, path, &resolved, &st) && S_ISREG(st.st_mode) &&
            rooted_resolve(s->w->root, folder, &resolved_folder, NULL) == 0)
            return resolved_folder;
    }
    return NULL;
}

static int find_libraries(struct search *s, struct err *e)
{
    const char *const *folders = s->w->library_folder ? &s->w->library_folder : library_folders;
    size_t n = s->w->library_folder ? 1 : ARRAY_LEN(library_folders);
    auto_sb struct sb tried = SB_INIT(4096);
    for (size_t i = 0; i < n; i++) {
        auto_free char *folder = driver_folder(s, folders[i]);
        sb_addf(&tried, "%s%s", i ? ", " : "", folders[i]);
        if (!folder)
            continue;
        auto_free char *vdpau = rooted_join(folder, "/vdpau");
        TRY(add_libraries(s, folder, e));
        return add_libraries(s, vdpau, e);
    }
    return err_set(e, ERR_NOT_FOUND,
                   "no libcuda.so.%s and no libnvidia-ml.so.%s below driver root %s in %s%s%s",
                   s->w->version, s->w->version, s->w->root, sb_str(&tried),
                   s->refused.kind ? "; " : "", s->refused.kind ? err_msg(&s->refused) : "");
}

static int find_program(struct search *s, const char *name, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(program_folders); i++) {
        auto_free char *path = xasprintf("%s/%s", program_folders[i], name);
        auto_free char *resolved = NULL;
        struct stat st;
        if (resolve_file(s, path, &resolved, &st) && S_ISREG(st.st_mode) && (st.st_mode & 0111))
            return add_file(s, DRIVER_PROGRAM, resolved, path, e);
    }
    return 0;
}

static int find_socket(struct search *s, const char *path, struct err *e)
{
    auto_free char *resolved = NULL;
    struct stat st;
    if (!resolve_file(s, path, &resolved, &st) || !S_ISSOCK(st.st_mode))
        return 0;
    return add_file(s, DRIVER_SOCKET, resolved, path, e);
}

/* Adds the first folder with firmware, in the kernel's order. *ret_found: there was one. */
static int add_firmware(struct search *s, const char *base, bool *ret_found, struct err *e)
{
    __attribute__((cleanup(names_done))) struct names names = {0};
    auto_free char *folder = xasprintf("%s/nvidia/%s", base, s->w->version);
    auto_free char *resolved = NULL;
    if (*ret_found || rooted_resolve(s->w->root, folder, &resolved, NULL) < 0)
        return 0;
    TRY(list_folder(s, resolved, &names, e));
    for (size_t i = 0; i < names.count; i++) {
        if (fnmatch("/gsp*.bin", names.items[i], 0) != 0)
            continue;
        TRY(add_plain(s, DRIVER_FIRMWARE, folder, names.items[i], e));
        *ret_found = true;
    }
    return 0;
}

static int find_firmware(struct search *s, struct err *e)
{
    bool found = false;
    const char *release = s->w->kernel_release;
    auto_free char *updates = xasprintf("/lib/firmware/updates/%s", release ? release : "");
    auto_free char *own = xasprintf("/lib/firmware/%s", release ? release : "");
    if (s->w->firmware_folder && s->w->firmware_folder[0])
        TRY(add_firmware(s, s->w->firmware_folder, &found, e));
    if (release)
        TRY(add_firmware(s, updates, &found, e));
    TRY(add_firmware(s, "/lib/firmware/updates", &found, e));
    if (release)
        TRY(add_firmware(s, own, &found, e));
    return add_firmware(s, "/lib/firmware", &found, e);
}

static int find_setting(struct search *s, const char *name, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(setting_folders); i++) {
        size_t before = s->found.n_files;
        auto_free char *slashed = xasprintf("/%s", name);
        TRY(add_plain(s, DRIVER_SETTING, setting_folders[i], slashed, e));
        if (s->found.n_files > before)
            return 0;
    }
    return 0;
}

/* Some hosts have them directly below the driver root. */
static int find_vulkan_setting(struct search *s, const char *name, struct err *e)
{
    static const char *const folders[] = {"/etc", "/usr/local/share", "/usr/share", ""};
    auto_free char *belongs = xasprintf("/etc/%s", name);
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        auto_free char *path = xasprintf("%s/%s", folders[i], name);
        auto_free char *resolved = NULL;
        struct stat st;
        if (resolve_file(s, path, &resolved, &st) && S_ISREG(st.st_mode))
            return add_file(s, DRIVER_SETTING, resolved, belongs, e);
    }
    return 0;
}

typedef int find_fn(struct search *s, const char *name, struct err *e);

static int find_each(struct search *s, find_fn *fn, const char *const *names, size_t n,
                     struct err *e)
{
    for (size_t i = 0; i < n; i++)
        TRY(fn(s, names[i], e));
    return 0;
}

/* The version is used in paths and patterns. */
static int check_version(const char *version, struct err *e)
{
    size_t len = strspn(version, "0123456789.");
    if (len == 0 || version[len] || version[0] == '.' || len > 32)
        return err_set(e, ERR_INVALID, "\"%.40s\" is not a driver version, digits and dots",
                       version);
    return 0;
}

static int find_all(struct search *s, struct err *e)
{
    TRY(find_libraries(s, e));
    TRY(find_each(s, find_program, programs, ARRAY_LEN(programs), e));
    TRY(find_each(s, find_socket, sockets, ARRAY_LEN(sockets), e));
    TRY(find_firmware(s, e));
    TRY(find_each(s, find_setting, settings, ARRAY_LEN(settings), e));
    return find_each(s, find_vulkan_setting, vulkan_settings, ARRAY_LEN(vulkan_settings), e);
}

static void search_done(struct search *s)
{
    driver_files_done(&s->found);
    err_clear(&s->refused);
}

int driver_files_find(const struct driver_files_where *w, struct driver_files *ret, struct err *e)
{
    __attribute__((cleanup(search_done))) struct search s = {.w = w};
    TRY(check_version(w->version, e));
    TRY(find_all(&s, e));
    if (s.refused.kind)
        log_warn("Containers go without a part of the driver", kv_err(&s.refused));
    *ret = s.found;
    s.found = (struct driver_files){0};
    return 0;
}

void driver_files_done(struct driver_files *f)
{
    for (size_t i = 0; i < f->n_files; i++) {
        free(f->files[i].host_path);
        free(f->files[i].container_path);
    }
    free(f->files);
    for (size_t i = 0; i < f->n_links; i++) {
        free(f->links[i].path);
        free(f->links[i].target);
        free(f->links[i].host_path);
    }
    free(f->links);
    for (size_t i = 0; i < f->n_library_folders; i++)
        free(f->library_folders[i]);
    free(f->library_folders);
    *f = (struct driver_files){0};
}
