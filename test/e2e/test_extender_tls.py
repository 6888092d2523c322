# SPDX-License-Identifier: Apache-2.0
"""cleave-scheduler as the extender of a kube-scheduler elsewhere: over TLS, and for bearers of a certificate alone."""

import http.client
import json
import ssl
import subprocess

import pytest
from stack import rig  # noqa: F401
from test_scheduler import MANUAL, world  # noqa: F401


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=60)


class Pki:
    """An authority with a server's and a client's certificate, and another authority with a client's."""

    def __init__(self, folder):
        self.folder = folder
        for ca in ("ca", "other"):
            new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
            openssl("req", "-x509", *new_key, "-days", "1", "-subj", f"/CN={ca}", "-keyout", self / f"{ca}.key", "-out", self / f"{ca}.crt")
        self.issue("server", "ca", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
        self.issue("client", "ca", "extendedKeyUsage=clientAuth\n")
        self.issue("stranger", "other", "extendedKeyUsage=clientAuth\n")

    def __truediv__(self, name):
        return self.folder / name

    def issue(self, name, ca, extensions):
        (self / "extensions").write_text(extensions)
        key, request = self / f"{name}.key", self / "request"
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        signed_by = ["-CA", self / f"{ca}.crt", "-CAkey", self / f"{ca}.key", "-CAcreateserial"]
        openssl("x509", "-req", "-in", request, *signed_by, "-days", "1", "-extfile", self / "extensions", "-out", self / f"{name}.crt")

    def ask(self, port, cert):
        """The status of a question without nodes, with this certificate or with none."""
        tls = ssl.create_default_context(cafile=str(self / "ca.crt"))
        if cert:
            tls.load_cert_chain(self / f"{cert}.crt", self / f"{cert}.key")
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=tls, timeout=30)
        try:
            pod = {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": []}}
            connection.request("POST", "/filter", json.dumps({"Pod": pod, "NodeNames": []}))
            return connection.getresponse().status
        finally:
            connection.close()


@pytest.fixture
def pki(tmp_path):
    return Pki(tmp_path)


def test_a_kube_scheduler_with_a_certificate_asks_and_nobody_else(world, pki):
    w = world({"h100-80": 1})
    w.schedule(pki=pki)
    pod = w.pod("p", **MANUAL)
    w.until(lambda: w.node_of(pod), "the pod to be bound")
    port = w.scheduler.ports["listen"]
    assert pki.ask(port, "client") == 200
    for cert in (None, "stranger", "server"):  # the server's own is not for clients
        assert pki.ask(port, cert) == 401, cert
    assert "cleave_http_restarts_total 0" in w.scheduler.metrics()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--listen=:0"], "take a loopback address, or --tls-cert, --tls-key and --client-ca"),
        (["--listen=0.0.0.0:0"], "which others than this machine reach"),
        (["--listen=:0", "--tls-cert=/x", "--tls-key=/x"], "go together"),
        (["--client-ca=/x"], "go together"),
    ],
    ids=str,
)
def test_what_strangers_would_reach_is_refused_at_the_start(release, flags, says):
    done = subprocess.run([release("cleave-scheduler"), *flags], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and says in done.stderr
