/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the bytes of cards' memory are: in files without a name, which are in the host's memory and
 * have room only where something was written. One of them is for all of the process. What other
 * processes are to have by a descriptor is in files of its own, which have a head: a page that tells
 * what they are.
 *
 * Guarded by the contexts' lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define STORE_HEAD 4096U

struct store_file {
    int fd;
    unsigned int refs; /* its maker's, and one of each part */
    uint64_t end,
        parts; /* new parts are put behind the others, from the beginning if there are none */
    bool is_foreign;
    void *head; /* mapped; NULL: it has none */
};

/* A part of a file. */
struct store {
    struct store_file *file;
    uint64_t offset, bytes;
};

/* A file with a head of zeros; NULL: the system has no more. */
struct store_file *store_file_new(void);

/* The file with a head behind a descriptor, which stays the caller's, of whichever process; NULL: it is
 * none that anybody made with store_file_new. */
struct store_file *store_file_open(int fd);

/* A file in memory that is somebody else's, as long as that, of which the descriptor stays the
 * caller's; NULL: it is none. */
struct store_file *store_file_of_other(int fd, uint64_t bytes);

/* Makes a file as long, if it is not. */
bool store_file_lengthen(const struct store_file *f, uint64_t bytes);

/* Has it as many bytes behind the head? They stay. */
bool store_file_has(const struct store_file *f, uint64_t bytes);

/* The file behind a descriptor of a process, of which the head is not looked at; NULL: the system does
 * not let us. */
struct store_file *store_file_of(pid_t pid, int fd);

/* One reference more, and one less; NULL is none. */
void store_file_ref(struct store_file *f);
void store_file_unref(struct store_file *f);

/* A new part, of zeros; with NULL in the process's file. False: the system has no more. */
bool store_take(struct store_file *f, uint64_t bytes, struct store *ret);

/* The part of another process's file that is there. */
struct store store_at(struct store_file *f, uint64_t offset, uint64_t bytes);

/* Gives it back, with its bytes unless others go on using them. */
void store_give_back(struct store *s, bool keep_bytes);

/* Maps bytes of a part over what is at `at`. False: the system cannot. */
bool store_map(const struct store *s, uint64_t offset, uint64_t bytes, char *at);
