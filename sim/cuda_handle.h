/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles of this process's objects of CUDA: numbers that look like pointers, of which none is given
 * out twice, so that a program's old or invented one is refused. Guarded by the contexts' lock.
 */
#pragma once

enum handle_kind {
    HANDLE_STREAM = 1,
    HANDLE_EVENT,
    HANDLE_MODULE,
    HANDLE_FUNCTION,
    HANDLE_LIBRARY,
    HANDLE_KERNEL,
    HANDLE_POOL,
    HANDLE_PHYSICAL,
    HANDLE_ARRAY,
    HANDLE_MIPMAPPED,
    HANDLE_EXTERNAL,
    HANDLE_GRAPH,
    HANDLE_NODE,
    HANDLE_EXEC,
};

/* A handle of an object; NULL where there is no memory. */
void *handle_new(enum handle_kind kind, void *object);

/* The object, or NULL for what is no handle of that kind. */
void *handle_find(enum handle_kind kind, const void *handle);

/* Ends a handle; NULL is none. */
void handle_end(const void *handle);
