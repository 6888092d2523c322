# SPDX-License-Identifier: Apache-2.0
"""cleave-scheduler beside a stock kube-scheduler, as config/scheduler has them: its configuration, both containers' arguments, and the
account with its rights and policies, no more. Addresses alone differ.

    scheduler(rig)                      context: pods are scheduled whose schedulerName is one of SCHEDULERS; both programs end with it
    s.kube, s.extender                  the two programs: .start(), which returns when the program is ready, .stop(), .kill(), .text()
    s.ask("filter", {...})              what cleave-scheduler answers, without kube-scheduler
    s.metrics()                         cleave-scheduler's page, as text
    s.writes(pod)                       what the account has written of the pod since the test began, Events apart
    scheduler(rig, hami_metrics="both") with more flags of cleave-scheduler
    scheduler(rig, pki=folder)          over TLS: folder has ca.crt, server.crt and .key, client.crt and .key
    scheduler(rig, between=f)           f(verb, forward) stands between the two: forward() gives cleave-scheduler's answer, as
                                        (status, text), and what f returns is what kube-scheduler hears; None: the connection ends

rig is one of stack.py's, whose nodes have no kubelet, or one of kubelet_rig.py's.
"""

import collections
import contextlib
import http.client
import json
import os
import random
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml
from conftest import ROOT, wait_for
from stack import RESTRICTED

CONFIG = ROOT / "config" / "scheduler"
ACCOUNT = "cleave-scheduler"
USER = f"system:serviceaccount:cleave-system:{ACCOUNT}"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/cleave-system/leases/{ACCOUNT}"
SCHEDULERS = ("cleave-scheduler", "hami-scheduler")


# --- what is shipped ---


def shipped(file, kind):
    (found,) = (d for d in yaml.safe_load_all((CONFIG / file).read_text()) if d["kind"] == kind)
    return found


def shipped_configuration():
    """Kube-scheduler's, as an object."""
    return yaml.safe_load(shipped("configuration.yaml", "ConfigMap")["data"]["configuration.yaml"])


def shipped_arguments(container, **instead):
    """Of one of the Deployment's containers, with other values for some, and more."""
    (found,) = (c for c in shipped("deployment.yaml", "Deployment")["spec"]["template"]["spec"]["containers"] if c["name"] == container)
    words = dict(word.split("=", 1) for word in found["args"])
    words.update({f"--{name.replace('_', '-')}": value for name, value in instead.items()})
    return [f"{name}={value}" for name, value in words.items()]


# --- the two programs ---


# A port is given before its program binds it: to nobody else of this process, nor of the processes beside it. The last lane is of
# those that are no worker.
LANES = 17
WORKER = os.environ.get("PYTEST_XDIST_WORKER")
LANE = int(WORKER.removeprefix("gw")) % (LANES - 1) if WORKER else LANES - 1
given_ports = collections.deque(maxlen=200)  # a run of many plans takes more than there are


def free_port(rig):
    """Below those that connections take by themselves."""
    with rig.cluster.network():
        while True:
            port = random.randrange(18000 + LANE, 32000, LANES)
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                if port not in given_ports:
                    given_ports.append(port)
                    return port


class Program:
    """One of the two; is_ready is a function."""

    def __init__(self, process, is_ready):
        self.process, self.is_ready = process, is_ready
        self.wait()

    def wait(self):
        wait_for(lambda: self.process.running() and self.is_ready(), 60, lambda: f"{self.process.name} to be ready:\n{self.process.tail()}")

    def start(self):
        """Once more, after it has ended."""
        self.process.start()
        self.wait()

    def stop(self):
        return self.process.stop()

    def kill(self):
        self.process.kill()

    def text(self):
        return self.process.text()


