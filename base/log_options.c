/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log_options.h"

#include <unistd.h>

#include "base/log.h"

int log_options_apply(const struct log_options *o, struct err *e)
{
    enum log_level level;
    enum log_format format;
    TRY(log_level_parse(o->level, &level, e));
    TRY(log_format_parse(o->format, &format, e));
    log_setup(level, format, STDERR_FILENO);
    return 0;
}
