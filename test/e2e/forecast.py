# SPDX-License-Identifier: Apache-2.0
"""What `kubectl cleave` foretells (docs/kubectl.md, "Documents"), beside what a node's cards are then."""

from collections import Counter

from conftest import wait_for


def places(card):
    """The partitions that a card of a plan will have: {"1g.10gb@0", ...}."""
    return {*card.get("stays", []), *card.get("comes", [])}


def layout_of(card):
    """{"1g.10gb": 2, ...}"""
    return dict(Counter(place.split("@")[0] for place in places(card)))


def wait_true(node, foretold):
    """Until the node's cards are cut as a plan's node says; then each partition is at its very place."""
    layouts = [layout_of(card) for card in foretold["cards"]]
    wait_for(lambda: node.layouts() == layouts, 60, lambda: f"{layouts} on {node.name}; the cards are {node.layouts()}")
    for gpu, card in enumerate(foretold["cards"]):
        assert {f"{kind}@{start}" for kind, start, _ in node.placements(gpu)} == places(card), f"card {gpu} of {node.name}"


def named_layout(card):
    """The layout that `why` names of a card, as a profile has it."""
    return {kind: int(count) for kind, count in (word.split(": ") for word in card["layout"].split(", "))}
