# SPDX-License-Identifier: Apache-2.0
"""/metrics of both programs behind a token and over TLS: who gets the page, as a real API server judges it."""

import http.client
import re
import shutil
import socket
import ssl
import subprocess

import pytest
from conftest import ROOT, wait_for
from stack import ApiServer, fetch, listening_ports, rig  # noqa: F401

RIGHTS = ROOT / "config" / "components" / "metrics-auth" / "rbac.yaml"
READER = "cleave-metrics-reader"


@pytest.fixture
def rights(rig):
    """The rights of config/components/metrics-auth, for this test: others look at what is there without them."""
    rig.cluster.kubectl("apply", "--server-side", "-f", RIGHTS)
    yield
    rig.cluster.kubectl("delete", "--ignore-not-found", "-f", RIGHTS)


class Pair:
    """A certificate for 127.0.0.1 with its key, signed by itself."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.cert, self.key = folder / "tls.crt", folder / "tls.key"
        self.renew()

    def renew(self):
        """As a kubelet does it: both at once, behind a link."""
        data = self.folder / f"..{len(list(self.folder.iterdir()))}"
        data.mkdir()
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", "/CN=metrics",
             "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", data / "tls.key", "-out", data / "tls.crt"],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip
        fresh = self.folder / "..new"
        fresh.symlink_to(data.name)
        fresh.rename(self.folder / "..data")
        for file in (self.cert, self.key):
            if not file.is_symlink():
                file.symlink_to(f"..data/{file.name}")
        self.ca = self.folder / f"{data.name}.ca"
        shutil.copy(data / "tls.crt", self.ca)

    def flags(self, auth="token"):
        return {"metrics_auth": auth, "metrics_tls_cert_file": self.cert, "metrics_tls_key_file": self.key}


class Scraper:
    """A program of ours with TLS on the port of its metrics, and plain HTTP on that of its health."""

    def __init__(self, process, pair):
        self.process, self.pair = process, pair
        wait_for(lambda: len(listening_ports(process.pid)) == 2, 30, lambda: f"both ports:\n{process.tail()}")
        ports = listening_ports(process.pid)
        wait_for(lambda: any(fetch(port, "/healthz")[0] == 200 for port in ports), 30, "the health port")
        self.health = next(port for port in ports if fetch(port, "/healthz")[0] == 200)
        self.metrics = next(port for port in ports if port != self.health)

    def get(self, token=None, ca=None, path="/metrics", method="GET"):
        """(status, body, headers)"""
        tls = ssl.create_default_context(cafile=str(ca or self.pair.ca))
        connection = http.client.HTTPSConnection("127.0.0.1", self.metrics, context=tls, timeout=30)
        try:
            connection.request(method, path, headers={"Authorization": f"Bearer {token}"} if token else {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers
        finally:
            connection.close()

    def code(self, token=None):
        return self.get(token)[0]

    def well(self):
        return fetch(self.health, "/healthz")[0]


def account(rig, name, reads):
    """A token of a fresh account in default, bound to cleave-metrics-reader if it reads."""
    name = f"{rig.id}-{name}"
    path = "/api/v1/namespaces/default/serviceaccounts"
    rig.api.create(path, {"metadata": {"name": name}})
    rig.objects.append(f"{path}/{name}")
    if reads:
        bind(rig, name)
    spec = {"expirationSeconds": 3600}
    return rig.api.create(f"{path}/{name}/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})["status"]["token"]


def bind(rig, name):
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": READER}
    rig.api.create(bindings, {"metadata": {"name": name}, "roleRef": role, "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]})
    rig.objects.append(f"{bindings}/{name}")


def agent(rig, pair, **more):
    node = rig.node(start=False)
    return Scraper(node.start(**{"metrics_addr": "localhost:0", **pair.flags(), **more}), pair)


def controller(rig, pair, **more):
    return Scraper(rig.controller(wait=False, **{"metrics_addr": "localhost:0", **pair.flags(), **more}), pair)


@pytest.mark.parametrize("start", [agent, controller])
def test_the_page_is_for_bearers_of_a_token_whom_the_api_server_lets_get_it(rig, rights, start):
    served = start(rig, Pair(rig.folder / "tls"))
    wait_for(lambda: served.code("invented") == 401, 30, "the right to ask about tokens")
    code, body, headers = served.get()
    assert code == 401 and headers["WWW-Authenticate"] == "Bearer" and "cleave" not in body
    assert served.code("invented") == 401
    assert served.code("two words") == 401
    weak = account(rig, "weak", reads=False)
    code, body, _ = served.get(weak)
    assert code == 403 and "nonResourceURLs" in body
    good = account(rig, "good", reads=True)
    # RBAC's caches in the API server may be a moment behind; what they say now is kept for a while.
    wait_for(lambda: can_read(rig, good), 30, "the right to be known")
    code, body, _ = served.get(good)
    assert code == 200 and "cleave_http_restarts_total 0" in body
    assert served.get(good, method="HEAD")[:2] == (200, "")
    reviews = dict(re.findall(r'cleave_http_token_reviews_total\{result="(\w+)"\} (\d+)', served.get(good)[1]))
    assert reviews == {"unauthenticated": "1", "forbidden": "1", "allowed": "1"}
    assert served.well() == 200 and fetch(served.health, "/readyz")[0] in (200, 503)
    log = served.process.text()
    for token in (weak, good, "invented"):
        assert token not in log


def test_the_page_of_telemetry_is_behind_the_same_token(rig, rights):
    """It names pods, too, and takes no right of its own."""
    served = agent(rig, Pair(rig.folder / "tls"), telemetry_interval=1)
    weak, good = account(rig, "weak", reads=False), account(rig, "good", reads=True)
    wait_for(lambda: served.code("invented") == 401 and can_read(rig, good), 30, "the right to ask about tokens, and the reader's")

    def get(token):
        return served.get(token, path="/metrics/telemetry")[:2]

    for token, refused in ((None, 401), ("invented", 401), (weak, 403)):
        code, body = get(token)
        assert code == refused and "telemetry" not in body
    code, body = get(good)
    assert code == 200 and "cleave_agent_telemetry_pods_left_out 0" in body


def test_a_right_that_is_taken_away_is_lost_when_its_verdict_ends(rig, rights):
    """A verdict is kept for 60 s (service/access_table.h); whoever scrapes all the time makes it no longer."""
    served = agent(rig, Pair(rig.folder / "tls"))
    token = account(rig, "dismissed", reads=True)
    wait_for(lambda: can_read(rig, token), 30, "the right to be known")
    assert served.code(token) == 200
    rig.api.delete(rig.objects[-1])
    wait_for(lambda: not can_read(rig, token), 30, "the API server to know that the right is gone")
    codes = set()

    def is_refused():
        codes.add(served.code(token))
        return 403 in codes

    wait_for(is_refused, 90, "the token to be refused")
    assert codes <= {200, 403}


def can_read(rig, token):
    with rig.cluster.network():
        answer = subprocess.run(
            ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", rig.cluster.rundir / "certs" / "apiserver.crt",
             "-H", f"Authorization: Bearer {token}", f"{rig.cluster.server}/metrics"],
            check=True, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    return answer.stdout == "200"


def test_a_token_that_cannot_be_asked_about_gets_503_and_health_goes_on(rig, rights):
    pair = Pair(rig.folder / "tls")
    served = agent(rig, pair)
    known, new = account(rig, "known", reads=True), account(rig, "new", reads=True)
    wait_for(lambda: can_read(rig, known) and can_read(rig, new), 30, "the right to be known")
    assert served.code(known) == 200
    with ApiServer(rig.cluster).gone():
        code, body, _ = served.get(new)
        assert code == 503 and "could not be asked" in body
        assert served.code(known) == 200
        assert served.well() == 200
    wait_for(lambda: served.code(new) == 200, 30, "the new token's review")


def test_an_api_server_that_hangs_holds_up_neither_known_tokens_nor_health(rig, rights):
    served = agent(rig, Pair(rig.folder / "tls"))
    known = account(rig, "known", reads=True)
    wait_for(lambda: can_read(rig, known), 30, "the right to be known")
    assert served.code(known) == 200
    with ApiServer(rig.cluster).stopped():
        with socket.create_connection(("127.0.0.1", served.metrics), 10) as raw:
            asks = ssl.create_default_context(cafile=str(served.pair.ca)).wrap_socket(raw, server_hostname="127.0.0.1")
            asks.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer invented\r\n\r\n")
            assert served.code(known) == 200 and served.well() == 200
            assert asks.recv(100).split()[1] == b"503"


def test_an_account_without_the_component_s_rights_says_what_to_do(rig):
    served = agent(rig, Pair(rig.folder / "tls"))
    wait_for(lambda: served.code("invented") == 503, 30, "the right to be gone")
    wait_for(lambda: "config/components/metrics-auth" in served.process.tail(), 30, "the remedy in the log")


def test_a_renewed_certificate_is_served_without_a_restart_that_counts(rig, rights):
    pair = Pair(rig.folder / "tls")
    served = agent(rig, pair, metrics_auth="none")
    before = pair.ca
    assert served.code() == 200
    pair.renew()
    wait_for(lambda: shows(served, pair.ca), 30, "the new certificate")
    assert not shows(served, before)
    assert "cleave_http_restarts_total 0" in served.get()[1]


def shows(served, ca):
    try:
        return served.get(ca=ca)[0] == 200
    except ssl.SSLCertVerificationError:
        return False


def test_a_port_with_tls_gives_nothing_in_the_clear_and_nothing_to_who_does_not_trust_it(rig, rights):
    served = controller(rig, Pair(rig.folder / "tls"), metrics_auth="none")
    with socket.create_connection(("127.0.0.1", served.metrics), 10) as raw:
        raw.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"cleave" not in raw.recv(4096)
    other = Pair(rig.folder / "other")
    assert not shows(served, other.ca)
    assert shows(served, served.pair.ca)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--metrics-auth=token"], "without TLS everybody on the network path could read the token"),
        (["--metrics-auth=tokens"], "neither none nor token"),
        (["--metrics-tls-cert-file=/x"], "go together"),
        (["--metrics-tls-key-file=/x"], "go together"),
    ],
)
@pytest.mark.parametrize("program", [["cleave-controller"], ["cleave-agent", "run", "--node-name=n"]])
def test_half_of_a_protection_is_refused_at_the_start(release, program, flags, says):
    done = subprocess.run([release(program[0]), *program[1:], *flags], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and says in done.stderr


def test_a_crowd_that_holds_connections_open_keeps_nobody_out(rig, rights):
    served = agent(rig, Pair(rig.folder / "tls"), metrics_auth="none")
    tls = ssl.create_default_context(cafile=str(served.pair.ca))
    crowd = []
    try:
        for _ in range(150):
            crowd.append(tls.wrap_socket(socket.create_connection(("127.0.0.1", served.metrics), 10), server_hostname="127.0.0.1"))
            crowd[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: ")
        assert "cleave_http_restarts_total 0" in served.get()[1]
    finally:
        for connection in crowd:
            connection.close()
