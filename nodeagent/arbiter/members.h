/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* The processes of one container that have said something: who each is, and a descriptor that is
 * readable when it has ended. One thread at a time. */
struct members;

/* Of nobody. */
struct members *members_new(void);
/* Closes their descriptors. NULL allowed. */
void members_free(struct members *m);
/* Each has the other's. */
void members_swap(struct members *a, struct members *b);

enum member_news { MEMBER_KNOWN, MEMBER_NEW, MEMBER_OTHER };
/* The process `pid` has said that it is this member (below REGION_MAX_PROCESSES). New, or another
 * one than before: *ret_fd is its descriptor, owned by m; -1: it has ended already, or the kernel
 * gives none. */
enum member_news members_meet(struct members *m, unsigned member, pid_t pid, int *ret_fd);
/* It has ended. False: it is not known. */
bool members_leave(struct members *m, unsigned member);
