/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The verbs of cleave-agent: each takes the arguments behind its name (argv[0] is the verb) and
 * returns the process's exit code: 0 done, 1 refused or failed (said on stderr), 2 wrong usage.
 */
int cmd_run(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_apply(int argc, char **argv);
int cmd_assert(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_import(int argc, char **argv);
int cmd_watch_events(int argc, char **argv);
