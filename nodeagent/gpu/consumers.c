/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/gpu/consumers.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/xalloc.h"

/* cgroup paths are bounded by PATH_MAX; cgroup v1 has a dozen lines of them. */
#define MAX_CGROUP_BYTES ((size_t)64 * 1024)
/* A UUID, or the 32 hex digits of a static pod's hash. */
#define MIN_UID_LEN   32
#define MAX_UID_LEN   36
#define CONTAINER_LEN 64

static_assert(MAX_UID_LEN < CONSUMER_UID_BYTES && CONTAINER_LEN < CONSUMER_CONTAINER_BYTES,
              "what is copied fits");

static bool is_uid_char(char c)
{
    return isxdigit((unsigned char)c) || c == '-' || c == '_';
}

/* Length of the pod UID at the beginning of s; 0: there is none. */
static size_t uid_length(const char *s)
{
    size_t n = 0;
    while (is_uid_char(s[n]))
        n++;
    return n >= MIN_UID_LEN && n <= MAX_UID_LEN ? n : 0;
}

/* Moves *p behind the word if it is the whole of the next folder's name. */
static bool take_folder(const char **p, const char *word)
{
    size_t len = strlen(word);
    if (strncmp(*p, word, len) != 0 || ((*p)[len] != '/' && (*p)[len] != '\0'))
        return false;
    *p += len;
    return true;
}

static void take_qos_folder(const char **p)
{
    if (!take_folder(p, "/burstable"))
        (void)take_folder(p, "/besteffort");
}

/* The UID in "/pod<uid>", if that is the folder's whole name; NULL: there is none. */
static const char *uid_of_folder(const char *p)
{
    size_t len = strncmp(p, "/pod", 4) == 0 ? uid_length(p + 4) : 0;
    return len && (p[4 + len] == '/' || p[4 + len] == '\0') ? p + 4 : NULL;
}

/* The kubelet's cgroupfs driver: /kubepods[/burstable|/besteffort]/pod<uid>. */
static const char *uid_below_kubepods(const char *p)
{
    if (!take_folder(&p, "/kubepods"))
        return NULL;
    take_qos_folder(&p);
    return uid_of_folder(p);
}

/* --- systemd's slices: "a-b-c.slice" lies in "a-b.slice", and that in "a.slice" --- */

static bool ends_in(const char *name, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len >= n && strncmp(name + len - n, end, n) == 0;
}

/* True when pods can lie directly below the slice with this name. */
static bool is_pods_slice(const char *name, size_t len)
{
    if (ends_in(name, len, "-burstable"))
        len -= strlen("-burstable");
    else if (ends_in(name, len, "-besteffort"))
        len -= strlen("-besteffort");
    return ends_in(name, len, "kubepods") &&
           (len == strlen("kubepods") || name[len - strlen("kubepods") - 1] == '-');
}

/* The UID in "<kubepods slice>-pod<uid>.slice", with which name begins. The runtime may append text
 * after a colon. */
static const char *uid_of_slice(const char *name)
{
    const char *pod = strstr(name, "-pod");
    size_t folder = strcspn(name, "/");
    for (; pod && pod < name + folder; pod = strstr(pod + 1, "-pod")) {
        const char *uid = pod + strlen("-pod");
        size_t len = uid_length(uid);
        const char *end = uid + len;
        if (len && strncmp(end, ".slice", 6) == 0 && strchr("/:", end[6]) &&
            is_pods_slice(name, (size_t)(pod - name)))
            return uid;
    }
    return NULL;
}

/* True when `in` is the slice into which systemd puts this one. */
static bool is_parent(const char *in, size_t in_len, const char *name)
{
    const char *end = name + strcspn(name, "/");
    assert(in_len >= strlen(".slice") && in[in_len] == '/');
    size_t len = in_len - strlen(".slice");
    return strncmp(name, in, len) == 0 && name[len] == '-' &&
           !memchr(name + len + 1, '-', (size_t)(end - name) - len - 1);
}

/* The systemd driver: a row of slices, each in the one that its name implies, down to a pod's.
 * from_top: the first slice has a name of one word. */
static const char *uid_below_slices(const char *p, bool from_top)
{
    const char *first = p + 1;
    if (*p != '/' || (from_top && memchr(first, '-', strcspn(first, "/"))))
        return NULL;
    for (const char *name = first;;) {
        const char *uid = uid_of_slice(name);
        size_t len = strcspn(name, "/");
        if (uid)
            return uid;
        if (!ends_in(name, len, ".slice") || !name[len] || !is_parent(name, len, name + len + 1))
            return NULL;
        name += len + 1;
    }
}

/* --- The kubelet's folders --- */

static const char *uid_below_root(const char *p)
{
    const char *uid = uid_below_kubepods(p);
    return uid ? uid : uid_below_slices(p, /* from_top= */ true);
}

/* In the agent's own cgroup namespace paths go up from its container's cgroup. The next folder is
 * one that also contains the agent's cgroup: its pod's, its QoS class's, the kubelet's, or the top.
 * Only the kubelet, the runtime and systemd make cgroups there. Its pod's folder is at least two
 * steps up. */
