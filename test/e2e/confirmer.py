# SPDX-License-Identifier: Apache-2.0
"""What an agent hears from cleave-controller where a test has none: that the Node follows the status.

There, nobody writes the Node, so it offers nothing that a status could take back.
"""

import threading

PERIOD_S = 0.1


class Confirmer(threading.Thread):
    """api: a connection of its own; paths(): the Devices to look at."""

    def __init__(self, api, paths, error):
        super().__init__(daemon=True)
        self.api, self.paths, self.error = api, paths, error
        self.over = threading.Event()

    def run(self):
        while not self.over.wait(PERIOD_S):
            for path in self.paths():
                try:
                    self.confirm(path)
                except self.error:
                    pass  # the API server is away, or the Device is; the next look is soon

    def confirm(self, path):
        device = self.api.find(path) or {}
        status = device.get("status")
        wanted = status.get("withdrawal") if isinstance(status, dict) else None  # a schema that lets everything pass is tried too
        if wanted != device.get("spec", {}).get("withdrawn"):
            self.api.merge(path, {"spec": {"withdrawn": wanted}})

    def end(self):
        self.over.set()
        self.join(35)
        self.api.close()
