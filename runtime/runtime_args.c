/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/runtime_args.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/auto.h"

/* The commands that make a container out of a bundle. */
static const char *const commands[] = {"create", "run", "restore"};

/* The flags that take a value, of runc and crun, global ones and those of the commands. */
static const char *const with_value[] = {
    "root",
    "log",
    "log-format",
    "log-level",
    "criu",
    "rootless",
    "bundle",
    "b",
    "cgroup-manager",
    "console-socket",
    "pid-file",
    "config",
    "preserve-fds",
    "image-path",
    "work-path",
    "parent-path",
    "lsm-profile",
    "lsm-mount-context",
    "manage-cgroups-mode",
    "f",
};

static bool is_one_of(const char *word, size_t len, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i]) == len && strncmp(list[i], word, len) == 0)
            return true;
    return false;
}

/* A flag: "--name=value", "--name value", or one without a value; with one dash or two. */
struct flag {
    const char *name;
    size_t len;
    const char *value; /* NULL: none */
};

/* Reads the flag at *at, and steps over it and its value. False: it is no flag. */
static bool next_flag(int argc, char *const argv[], int *at, struct flag *ret)
{
    if (*at >= argc || argv[*at][0] != '-' || strcmp(argv[*at], "--") == 0)
        return false;
    const char *name = argv[(*at)++] + 1;
    name += *name == '-';
    size_t len = strcspn(name, "=");
    *ret = (struct flag){name, len, name[len] ? name + len + 1 : NULL};
    if (!ret->value && *at < argc && is_one_of(name, len, with_value, ARRAY_LEN(with_value)))
        ret->value = argv[(*at)++];
    return true;
}

static bool is_flag(const struct flag *f, const char *name)
{
    return f->value && is_one_of(f->name, f->len, &name, 1);
}

void runtime_args_read(int argc, char *const argv[], struct runtime_args *ret)
{
    struct flag f;
    int at = 1;
    *ret = (struct runtime_args){0};
    while (next_flag(argc, argv, &at, &f)) {
        if (is_flag(&f, "log"))
            ret->log = f.value;
        else if (is_flag(&f, "log-format"))
            ret->log_is_json = strcmp(f.value, "json") == 0;
    }
    if (at >= argc || !is_one_of(argv[at], strlen(argv[at]), commands, ARRAY_LEN(commands)))
        return;
    at++;
    ret->bundle = "."; /* runc's default */
    while (next_flag(argc, argv, &at, &f))
        if (is_flag(&f, "bundle") || is_flag(&f, "b"))
            ret->bundle = f.value;
    assert(ret->bundle);
}
