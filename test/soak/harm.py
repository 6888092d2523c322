# SPDX-License-Identifier: Apache-2.0
"""What goes wrong all day, at random: requests and watches, our processes, kubelets, drivers and cards."""

import time
from collections import Counter

from proxy import STATUS, WRITES, Harm

REFUSALS = tuple(map(str, STATUS))
STOP_S = (0.2, 4)  # a process stands still
BRIEFLY_S = (0.2, 1.5)  # one that is to keep its lease
LEADER_STOP_S = 9  # longer than a lease lasts
# Calls that change a card.
CALLS = ("nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceDestroy", "nvmlGpuInstanceCreateComputeInstance", "nvmlComputeInstanceDestroy", "nvmlDeviceSetMigMode")
XIDS = (48, 95, 119, 13)  # of an instance, of a card, and one that a program causes
SHOWN = 300  # of the newest requests: what is harmed is what is asked for these days


class Disorder:
    def __init__(self, world, rng):
        self.world, self.rng = world, rng
        self.tally = Counter()
        self.ordered = []
        self.kinds = (
            (10, self.harm_a_request),
            (3, self.cut_connections),
            (4, self.stop_a_process),
            (3, self.kill_an_agent),
            (1, self.kill_a_controller),
            (1, self.stop_the_leader),
            (1, self.upgrade_an_agent),
            (2, self.restart_a_kubelet),
            (1, self.freeze_a_kubelet),
            (3, self.fail_a_call),
            (1, self.hang_a_call),
            (1, self.die_in_a_call),
            (2, self.report_an_xid),
            (1, self.lose_a_card),
        )

    def strike(self):
        """One thing goes wrong. Harm to a request is counted when it strikes."""
        kind = self.rng.choices([k for _, k in self.kinds], [w for w, _ in self.kinds])[0]
        done = kind()
        if done is not False and kind != self.harm_a_request:
            self.tally[kind.__name__.replace("_", " ")] += 1

    def counted(self):
        """{kind: how often} so far."""
        struck = Counter(self.words_of(h) for h in self.ordered if h.struck)
        return self.tally + struck

    @staticmethod
    def words_of(harm):
        if harm.do in REFUSALS:
            return "answer 4xx or 5xx"
        if harm.do == "reset" and harm.at == "committed":
            return "lose the answer to a write that is done"
        return {
            "reset": "reset a connection",
            "html": "answer with a page of HTML",
            "delay": "delay a request",
            "blackhole": "never answer",
            "truncate": "truncate an answer",
            "kill": "kill at a request",
            "duplicate": "send an event twice",
            "gone": "end a watch with 410",
            "cut": "end a watch",
            "hold": "withhold events, then 410",
        }[harm.do]

    # --- the network and the API server ---

    def harm_a_request(self):
        with self.world.proxy.lock:
            seen = sorted({(r.by, r.verb, r.resource, r.subresource) for r in self.world.proxy.trace[-SHOWN:] if r.resource != "leases" or not self.keeps_lease(r.by)})
        if not seen:
            return
        by, verb, resource, subresource = self.rng.choice(seen)
        way = self.rng.choice(self.ways(by, verb))
        self.world.harm(Harm(by, verb, resource, subresource, nth=self.rng.randint(1, 3), **way))

    def ways(self, by, verb):
        mortal = by in self.world.mortals
        if verb == "event":
            ways = [{"do": "hold", "until": self.rng.randint(1, 5)}, {"do": "gone"}, {"do": "cut"}, {"do": "duplicate"}]
            return ways + ([{"do": "kill"}] if mortal else [])
        ways = [{"do": code} for code in REFUSALS if code not in ("409", "410") or verb in WRITES]
        ways += [{"do": "reset"}, {"do": "html"}, {"do": "delay", "seconds": 2}, {"do": "blackhole", "seconds": 3}]
        if verb in WRITES:
            ways += [{"do": "reset", "at": "committed"}] * 4 + [{"do": "truncate", "at": "committed"}]
            ways += [{"do": "kill", "at": at} for at in ("committed", "answered")] * 2 if mortal else []
        return ways

    def cut_connections(self):
        self.world.proxy.cut(self.rng.choice((None, *self.world.programs)))

    # --- our processes ---

    def stop_a_process(self):
        by = self.rng.choice(sorted(self.world.programs))
        return self.world.stand_still(by, self.rng.uniform(*(BRIEFLY_S if self.keeps_lease(by) else STOP_S)))

    def stop_the_leader(self):
        leader = self.world.leader()
        return not self.keeps_lease(leader) and self.world.stand_still(leader, LEADER_STOP_S)

    def keeps_lease(self, by):
        """Who loses it ends; the one whose memory is watched is to live."""
        return by.startswith("controller") and by not in self.world.mortals

    def kill_an_agent(self):
        return self.world.kill(self.world.by(self.rng.choice(self.world.mortal_nodes())))

    def kill_a_controller(self):
        return self.world.kill(self.rng.choice([by for by in sorted(self.world.mortals) if by.startswith("controller")]))

    def upgrade_an_agent(self):
        return self.world.upgrade(self.rng.choice(self.world.mortal_nodes()))

    # --- kubelets ---

    def restart_a_kubelet(self):
        kubelet = self.rng.choice(list(self.world.kubelets.values()))
        kubelet.restart(kill=self.rng.random() < 0.5)

    def freeze_a_kubelet(self):
        kubelet = self.rng.choice(list(self.world.kubelets.values()))
        kubelet.gate.clear()
        self.world.later(self.rng.uniform(*STOP_S), kubelet.gate.set)

    # --- drivers and cards ---

    def order_fault(self, node, action):
        node.ctl("fault", "add", "--call", self.rng.choice(CALLS), "--nth", self.rng.randint(1, 4), "--action", action)

    def fail_a_call(self):
        self.order_fault(self.rng.choice(self.world.nodes), f"fail:{self.rng.choice(('UNKNOWN', 'IN_USE', 'INSUFFICIENT_RESOURCES', 'TIMEOUT'))}")

    def hang_a_call(self):
        self.order_fault(self.rng.choice(self.world.nodes), f"hang:{self.rng.randint(1, 3)}")

    def die_in_a_call(self):
        self.order_fault(self.rng.choice(self.world.mortal_nodes()), self.rng.choice(("kill", "kill-after")))

    def report_an_xid(self):
        node = self.rng.choice(self.world.nodes)
        card = self.rng.choice(node.cards())
        instances = [("--gi", i["id"]) for i in card["gpuInstances"]]
        where = self.rng.choice(instances) if instances and self.rng.random() < 0.7 else ()
        node.ctl("xid", "--gpu", card["index"], "--code", self.rng.choice(XIDS), *where)

    def lose_a_card(self):
        node = self.rng.choice(self.world.nodes)
        gpu = self.rng.randrange(len(node.cards()))
        node.ctl("lost", "--gpu", gpu, "set")
        self.world.later(self.rng.uniform(0.5, 3), lambda: node.ctl("lost", "--gpu", gpu, "clear"))

    # --- peace ---

    def cease(self):
        """No more, and nothing that was ordered comes yet."""
        self.world.end_disorder()
        for node in self.world.nodes:
            node.ctl("fault", "clear")
