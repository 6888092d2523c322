/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `cleave-scheduler webhook-certificate`: a process of its own that keeps the webhook's certificate
 * (certificate_keeper.h). Its account may write a Secret and a webhook configuration, which the
 * scheduler, whom strangers can reach, may not. It listens for health alone.
 */

#define CERTIFICATE_VERB "webhook-certificate"

/* argv[0] is the verb. environment: where a kubeconfig is looked for. Returns the exit status: 0, 1 after a failure, 2 for
 * wrong flags. */
int certificate_command_main(int argc, char **argv, char *const environment[]);
