/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/options.h"

static const char *path;
static bool loud, has_node;
static const char *said, *node;
static const struct option_def defs[] = {
    {"path", 'p', "OPTIONS_TEST_PATH", "PATH", "where", &path, NULL},
    {"loud", 'l', NULL, NULL, "say more", NULL, &loud},
    {"said", 0, NULL, NULL, "or not", &said, NULL},
    {"node", 0, NULL, "NAME", "which", &node, &has_node},
    {0},
};

static const char *operands[2];
static size_t n_operands;

static char words[8][32];
static char *argv[9];

static int make_argv(const char *const *args)
{
    int n = 0;
    argv[n++] = words[0];
    for (; *args; args++, n++) {
        (void)snprintf(words[n], sizeof(words[n]), "%s", *args);
        argv[n] = words[n];
    }
    argv[n] = NULL;
    return n;
}

static int parse(struct err *e, const char *const *args)
{
    int n = make_argv(args);
    path = "default";
    loud = has_node = false;
    said = NULL;
    return options_parse(defs, n, argv, operands, 2, &n_operands, e);
}

#define PARSE(e, ...) parse(e, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

Test(options, a_value_follows_its_flag_or_an_equals_sign)
{
    cr_assert_eq(PARSE(NULL, "--path", "/a"), 0);
    cr_expect_str_eq(path, "/a");
    cr_assert_eq(PARSE(NULL, "--path=/b"), 0);
    cr_expect_str_eq(path, "/b");
    cr_assert_eq(PARSE(NULL, "-p", "/c"), 0);
    cr_expect_str_eq(path, "/c");
}

Test(options, a_switch_stands_alone_or_says_false)
{
    cr_assert_eq(PARSE(NULL, "--loud"), 0);
    cr_expect(loud);
    cr_assert_eq(PARSE(NULL, "--loud", "--loud=false"), 0);
    cr_expect_not(loud);
    cr_expect_eq(PARSE(NULL, "--loud=maybe"), -(int)ERR_INVALID);
}

Test(options, a_switch_may_tell_whether_it_was_given)
{
    cr_assert_eq(PARSE(NULL, "--loud"), 0);
    cr_expect_null(said);
    cr_assert_eq(PARSE(NULL, "--said"), 0);
    cr_expect_str_eq(said, "true");
    cr_assert_eq(PARSE(NULL, "--said=0"), 0);
    cr_expect_str_eq(said, "false");
}

Test(options, operands_may_stand_between_flags)
{
    cr_assert_eq(PARSE(NULL, "one", "--loud", "two"), 0);
    cr_assert_eq(n_operands, 2);
    cr_expect_str_eq(operands[0], "one");
    cr_expect_str_eq(operands[1], "two");
    cr_expect(loud);
}

Test(options, an_absent_flag_keeps_its_default_or_takes_the_environment)
{
    cr_assert_eq(PARSE(NULL), 0);
    cr_expect_str_eq(path, "default");
    cr_assert_eq(setenv("OPTIONS_TEST_PATH", "/env", 1), 0);
    cr_assert_eq(PARSE(NULL), 0);
    cr_expect_str_eq(path, "/env");
    cr_assert_eq(PARSE(NULL, "--path=/flag"), 0);
    cr_expect_str_eq(path, "/flag");
}

Test(options, mistakes_are_named)
{
    auto_err struct err e = {0};
    cr_expect_eq(PARSE(&e, "--pth=/a"), -(int)ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), "unknown flag --pth=/a; see --help");
    cr_expect_eq(PARSE(&e, "-x"), -(int)ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), "unknown flag -x; see --help");
    cr_expect_eq(PARSE(&e, "--path"), -(int)ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), "--path needs a value; see --help");
    cr_expect_eq(PARSE(&e, "a", "b", "c"), -(int)ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), "unexpected argument \"c\"; see --help");
}

static void expect_mistake(const char *message, const char *const *args)
{
    auto_err struct err e = {0};
    cr_expect_eq(parse(&e, args), -(int)ERR_INVALID, "%s", message);
    cr_expect_str_eq(err_msg(&e), message);
}
#define EXPECT_MISTAKE(message, ...)                                                               \
    expect_mistake(message, (const char *const[]){__VA_ARGS__, NULL})

/* getopt_long moves operands behind the flags, and reads letters one by one. */
Test(options, the_word_that_is_named_is_the_wrong_one_wherever_it_stands)
{
    EXPECT_MISTAKE("unknown flag -w; see --help", "a", "-w");
    EXPECT_MISTAKE("unknown flag -w; see --help", "a", "-w", "b");
    EXPECT_MISTAKE("unknown flag -q; see --help", "a", "-lq", "b");
    EXPECT_MISTAKE("unknown flag --wide; see --help", "a", "b", "--wide", "-l");
    EXPECT_MISTAKE("unknown flag --wide; see --help", "--loud", "a", "--wide", "b");
    EXPECT_MISTAKE("--path needs a value; see --help", "a", "b", "--path");
    EXPECT_MISTAKE("-p needs a value; see --help", "a", "-lp");
}

Test(options, an_equals_sign_may_follow_a_letter_too)
{
    cr_assert_eq(PARSE(NULL, "-p=/c"), 0);
    cr_expect_str_eq(path, "/c");
    cr_assert_eq(PARSE(NULL, "-lp=/d", "a"), 0);
    cr_expect_str_eq(path, "/d");
    cr_assert_eq(PARSE(NULL, "-p", "=/e"), 0);
    cr_expect_str_eq(path, "=/e");
}

Test(options, a_flag_of_which_one_counts_is_refused_a_second_time)
{
    cr_assert_eq(PARSE(NULL, "--path=/a", "--path=/b", "--node=a"), 0);
    cr_expect_str_eq(path, "/b");
    EXPECT_MISTAKE("--node can be given once only", "--node=a", "x", "--node", "b");
}

static int first_operand(const char *const *args)
{
    int n = make_argv(args);
    return options_first_operand(defs, n, argv);
}
#define FIRST(...) first_operand((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

Test(options, the_first_operand_is_no_flags_value)
{
    cr_expect_eq(FIRST(), 1);
    cr_expect_eq(FIRST("a", "-l"), 1);
    cr_expect_eq(FIRST("--path", "/x", "-l", "a", "b"), 4);
    cr_expect_eq(FIRST("-p/x", "--node=n", "--odd", "a"), 4);
    cr_expect_eq(FIRST("--loud", "--path"), 3);
    cr_expect_str_eq(argv[1], "--loud");
}

Test(options, a_number_names_its_flag_and_range)
{
    int64_t n = 0;
    auto_err struct err e = {0};
    cr_expect_eq(options_number("workers", "3", 1, 16, &n, &e), 0);
    cr_expect_eq(n, 3);
    cr_expect_eq(options_number("workers", "17", 1, 16, &n, &e), -(int)ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), "--workers: \"17\" is not a whole number from 1 to 16");
    cr_expect_eq(n, 3);
}

Test(options, what_becomes_part_of_an_object_is_utf8)
{
    auto_err struct err e = {0};
    cr_expect_eq(options_check_utf8("--node-name", "n\xc3\xa9", &e), 0);
    cr_expect_eq(options_check_utf8("--node-name", "n\xe9", &e), -(int)ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), "--node-name is not UTF-8");
}
