# SPDX-License-Identifier: Apache-2.0
"""What a kubelet does all the time with a node's pods, for one that is a stub: its tests say when."""

PODS = "/api/v1/namespaces/default/pods"
GPU = "nvidia.com/gpu"


class KubeletWork:
    """Of the node of this name; api is an admin's."""

    def __init__(self, api, name, kubelet):
        self.api, self.name, self.kubelet = api, name, kubelet
        self.path = f"/api/v1/nodes/{name}"
        self.admitted = {}  # uid: what the stub gave the pod's containers

    def do(self):
        """Says what the plugin offers, ends the pods that are gone, and admits those that are bound."""
        self.offer()
        bound = self.end_deleted()
        for uid in bound.keys() - self.admitted.keys():
            self.admitted[uid] = self.admit(uid, bound[uid])

    def offer(self):
        offered = str(self.kubelet.offers().get(GPU, (0, 0))[0])
        if self.api.get(self.path)["status"]["allocatable"].get(GPU) != offered:
            self.api.merge(f"{self.path}/status", {"status": {"capacity": {GPU: offered}, "allocatable": {GPU: offered}}})

    def end_deleted(self):
        """Ends the pods that are gone, and returns those that are bound to the node, by uid."""
        bound = {p["metadata"]["uid"]: p for p in self.api.get(f"{PODS}?fieldSelector=spec.nodeName={self.name}")["items"]}
        for uid in self.admitted.keys() - bound.keys():
            for pod in self.admitted.pop(uid):
                self.kubelet.end(pod)
        return bound

    def admit(self, uid, pod):
        asked = {c["name"]: int(c.get("resources", {}).get("limits", {}).get(GPU, 0)) for c in pod["spec"]["containers"]}
        return [self.kubelet.admit("default", pod["metadata"]["name"], {GPU: n}, container, uid) for container, n in asked.items() if n]
