# SPDX-License-Identifier: Apache-2.0
"""All workloads, by their names in plans."""

from shares import Shares
from workloads import (
    AgentUpgrade,
    Evicted,
    FailingLayout,
    FirstProfile,
    LabelChange,
    NodeReturns,
    OneOfTwo,
    PodHolds,
    ProfileChange,
    ProfileReturns,
    Slices,
)

ALL = {
    w.__name__: w
    for w in (FirstProfile, ProfileChange, OneOfTwo, LabelChange, Slices, ProfileReturns, NodeReturns, AgentUpgrade, FailingLayout, PodHolds, Evicted, Shares)
}
