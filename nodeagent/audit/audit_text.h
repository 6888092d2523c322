/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nodeagent/audit/share_audit.h"

/*
 * What share_audit.h found, in words for a person. Texts continue one that names the container. Pure;
 * the caller frees. Names of processes are theirs to choose: what cannot be printed is left out.
 */

/* How much more than its share a container uses. */
char *audit_over_text(const struct audit_share *s, const struct share_audit *a);
/* Which of its processes the limiter is not in. */
char *audit_unlimited_text(const struct audit_share *s, const struct share_audit *a);
/* Why a process was ended. */
char *audit_end_text(const struct audit_share *s, const struct share_audit *a,
                     const struct audit_process *p);
