/* SPDX-License-Identifier: Apache-2.0 */
#include "kubectl/command.h"

#include <string.h>

#include "base/auto.h"
#include "base/jx.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "kubectl/failure.h"
#include "kubectl/safe_text.h"

int command_output_of(const char *word, enum command_output *ret, struct err *e)
{
    if (!word)
        *ret = OUTPUT_TEXT;
    else if (strcmp(word, "json") == 0)
        *ret = OUTPUT_JSON;
    else if (strcmp(word, "yaml") == 0)
        *ret = OUTPUT_YAML;
    else
        return err_set(e, ERR_INVALID,
                       "unable to match a printer suitable for the output format \"%s\", allowed "
                       "formats are: json,yaml",
                       word);
    return 0;
}

int command_fail(FILE *err, const char *server, const struct err *e)
{
    auto_free char *words = failure_words(e, server);
    (void)fprintf(err, "%s\n", words);
    return COMMAND_FAILED;
}

bool command_is_unnamed(const struct command *c, const char *what, const char *name)
{
    if (*name)
        return false;
    (void)fprintf(c->err, "error: the name of the %s is empty\n", what);
    return true;
}

void command_notes(const struct command *c, const struct unread *u)
{
    for (size_t i = 0; i < u->n; i++) {
        auto_free char *words = safe_text(u->notes[i]);
        (void)fprintf(c->err, "Warning: %s\n", words);
    }
}

int command_put(const struct command *c, const char *text)
{
    if (fputs(text, c->out) >= 0 && fflush(c->out) == 0)
        return COMMAND_OK;
    (void)fputs("error: the output cannot be written\n", c->err);
    return COMMAND_FAILED;
}

/* Caller frees. */
static char *dump(const struct command *c, const json_t *document)
{
    if (c->output == OUTPUT_YAML)
        return yaml_dump(document);
    auto_free char *text = json_dumps(document, JSON_INDENT(4) | JSON_PRESERVE_ORDER);
    return xasprintf("%s\n", text ? text : "");
}

char *command_words(const struct command *c, const json_t *document)
{
    auto_free char *text = dump(c, document);
    auto_sb struct sb safe = SB_INIT(SIZE_MAX / 2);
    safe_text_add_document(&safe, text, strlen(text));
    return sb_take(&safe);
}

int command_print(const struct command *c, const json_t *document)
{
    auto_free char *text = command_words(c, document);
    return command_put(c, text);
}

int command_print_text(const struct command *c, const struct sb *text)
{
    auto_err struct err e = {0};
    if (sb_check(text, &e) < 0)
        return command_fail(c->err, NULL, &e);
    return command_put(c, sb_str(text));
}
