/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The processes of one container that have said something: who each is, and that it has ended. One
 * thread at a time. */
struct members;

/* Where the ends of processes are noticed, for all containers: each costs a descriptor. Of more than
 * `most` the end is not noticed, so that one container does not take all descriptors of the agent. */
struct member_watch {
    int epoll;
    unsigned n, most;
};

/* Empty. Borrows watch. An event's epoll data is `about` + the member's number. */
struct members *members_new(struct member_watch *watch, uint64_t about);
/* Closes their descriptors. NULL allowed. */
void members_free(struct members *m);
/* Each has the other's, which are about the same. */
void members_swap(struct members *a, struct members *b);

enum member_news {
    MEMBER_KNOWN, /* the same process as before, or there was none */
    MEMBER_OTHER, /* another process was this member */
    MEMBER_ENDED, /* this process has ended already, and what it said was its last */
};
/* The process has said that it is this member (below REGION_MAX_PROCESSES). */
enum member_news members_meet(struct members *m, unsigned member, pid_t pid);
/* It has ended. False: it is not known. */
bool members_leave(struct members *m, unsigned member);
