/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The verbs of cleave-agent. Each takes the arguments behind its name (argv[0] is the verb), writes
 * errors to stderr and returns the process's exit code (enum verb_exit).
 */

/* Exit codes by which a script can tell "no" from "not known". mig-parted's assert ends with 1 for
 * both. */
enum verb_exit {
    VERB_YES,           /* yes, or done */
    VERB_NO,            /* no, or not done, although the cards could be read */
    VERB_COULD_NOT_LOOK /* wrong usage, a name that nothing has, or a file or the driver
                         * could not be read */
};

#define VERB_COULD_NOT_LOOK_HELP                                                                   \
    "With 2 if nobody could look: wrong usage, an unknown name, a bad file, no driver."

int cmd_run(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_apply(int argc, char **argv);
int cmd_assert(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_watch_events(int argc, char **argv);