static const char *uid_beside_us(const char *p)
{
    size_t up = 0;
    while (take_folder(&p, "/.."))
        up++;
    if (up < 2)
        return NULL;
    const char *uid = uid_below_kubepods(p);
    if (!uid)
        uid = uid_below_slices(p, /* from_top= */ false);
    if (uid)
        return uid;
    take_qos_folder(&p);
    return uid_of_folder(p);
}

/* The path in a line such as "12:pids:/…"; "" where there is none. */
static const char *path_in(const char *line)
{
    const char *colon = strchr(line, ':');
    colon = colon ? strchr(colon + 1, ':') : NULL;
    return colon ? colon + 1 : "";
}

/* Length of the part of the agent's own path before the kubelet's folder; -1: the agent is in no
 * pod, or cannot see it. */
static ssize_t own_root(const char *path)
{
    for (size_t i = strlen(path); i-- > 0;)
        if (path[i] == '/' && uid_below_root(path + i))
            return (ssize_t)i;
    return -1;
}

/* Pods are where the agent's own pod is. For an agent outside of pods they are where kubelets keep
 * them by default. No other folder counts, since users and containers name the cgroups given to
 * them as they like. */
static const char *find_uid(const char *path, const char *own)
{
    static const char *const usual[] = {"", "/kubelet"};
    static const char containerd[] = "/system.slice/containerd.service";
    ssize_t root = own ? own_root(own) : -1;
    const char *uid = uid_beside_us(path);
    if (uid)
        return uid;
    if (root >= 0)
        return strncmp(path, own, (size_t)root) == 0 ? uid_below_root(path + root) : NULL;
    for (size_t i = 0; i < ARRAY_LEN(usual) && !uid; i++)
        if (strncmp(path, usual[i], strlen(usual[i])) == 0)
            uid = uid_below_root(path + strlen(usual[i]));
    /* containerd's own folder, where it does not know that the kubelet uses systemd's slices. */
    if (!uid && take_folder(&path, containerd) && *path)
        uid = uid_of_slice(path + 1);
    return uid;
}

static void copy_uid(const char *from, size_t len, char *ret)
{
    assert(len >= MIN_UID_LEN && len < CONSUMER_UID_BYTES);
    for (size_t i = 0; i < len; i++)
        ret[i] = from[i] == '_' ? '-' : from[i];
    ret[len] = '\0';
}

/* The first 64 hex digits behind the pod: "…/<id>", "…/cri-containerd-<id>.scope", "…:<id>". */
static void copy_container(const char *path, char *ret)
{
    size_t run = 0;
    for (size_t i = 0; path[i]; i++) {
        run = isxdigit((unsigned char)path[i]) ? run + 1 : 0;
        if (run == CONTAINER_LEN && !isxdigit((unsigned char)path[i + 1])) {
            memcpy(ret, path + i + 1 - CONTAINER_LEN, CONTAINER_LEN);
            ret[CONTAINER_LEN] = '\0';
            return;
        }
    }
}

static bool parse_line(const char *line, const char *own, struct consumer *ret)
{
    const char *uid = find_uid(path_in(line), own);
    if (!uid)
        return false;
    size_t len = uid_length(uid);
    *ret = (struct consumer){0};
    copy_uid(uid, len, ret->pod_uid);
    copy_container(uid + len, ret->container_id);
    return true;
}

/* Takes the first line off the text. NULL: the text is empty. Caller frees. */
static char *next_line(const char **text)
{
    if (!**text)
        return NULL;
    size_t len = strcspn(*text, "\n");
    char *line = xstrndup(*text, len);
    *text += len + ((*text)[len] == '\n');
    return line;
}

/* The agent's own path in the first hierarchy that shows its pod; NULL: none does. Caller frees. */
static char *own_path(const char *text)
{
    for (;;) {
        auto_free char *line = next_line(&text);
        if (!line)
            return NULL;
        if (own_root(path_in(line)) >= 0)
            return xstrdup(path_in(line));
    }
}

bool consumer_parse_cgroup(const char *text, const char *own_text, struct consumer *ret)
{
    assert(text && ret);
    auto_free char *own = own_path(own_text ? own_text : "");
    for (;;) {
        auto_free char *line = next_line(&text);
        if (!line)
            return false;
        if (parse_line(line, own, ret))
            return true;
    }
}

int consumer_of_pid(const char *proc_root, unsigned pid, struct consumer *ret, struct err *e)
{
    auto_free char *path = xasprintf("%s/%u/cgroup", proc_root ? proc_root : "/proc", pid);
    auto_free char *own_file = xasprintf("%s/self/cgroup", proc_root ? proc_root : "/proc");
    auto_free char *text = NULL;
    auto_free char *own = NULL;
    TRY(file_read(path, MAX_CGROUP_BYTES, &text, NULL, e));
    (void)!file_read(own_file, MAX_CGROUP_BYTES, &own, NULL, /* e= */ NULL);
    if (!consumer_parse_cgroup(text, own, ret))
        return err_set(e, ERR_NOT_FOUND, "process %u is in no pod", pid);
    return 0;
}
