/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/command.h"
#include "kubectl/plan_text.h"

static int print_json(const struct command *c, const struct cluster_plan *p)
{
    if (plan_json_write(p, c->out) == 0)
        return COMMAND_OK;
    (void)fputs("error: the output cannot be written\n", c->err);
    return COMMAND_FAILED;
}

static int print(const struct command *c, const struct cluster_plan *p)
{
    if (c->output == OUTPUT_JSON)
        return print_json(c, p);
    if (c->output == OUTPUT_YAML) {
        auto_json json_t *document = plan_json(p);
        return command_print(c, document);
    }
    auto_sb struct sb text = SB_INIT(COMMAND_MAX_BYTES);
    plan_text(p, &c->screen, &text);
    return command_print_text(c, &text);
}

int command_plan(const struct command *c, const char *path)
{
    auto_err struct err e = {0};
    auto_plan_file struct plan_file file = {0};
    auto_cluster_plan struct cluster_plan p = {0};
    if (plan_file_read(path, &file, &e) < 0)
        return command_fail(c->err, /* server= */ NULL, &e);
    if (cluster_plan_make(c->kc, c->scope, &file, &p, &e) < 0)
        return command_fail(c->err, c->server, &e);
    command_notes(c, &p.unread);
    if (print(c, &p) != COMMAND_OK || cluster_plan_refuses(&p))
        return COMMAND_FAILED;
    return cluster_plan_changes(&p) ? COMMAND_CHANGES : COMMAND_OK;
}