class Between:
    """What kube-scheduler takes for its extender."""

    def __init__(self, rig, port, f):
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = f(self.path.strip("/"), lambda: post(rig, port, self.path, body))
                if answer is None:
                    self.close_connection = True
                    return
                self.send_response(answer[0])
                self.end_headers()
                self.wfile.write(answer[1].encode())

            def log_message(self, *_):
                pass

        with rig.cluster.network():
            self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def end(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def post(rig, port, path, body):
    """(status, text); (502, why) when nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        with rig.cluster.network():
            connection.connect()
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 502, str(error)
    finally:
        connection.close()


class Scheduler:
    def __init__(self, rig, pki=None, **flags):
        self.rig, self.pki, self.flags = rig, pki, flags
        self.folder = rig.folder / "scheduler"
        self.folder.mkdir(parents=True, exist_ok=True)
        pod = rig.pod(f"{rig.id}-scheduler", None, namespace="cleave-system", account=ACCOUNT, schedulerName="none", **RESTRICTED)
        self.kubeconfig = rig.write_kubeconfig("scheduler", rig.token(ACCOUNT, pod))
        self.ports = {name: free_port(rig) for name in ("listen", "health_addr", "metrics_addr", "secure_port")}
        self.between = self.extender = self.kube = None

    def start(self, between):
        self.between = Between(self.rig, self.ports["listen"], between) if between else None
        self.extender = self.start_extender()
        self.kube = self.start_kube()

    def start_extender(self):
        return Program(self.extender_process(self.kubeconfig), self.extender_is_ready)

    def extender_process(self, kubeconfig):
        """cleave-scheduler, just started; its kubeconfig may be another one than kube-scheduler's."""
        addresses = {name: f"127.0.0.1:{self.ports[name]}" for name in ("listen", "health_addr", "metrics_addr")}
        tls = {"tls_cert": self.pki / "server.crt", "tls_key": self.pki / "server.key", "client_ca": self.pki / "ca.crt"} if self.pki else {}
        argv = shipped_arguments("scheduler", **addresses, **tls, kubeconfig=kubeconfig, **self.flags)
        return self.rig.processes("cleave-scheduler", self.rig.release("cleave-scheduler"), *argv, where=self.rig.where)

    def extender_is_ready(self):
        return self.get("health_addr", "/readyz") == 200

    def start_kube(self):
        port = self.between.port if self.between else self.ports["listen"]
        config = shipped_configuration()
        (extender,) = config["extenders"]
        extender["urlPrefix"] = f"http://127.0.0.1:{port}"
        if self.pki:
            files = {"caFile": "ca.crt", "certFile": "client.crt", "keyFile": "client.key"}
            tls = {name: str(self.pki / file) for name, file in files.items()}
            extender.update(urlPrefix=f"https://127.0.0.1:{port}", enableHTTPS=True, tlsConfig=tls)
        config["clientConnection"] = {"kubeconfig": str(self.kubeconfig)}
        (self.folder / "configuration.yaml").write_text(yaml.safe_dump(config))
        argv = shipped_arguments(
            "kube-scheduler",
            config=self.folder / "configuration.yaml",
            leader_elect_resource_namespace="cleave-system",
            secure_port=self.ports["secure_port"],
            bind_address="127.0.0.1",
            authentication_kubeconfig=self.kubeconfig,
            authorization_kubeconfig=self.kubeconfig,
            v=2,
        )
        self.forget_leader()
        program = Path((self.rig.cluster.rundir / "bin-dir").read_text().strip()) / "kube-scheduler"
        process = self.rig.processes("cleaves-kube-scheduler", program, *argv, where=self.rig.where)
        return Program(process, self.leads)

    def forget_leader(self):
        """One that was killed holds the Lease for another 15 s."""
        self.rig.api.delete(LEASE)

    def leads(self):
        lease = self.rig.api.find(LEASE)
        return lease and lease["spec"].get("holderIdentity") and self.get("secure_port", "/readyz", tls=True) == 200

    def get(self, port, path, tls=False):
        """The status of a page; 0 when nobody answers."""
        return self.fetch(port, path, tls)[0]

    def metrics(self):
        """cleave-scheduler's, as text."""
        status, text = self.fetch("metrics_addr", "/metrics")
        assert status == 200, text
        return text

    def fetch(self, port, path, tls=False):
        """(status, text); (0, why) when nobody answers."""
        of = {"context": unverified()} if tls else {}
        connection = (http.client.HTTPSConnection if tls else http.client.HTTPConnection)("127.0.0.1", self.ports[port], timeout=10, **of)
        try:
            with self.rig.cluster.network():
                connection.connect()
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)
        finally:
            connection.close()

    def ask(self, verb, body):
        """cleave-scheduler's answer as an object."""
        status, text = post(self.rig, self.ports["listen"], f"/{verb}", json.dumps(body))
        assert status == 200, f"{verb}: {status}: {text}"
        return json.loads(text)

    def writes(self, pod):
        """[(verb, subresource)] of what the account wrote of a pod since the test began."""
        refs = ((e["verb"], e["objectRef"]) for e in self.rig.cluster.writes(self.rig.mark, f"^{USER}$"))
        return [(verb, ref.get("subresource")) for verb, ref in refs if ref["resource"] == "pods" and ref.get("name") == pod]

    def end(self):
        for program in (self.kube, self.extender):
            if program:
                program.stop()
        if self.between:
            self.between.end()
        self.forget_leader()


def unverified():
    """Kube-scheduler makes itself a certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@contextlib.contextmanager
def scheduler(rig, between=None, pki=None, **flags):
    running = Scheduler(rig, pki, **flags)
    try:
        running.start(between)
        yield running
    finally:
        running.end()
