/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a PTX text. A reader is at one word; what takes a word goes on to the next. After the
 * first failure, which it keeps, it may go on anywhere within the text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORDS_MAX_NUMBER (UINT64_C(1) << 40U)

struct words {
    const char *at, *end;
    const char *word; /* a word, a string or one other sign */
    size_t length;    /* 0: the end of the text */
    unsigned int line;
    bool failed;
    char *reason;
    size_t reason_size;
};

/* Notes what is wrong at this word. */
void words_fail(struct words *r, const char *what);

/* Goes to the next word; the first one at the beginning. */
void words_next(struct words *r);

/* Is it this word? */
bool words_at(const struct words *r, const char *word);

/* Takes this word, if it is it; the other one fails where it is not. */
bool words_take(struct words *r, const char *word);
void words_expect(struct words *r, const char *word);

/* True at the end of the text, and after a failure. */
bool words_over(const struct words *r);

/* Does the word begin with a dot? */
bool words_directive(const struct words *r);

/* Takes a number of C, of 2^40 at most; PTX lets it end in U. */
uint64_t words_number(struct words *r);

/* Takes a name, which the caller frees; NULL with a failure. */
char *words_name(struct words *r);

/* Skips what lies between a bracket, which was taken, and its counterpart. */
void words_skip_block(struct words *r, const char *open, const char *close);
