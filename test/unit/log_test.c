/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/jx.h"
#include "base/log.h"
#include "base/xalloc.h"

static int to_memory(enum log_level min, enum log_format format)
{
    int fd = memfd_create("log", MFD_CLOEXEC);
    cr_assert_geq(fd, 0);
    log_setup(min, format, fd);
    return fd;
}

static char *content(int fd)
{
    off_t len = lseek(fd, 0, SEEK_END);
    char *text = xmalloc((size_t)len + 1);
    cr_assert_eq(pread(fd, text, (size_t)len, 0), len);
    return text;
}

/* A logfmt line behind its time, which is the only part that differs from run to run. */
static void expect_line(int fd, const char *want)
{
    auto_free char *text = content(fd);
    cr_assert_eq(strncmp(text, "time=20", 7), 0, "%s", text);
    const char *rest = strchr(text, ' ');
    cr_assert_not_null(rest);
    cr_expect_str_eq(rest + 1, want);
}

Test(log, writes_typed_pairs)
{
    auto_fd int fd = to_memory(LOG_INFO, LOG_LOGFMT);
    log_info("Applied layout", kv("gpu", "GPU-1"), kv_int("created", -3), kv_bool("mig", true));
    expect_line(fd, "level=info msg=\"Applied layout\" gpu=GPU-1 created=-3 mig=true\n");
}

Test(log, writes_a_message_without_pairs)
{
    auto_fd int fd = to_memory(LOG_INFO, LOG_LOGFMT);
    log_error("Stopped");
    expect_line(fd, "level=error msg=Stopped\n");
}

Test(log, quotes_and_escapes_what_could_forge_a_line)
{
    auto_fd int fd = to_memory(LOG_INFO, LOG_LOGFMT);
    log_warn("m", kv("a", "x y"), kv("b", ""), kv("c", "1\nlevel=error \"q\" \\ \x01"),
             kv("d", "k=v"), kv("e", "caf\xc3\xa9 \xff"), kv("f", NULL));
    expect_line(fd,
                "level=warn msg=m a=\"x y\" b=\"\" c=\"1\\nlevel=error \\\"q\\\" \\\\ \\u0001\" "
                "d=\"k=v\" e=\"caf\xc3\xa9 \xef\xbf\xbd\"\n");
}

Test(log, writes_json_that_parses)
{
    auto_fd int fd = to_memory(LOG_INFO, LOG_JSON);
    auto_err struct err e = {0};
    (void)err_set(&e, ERR_INVALID, "bad \"x\"\n\x7f\xff");
    log_info("Hello", kv("node", "n1"), kv_int("n", INT64_MIN), kv_bool("ok", false), kv_err(&e));
    auto_free char *text = content(fd);
    auto_json json_t *line = NULL;
    cr_assert_eq(jx_parse(text, strlen(text), 4096, &line, NULL), 0, "%s", text);
    cr_expect_str_eq(JX_STR_AT(line, "level"), "info");
    cr_expect_str_eq(JX_STR_AT(line, "msg"), "Hello");
    cr_expect_str_eq(JX_STR_AT(line, "error"), "bad \"x\"\n\x7f\xef\xbf\xbd");
    cr_expect_eq(json_integer_value(JX_AT(line, "n")), INT64_MIN);
    cr_expect(json_is_false(JX_AT(line, "ok")));
    cr_expect_str_eq(strchr(text, '\n'), "\n", "one line");
}

Test(log, leaves_out_what_is_below_the_level)
{
    auto_fd int fd = to_memory(LOG_WARN, LOG_LOGFMT);
    log_info("No");
    log_debug("No");
    cr_expect_eq(lseek(fd, 0, SEEK_END), 0);
    cr_expect(log_enabled(LOG_ERROR));
    log_warn("Yes");
    expect_line(fd, "level=warn msg=Yes\n");
}

Test(log, does_not_evaluate_pairs_below_the_level)
{
    auto_fd int fd = to_memory(LOG_WARN, LOG_LOGFMT);
    int evaluated = 0;
    log_debug("No", kv_int("n", ++evaluated));
    cr_expect_eq(evaluated, 0);
    cr_expect_eq(lseek(fd, 0, SEEK_END), 0);
}

Test(log, cuts_long_values_and_keeps_the_line_whole)
{
    auto_fd int fd = to_memory(LOG_INFO, LOG_JSON);
    auto_free char *huge = xmalloc(1 << 20);
    memset(huge, '\x01', (1 << 20) - 1);
    log_info("Big", kv("a", huge), kv("b", huge), kv("c", huge), kv_int("n", 1));
    auto_free char *text = content(fd);
    auto_json json_t *line = NULL;
    cr_assert_eq(jx_parse(text, strlen(text), 1 << 20, &line, NULL), 0);
    cr_expect_leq(strlen(text), 64 * 1024 + 2);
    cr_expect_not_null(JX_AT(line, "a"));
    cr_expect_null(JX_AT(line, "c"), "what does not fit is dropped whole");
    cr_expect_not_null(JX_AT(line, "n"));
}

Test(log, loses_lines_rather_than_failing_when_the_sink_is_gone)
{
    int fd = to_memory(LOG_INFO, LOG_LOGFMT);
    cr_assert_eq(close(fd), 0);
    errno = EDOM;
    log_info("Nobody hears");
    cr_expect_eq(errno, EDOM, "logging leaves errno alone");
}

static void *write_lines(void *arg)
{
    for (int i = 0; i < 200; i++)
        log_info("Line", kv("who", arg), kv_int("n", i));
    return NULL;
}

Test(log, never_mixes_the_lines_of_two_threads)
{
    int ends[2];
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    auto_file FILE *in = fdopen(ends[0], "r");
    log_setup(LOG_INFO, LOG_JSON, ends[1]);
    char names[] = "ab";
    pthread_t threads[2];
    char who[2][2] = {{names[0], 0}, {names[1], 0}};
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, write_lines, who[i]), 0);
    auto_free char *line = NULL;
    size_t room = 0;
    for (int i = 0; i < 400; i++) {
        ssize_t len = getline(&line, &room, in);
        auto_json json_t *obj = NULL;
        cr_assert_eq(jx_parse(line, (size_t)len, 4096, &obj, NULL), 0, "%s", line);
    }
    for (int i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    (void)close(ends[1]);
}

Test(log, reads_its_flags)
{
    enum log_level level = LOG_INFO;
    enum log_format format = LOG_LOGFMT;
    auto_err struct err e = {0};
    cr_assert_eq(log_level_parse("warn", &level, &e), 0);
    cr_expect_eq(level, LOG_WARN);
    cr_assert_eq(log_format_parse("json", &format, &e), 0);
    cr_expect_eq(format, LOG_JSON);
    cr_expect_eq(log_level_parse("WARN", &level, &e), -ERR_INVALID);
    cr_expect_str_eq(err_msg(&e), "log level \"WARN\" is none of debug, info, warn, error");
    cr_expect_eq(log_format_parse("", &format, &e), -ERR_INVALID);
    cr_expect_eq(level, LOG_WARN);
}
