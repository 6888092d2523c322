/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/jx.h"
#include "base/sb.h"

#include "kubeclient/watch_decoder.h"

/* What arrived, as text: "ADDED a 1\n…". */
struct seen {
    struct sb text;
    int fail_at, count;
};

static int note(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    static const char *const names[] = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"};
    struct seen *seen = arg;
    if (++seen->count == seen->fail_at)
        return err_set(e, ERR_TERMINAL, "enough");
    const char *name = JX_STR_AT(obj, "metadata", "name");
    sb_addf(&seen->text, "%s %s %s\n", names[change], name ? name : "-",
            JX_STR_AT(obj, "metadata", "resourceVersion"));
    return 0;
}

#define OBJ(name, rv)         "{\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"" rv "\"}}"
#define EVENT(type, name, rv) "{\"type\":\"" type "\",\"object\":" OBJ(name, rv) "}\n"

static const char stream[] = EVENT("ADDED", "a", "1") EVENT("MODIFIED", "b\\n\\\"}{", "2")
    EVENT("DELETED", "ü",
          "3") "\r\n"
               "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"4\"}}}\n";
static const char expected[] = "ADDED a 1\nMODIFIED b\n\"}{ 2\nDELETED ü 3\nBOOKMARK - 4\n";

static int feed_in_pieces(struct watch_decoder *d, const char *text, size_t piece, struct err *e)
{
    size_t len = strlen(text);
    for (size_t at = 0; at < len; at += piece)
        TRY(watch_decoder_feed(d, text + at, len - at < piece ? len - at : piece, e));
    return watch_decoder_finish(d, e);
}

static int run(const char *text, size_t max, struct err *e)
{
    struct seen seen = {.text = SB_INIT(4096)};
    auto_watch_decoder struct watch_decoder *d = watch_decoder_new(max, note, &seen);
    int rc = watch_decoder_feed(d, text, strlen(text), e);
    sb_done(&seen.text);
    return rc;
}

Test(watch_decoder, any_chunking_gives_the_same_events)
{
    for (size_t piece = 1; piece <= sizeof(stream); piece++) {
        auto_err struct err e = {0};
        struct seen seen = {.text = SB_INIT(4096)};
        auto_watch_decoder struct watch_decoder *d = watch_decoder_new(1000, note, &seen);
        cr_assert_eq(feed_in_pieces(d, stream, piece, &e), 0, "%s", e.msg);
        cr_assert_str_eq(sb_str(&seen.text), expected, "pieces of %zu", piece);
        cr_assert_eq(watch_decoder_count(d), 4);
        sb_done(&seen.text);
    }
}

Test(watch_decoder, every_single_cut_gives_the_same_events)
{
    for (size_t cut = 0; cut < sizeof(stream); cut++) {
        auto_err struct err e = {0};
        struct seen seen = {.text = SB_INIT(4096)};
        auto_watch_decoder struct watch_decoder *d = watch_decoder_new(1000, note, &seen);
        cr_assert_eq(watch_decoder_feed(d, stream, cut, &e), 0);
        cr_assert_eq(watch_decoder_feed(d, stream + cut, strlen(stream) - cut, &e), 0);
        cr_assert_str_eq(sb_str(&seen.text), expected, "cut at %zu", cut);
        sb_done(&seen.text);
    }
}

Test(watch_decoder, event_beyond_the_bound_is_too_large)
{
    auto_err struct err e = {0};
    cr_expect_eq(run(EVENT("ADDED", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "1"), 40, &e),
                 -ERR_TOO_LARGE);
}

Test(watch_decoder, endless_line_stops_at_the_bound)
{
    auto_err struct err e = {0};
    struct seen seen = {.text = SB_INIT(4096)};
    auto_watch_decoder struct watch_decoder *d = watch_decoder_new(100, note, &seen);
    int rc = 0;
    for (int i = 0; i < 101 && rc == 0; i++)
        rc = watch_decoder_feed(d, "x", 1, &e);
    cr_expect_eq(rc, -ERR_TOO_LARGE);
    sb_done(&seen.text);
}

Test(watch_decoder, error_event_is_its_status)
{
    auto_err struct err e = {0};
    int rc = run("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,"
                 "\"reason\":\"Expired\",\"message\":\"too old resource version\"}}\n",
                 1000, &e);
    cr_expect_eq(rc, -ERR_EXPIRED);
    cr_expect_eq(e.http_status, 410);
    cr_expect_str_eq(e.msg, "too old resource version");
}

Test(watch_decoder, what_is_no_event_is_a_protocol_error)
{
    static const char *const rows[] = {
        "<html>\n",
        "{}\n",
        "[]\n",
        "{\"type\":\"ADDED\"}\n",
        "{\"type\":\"ADDED\",\"object\":null}\n",
        "{\"type\":\"ADDED\",\"object\":[]}\n",
        "{\"type\":7,\"object\":{}}\n",
        "{\"type\":\"SUBTRACTED\",\"object\":{}}\n",
        "{\"type\":\"ADDED\",\"object\":{}\n",
        "{\"type\":\"ADDED\",\"object\":{}} {}\n",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        auto_err struct err e = {0};
        cr_expect_eq(run(rows[i], 1000, &e), -ERR_PROTOCOL, "%s", rows[i]);
        cr_expect_not_null(e.msg);
    }
}

Test(watch_decoder, callback_ends_it_with_its_own_error)
{
    auto_err struct err e = {0};
    struct seen seen = {.text = SB_INIT(4096), .fail_at = 2};
    auto_watch_decoder struct watch_decoder *d = watch_decoder_new(1000, note, &seen);
    cr_expect_eq(watch_decoder_feed(d, stream, strlen(stream), &e), -ERR_TERMINAL);
    cr_expect_str_eq(sb_str(&seen.text), "ADDED a 1\n");
    sb_done(&seen.text);
}

Test(watch_decoder, end_inside_an_event_is_unavailable)
{
    auto_err struct err e = {0};
    struct seen seen = {.text = SB_INIT(4096)};
    auto_watch_decoder struct watch_decoder *d = watch_decoder_new(1000, note, &seen);
    cr_assert_eq(watch_decoder_feed(d, stream, 20, &e), 0);
    cr_expect_eq(watch_decoder_finish(d, &e), -ERR_UNAVAILABLE);
    cr_expect_eq(seen.count, 0);
    sb_done(&seen.text);
}

Test(watch_decoder, last_event_needs_no_newline)
{
    auto_err struct err e = {0};
    struct seen seen = {.text = SB_INIT(4096)};
    auto_watch_decoder struct watch_decoder *d = watch_decoder_new(1000, note, &seen);
    cr_assert_eq(watch_decoder_feed(d, stream, strlen(EVENT("ADDED", "a", "1")) - 1, &e), 0);
    cr_expect_eq(watch_decoder_finish(d, &e), 0);
    cr_expect_eq(seen.count, 1);
    sb_done(&seen.text);
}
