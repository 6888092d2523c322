/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/redraw.h"

#include <string.h>

#include "base/xalloc.h"

enum { LOOK_AGAIN_MS = 60000, TIMES_AS_LONG = 10 };

/* Moves the cursor to the upper left corner, and clears the screen from there on. */
#define CLEAR "\033[H\033[J"

static int ring(void *arg, enum kc_change change, const json_t *obj, struct err *e)
{
    (void)obj;
    bool *rang = arg;
    if (change == KC_BOOKMARK)
        return 0;
    *rang = true;
    return err_set(e, ERR_CANCELED, "something has changed");
}

/* Waits until something has changed, or it is time to look again. */
static int await_change(const struct command *c, const struct kc_target *t,
                        const struct kc_watch_opts *o, struct err *e)
{
    bool rang = false;
    auto_err struct err why = {0};
    auto_scope struct scope *s = scope_new(c->scope, LOOK_AGAIN_MS);
    int rc = kc_watch(c->kc, s, t, o, ring, &rang, &why);
    /* The next reading finds out whether the server is gone for good. */
    if (rang || rc == 0 || rc == -ERR_TIMEOUT || rc == -ERR_EXPIRED || rc == -ERR_UNAVAILABLE)
        return 0;
    return err_move(e, &why);
}

static int draw(const struct command *c, const char *text, bool first)
{
    bool in_place = c->output == OUTPUT_TEXT && c->screen.in_place;
    const char *between = c->output == OUTPUT_YAML ? "---\n" : c->output == OUTPUT_TEXT ? "\n" : "";
    struct screen now = screen_now(&c->screen, fileno(c->out));
    auto_free char *fitting = in_place ? screen_fit(&now, text) : NULL;
    auto_free char *all = xasprintf("%s%s",
                                    in_place ? CLEAR
                                    : first  ? ""
                                             : between,
                                    in_place ? fitting : text);
    return command_put(c, all);
}

static void replace(char **at, char *with)
{
    free(*at);
    *at = with;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* False: the scope has ended. */
static bool rest_until(const struct command *c, int64_t mono_ms)
{
    return scope_wait_ms(c->scope, later(mono_ms - clock_mono_ms(c->clock), 0));
}

/* Makes a picture, and draws it if it is another than the one that is shown. */
static int draw_next(const struct command *c, redraw_fn *fn, void *arg, char **shown,
                     char **ret_version)
{
    auto_free char *text = NULL;
    int code = fn(arg, &text, ret_version);
    if (code == COMMAND_OK && (!*shown || strcmp(text, *shown) != 0)) {
        code = draw(c, text, /* first= */ !*shown);
        replace(shown, TAKE(text));
    }
    return code;
}

int redraw_run(const struct command *c, const struct kc_target *t, const char *fields,
               redraw_fn *fn, void *arg)
{
    auto_free char *shown = NULL;
    for (;;) {
        auto_err struct err e = {0};
        auto_free char *version = NULL;
        int64_t began = clock_mono_ms(c->clock);
        int code = draw_next(c, fn, arg, &shown, &version);
        int64_t took = clock_mono_ms(c->clock) - began;
        if (code != COMMAND_OK)
            return code;
        const struct kc_watch_opts o = {.fields = fields, .resource_version = version};
        if (await_change(c, t, &o, &e) < 0)
            return scope_is_canceled(c->scope) ? COMMAND_OK : command_fail(c->err, c->server, &e);
        if (!rest_until(c, began + later(took * TIMES_AS_LONG, c->redraw_ms)))
            return COMMAND_OK;
    }
}

int redraw_each(const struct command *c, int64_t ms, redraw_fn *fn, void *arg)
{
    auto_free char *shown = NULL;
    for (;;) {
        auto_free char *version = NULL;
        int64_t next = clock_mono_ms(c->clock) + ms;
        int code = draw_next(c, fn, arg, &shown, &version);
        if (code != COMMAND_OK)
            return scope_is_canceled(c->scope) ? COMMAND_OK : code;
        if (!rest_until(c, later(next, clock_mono_ms(c->clock) + c->redraw_ms)))
            return COMMAND_OK;
    }
}
