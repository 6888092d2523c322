/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A remedy in one sentence for each reason of a finding; docs/api.md says more. Pure. */
struct remedy {
    const char *reason;
    const char *words; /* "": the message of the condition says it */
    const char *page;  /* of this tree, with the anchor */
};

/* Sorted by reason; ends with an entry without one. */
extern const struct remedy remedies[];
/* Never NULL: a reason that has no row, perhaps of a later release, is told by the page of all. */
const struct remedy *remedy_of(const char *reason);
