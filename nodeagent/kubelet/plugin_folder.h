/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/reactor.h"

/*
 * The folder in which the kubelet and its device plugins have their sockets: watched for another
 * kubelet, also where the folder itself is removed and comes back. Owned by the reactor's thread;
 * nothing blocks.
 */
struct plugin_folder;

struct plugin_folder_ops {
    /* A kubelet's socket is there that was not before. same_socket: only its times differ, which
     * may be a chmod. */
    void (*came)(void *arg, bool same_socket);
    /* A plugin's socket, which is a file NAME.sock, was made or removed; the owner's own as well. */
    void (*others)(void *arg);
};

/* Watches the folder (which may be missing) from now on; came is called at once when a kubelet is
 * there. reactor, ops and arg are borrowed. ERR_SYSTEM: no watch can be had. Caller frees. */
int plugin_folder_new(struct reactor *reactor, const char *dir, const struct plugin_folder_ops *ops,
                      void *arg, struct plugin_folder **ret, struct err *e) MUST_CHECK;
/* Looks at the kubelet's socket now, as an event would. */
void plugin_folder_look(struct plugin_folder *f);
/* True when the kubelet's socket was there at the last look. */
bool plugin_folder_has_kubelet(const struct plugin_folder *f);
/* The path of a socket of this name in the folder; NULL: the kubelet's. Caller frees. */
char *plugin_folder_path(const char *dir, const char *name);
/* Removes the sockets with this prefix that nobody serves: those of killed agents. */
void plugin_folder_sweep(const char *dir, const char *prefix);
struct plugin_folder *plugin_folder_free(struct plugin_folder *f);
AUTO_DEFINE_PTR(plugin_folder, struct plugin_folder, plugin_folder_free)
#define auto_plugin_folder AUTO_PTR(plugin_folder)
