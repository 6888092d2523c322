# SPDX-License-Identifier: Apache-2.0
"""cleave-scheduler's webhook, and the keeper of its certificate, with the rights that config/scheduler-webhook gives them. The API server
asks a port of this machine, not a Service; the Secret comes to files as a kubelet brings it."""

import base64
import contextlib
import http.client
import json
import ssl
import subprocess
import threading

import pytest
import yaml
from conftest import ROOT, wait_for
from extender import free_port, shipped_arguments
from share_defaults import CASES, GIB, GPU, OF_GPUSHARE, OF_KOORDINATOR, OURS, SIZES, body, check_cases, check_gpushare, check_koordinator, container, shares
from stack import RESTRICTED, ApiError, fetch, rig  # noqa: F401

CONFIG = ROOT / "config" / "scheduler-webhook"
NAME = "cleave-webhook-certificate"
SECRET = f"/api/v1/namespaces/cleave-system/secrets/{NAME}"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
HOOK = f"{HOOKS}/cleave-pod-defaults"
ROLE = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{NAME}"
PODS = "/api/v1/namespaces/default/pods"
RENEWED = {"valid_for": "300s"}  # a third of it is more than the whole life of a certificate of the following
FIRST = {"valid_for": "90s"}


def shipped(file):
    return yaml.safe_load((CONFIG / file).read_text())


def decoded(text):
    return base64.b64decode(text).decode() if text else ""


class Webhook:
    """Both programs, and what the API server has of them."""

    def __init__(self, rig):
        self.rig, self.api = rig, rig.api
        self.folder = rig.folder / "mounted"
        self.folder.mkdir(parents=True)
        self.port, self.health, self.keepers_health = (free_port(rig) for _ in range(3))
        self.seen = 0
        self.scheduler = self.keeper = None
        self.install()

    def install(self):
        self.api.create(SECRET.rpartition("/")[0], shipped("secret.yaml"))
        hook = shipped("webhook.yaml")
        hook["webhooks"][0]["clientConfig"] = {"url": f"https://127.0.0.1:{self.port}/mutate-pods"}
        self.api.create(HOOKS, hook)
        self.rig.objects += [SECRET, HOOK]

    def kubeconfig(self, account):
        pod = self.rig.pod(f"{self.rig.id}-{account}", None, namespace="cleave-system", account=account, schedulerName="none", **RESTRICTED)
        return self.rig.write_kubeconfig(account, self.rig.token(account, pod))

    # --- the programs ---

    def serve(self, **flags):
        """Starts the scheduler; it is not ready yet."""
        own = {"listen": f"127.0.0.1:{free_port(self.rig)}", "health_addr": f"127.0.0.1:{self.health}", "metrics_addr": f"127.0.0.1:{free_port(self.rig)}"}
        more = {"webhook_addr": f"127.0.0.1:{self.port}", "webhook_tls_cert": self.folder / "tls.crt", "webhook_tls_key": self.folder / "tls.key"}
        argv = shipped_arguments("scheduler", **own, **more, **flags, kubeconfig=self.kubeconfig("cleave-scheduler"))
        self.scheduler = self.rig.processes("cleave-scheduler", self.rig.release("cleave-scheduler"), *argv)

    def keep(self, **flags):
        """Starts a keeper beside or after the one before."""
        argv = next(d for d in yaml.safe_load_all((CONFIG / "deployment.yaml").read_text()))["spec"]["template"]["spec"]["containers"][0]["args"]
        own = {"health_addr": f"127.0.0.1:{self.keepers_health}", "namespace": "cleave-system", "host": "127.0.0.1", **flags}
        words = [word for word in argv if not word.startswith("--health-addr")] + [f"--{k.replace('_', '-')}={v}" for k, v in own.items()]
        file = self.rig.folder / f"{NAME}.kubeconfig"
        config = file if file.exists() else self.kubeconfig(NAME)
        self.keeper = self.rig.processes("keeper", self.rig.release("cleave-scheduler"), *words, f"--kubeconfig={config}")
        return self.keeper

    def says(self, port=None):
        """(status, text) of a program's readiness."""
        return fetch(port or self.keepers_health, "/readyz")

    # --- as a kubelet ---

    def deliver(self):
        """Brings what the Secret has to the files, all of it at once behind a link."""
        secret = self.api.find(SECRET) or {}
        data = {name: decoded(text) for name, text in (secret.get("data") or {}).items() if name in ("tls.crt", "tls.key")}
        if data == {name: (self.folder / name).read_text() for name in ("tls.crt", "tls.key") if (self.folder / name).exists()}:
            return
        self.seen += 1
        fresh = self.folder / f"..{self.seen}"
        fresh.mkdir()
        for name, text in data.items():
            (fresh / name).write_text(text)
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")
        link = self.folder / "..new"
        link.symlink_to(fresh.name)
        link.rename(self.folder / "..data")

    def until(self, predicate, message, timeout=60):
        def look():
            self.deliver()
            return predicate()

        return wait_for(look, timeout, lambda: f"{message}; the keeper says {self.says()}, the scheduler {self.says(self.health)}")

    # --- what is there ---

    def data(self):
        return {name: decoded(text) for name, text in (self.api.get(SECRET).get("data") or {}).items()}

    def bundle(self):
        return decoded(self.api.get(HOOK)["webhooks"][0]["clientConfig"].get("caBundle", ""))

    def served(self):
        """The certificate that visitors see; None: nobody answers."""
        with contextlib.suppress(OSError):
            return ssl.get_server_certificate(("127.0.0.1", self.port), timeout=10)
        return None

    def is_good(self):
        """API servers trust what the Secret has, and nothing is under way."""
        data = self.data()
        return data.get("tls.crt") and data["tls.crt"] in self.bundle() and "next.crt" not in data and self.says()[0] == 200

    def is_served(self):
        return self.is_good() and self.served() == self.data()["tls.crt"] and self.says(self.health)[0] == 200

    def dry_run(self, pod):
        return self.api.create(f"{PODS}?dryRun=All", pod)

    def mutates(self):
        """Is a pod of shares changed now?"""
        return self.dry_run(CASES["shares that are counted stay"][0])["spec"]["schedulerName"] == OURS

    def start(self, **flags):
        self.serve()
        self.keep(**flags)
        self.until(self.is_served, "the webhook to be served")
        wait_for(self.mutates, 30, "the API server to know of the webhook")

    def end(self):
        self.rig.processes.end()


@pytest.fixture
def webhook(rig):
    made = Webhook(rig)
    yield made
    made.end()


# --- what pods get ---


def test_pods_of_shares_get_what_they_do_not_say(webhook):
    webhook.start()
    check_cases(webhook.dry_run)


MEMORY = "nvidia.com/gpumem"
NO_SHARE_OF_THEIR_SIZE = [
    ({GIB: "2", GPU: "0", MEMORY: "2048"}, "asks for aliyun.com/gpu-mem and no share"),
    ({GIB: "2", GPU: "1"}, "asks for aliyun.com/gpu-mem and no share"),
    ({GIB: "3", GPU: "1", MEMORY: "3071"}, "asks for more by aliyun.com/gpu-mem"),
    ({GIB: "3Gi"}, "aliyun.com/gpu-mem counts GiB of one card; for 3 GiB write 3"),
]


@contextlib.contextmanager
def others_words(webhook, component, bare, why):
    """A component of config/: its policy refuses this pod, to which nothing was added, and the webhook is asked about it once it is served."""
    folder = ROOT / "config" / component
    made = yaml.safe_load((folder / "kustomization.yaml").read_text())
    (asked,) = (p for p in made["patches"] if p["target"]["kind"] == "MutatingWebhookConfiguration")
    ((_, path, expression),) = (step.values() for step in yaml.safe_load(asked["patch"]))
    hook = webhook.api.get(HOOK)
    assert path == "/webhooks/0/matchConditions/0/expression"
    hook["webhooks"][0]["matchConditions"][0]["expression"] = expression
    webhook.api.merge(HOOK, {"webhooks": hook["webhooks"]})
    policies = [f"--filename={folder / name}" for name in made["resources"]]
    webhook.rig.cluster.kubectl("apply", "--server-side", *policies)
    try:
        wait_for(lambda: why in refusal(webhook, bare), 30, "the policy to be asked")
        yield
    finally:
        webhook.rig.cluster.kubectl("delete", *policies)
        wait_for(lambda: why not in refusal(webhook, bare), 30, "the policy to be asked no more")


def serve_others(webhook, bare, **flags):
    webhook.serve(**flags)
    webhook.keep()
    webhook.until(webhook.is_served, "the webhook to be served")
    wait_for(lambda: refusal(webhook, bare) == "", 30, "the API server to ask")


def test_pods_of_gpushares_become_pods_of_shares(webhook):
    bare = OF_GPUSHARE["its GiB are one share"][0]
    with others_words(webhook, "gpushare", bare, "asks for aliyun.com/gpu-mem and no share"):
        serve_others(webhook, bare, gpushare="on")
        check_gpushare(webhook.dry_run)
        for limits, why in NO_SHARE_OF_THEIR_SIZE:
            assert why in refusal(webhook, body(container(limits))), limits


def test_pods_of_koordinators_get_their_slots(webhook):
    bare = OF_KOORDINATOR["memory alone is one"][0]
    with others_words(webhook, "koordinator-shares", bare, "and for no gpu.cleave.dev/share"):
        for what, (pod, slots) in OF_KOORDINATOR.items():
            without = all(n is None for n in slots) or what == "slots that are there stay"
            assert (refusal(webhook, pod) == "") == without, what
        serve_others(webhook, bare, koordinator_shares="on")
        check_koordinator(webhook.dry_run)


def refusal(webhook, pod):
    """Why the pod cannot be made; "": it can."""
    try:
        webhook.dry_run(pod)
    except ApiError as error:
        return str(error)
    return ""


def test_a_namespace_may_be_left_out(webhook):
    webhook.start()
    name = f"{webhook.rig.id}-left-out"
    webhook.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": {"hami.io/webhook": "ignore"}}})
    webhook.rig.objects.append(f"/api/v1/namespaces/{name}")
    pods = f"/api/v1/namespaces/{name}/pods?dryRun=All"
    counted = {**CASES["shares that are counted stay"][0]}
    wait_for(lambda: webhook.api.find(f"/api/v1/namespaces/{name}/serviceaccounts/default"), 30, "the namespace's account")
    assert webhook.api.create(pods, counted)["spec"]["schedulerName"] == "default-scheduler"


def test_while_the_webhook_is_down_a_size_alone_is_refused_and_others_go_on(webhook):
    webhook.start()
    webhook.scheduler.stop()
    with pytest.raises(ApiError, match="names the size of a share and no share: write nvidia.com/gpu: 1 beside it"):
        webhook.dry_run(body(container(SIZES)))
    counted = webhook.dry_run(body(container({GPU: "1", **SIZES})))
    assert counted["spec"]["schedulerName"] == "default-scheduler" and shares(counted, "limits") == ["1"]
    assert webhook.dry_run(body(container({"cpu": "1"})))
    webhook.scheduler.start()
    webhook.until(webhook.is_served, "the webhook to be served again")
    wait_for(webhook.mutates, 30, "pods to be changed again")


# --- strangers ---


def post(webhook, text, path="/mutate-pods", method="POST"):
    """(status, text)"""
    tls = ssl.create_default_context(cadata=webhook.data()["tls.crt"])
    connection = http.client.HTTPSConnection("127.0.0.1", webhook.port, context=tls, timeout=30)
    try:
        connection.request(method, path, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_what_is_no_review_is_told_so(webhook):
    webhook.start()
    for text in ("", "{", "[]", '{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"}'):
        status, answer = post(webhook, text)
        assert (status, json.loads(answer)["reason"]) == (400, "BadRequest"), text
    assert post(webhook, None, method="GET")[0] == 405
    assert post(webhook, "{}", "/filter")[0] in (404, 405), "what kube-scheduler asks is not to be had here"
    with contextlib.suppress(OSError):
        assert post(webhook, "x" * (1 << 20) + "x")[0] == 413
    assert webhook.mutates()


@pytest.mark.parametrize(
    "flags",
    [["--webhook-addr=:0"], ["--webhook-tls-cert=/x"], ["--webhook-addr=:0", "--webhook-tls-cert=/x"], ["--webhook-tls-cert=/x", "--webhook-tls-key=/x"]],
    ids=" ".join,
)
def test_a_webhook_in_the_clear_is_refused_at_the_start(release, flags):
    done = subprocess.run([release("cleave-scheduler"), *flags], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "go together" in done.stderr


@pytest.mark.parametrize(("flag", "says"), [("--valid-for=5s", "--valid-for"), ("--host=a,b", "neither a name nor an address"), ("--what", "--what")])
def test_a_keeper_with_flags_that_make_no_sense_does_not_start(webhook, release, flag, says):
    config = webhook.kubeconfig(NAME)
    done = subprocess.run([release("cleave-scheduler"), "webhook-certificate", f"--kubeconfig={config}", flag], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and says in done.stderr


# --- the certificate ---


def test_from_an_empty_secret_to_a_served_certificate(webhook):
    webhook.serve()
    wait_for(lambda: "awaiting" in webhook.scheduler.text().lower(), 30, "the scheduler to say that it waits")
    wait_for(lambda: "certificate is not there yet" in webhook.says(webhook.health)[1], 30, "its readiness to say so")
    assert webhook.served() is None, "the port is not open"
    webhook.keep()
    webhook.until(webhook.is_served, "the certificate to be served")
    assert set(webhook.data()) == {"tls.crt", "tls.key"} and webhook.bundle() == webhook.data()["tls.crt"]
    wait_for(webhook.mutates, 30, "pods to be changed")
    writes = [(e["verb"], e["objectRef"]["resource"]) for e in webhook.rig.cluster.writes(webhook.rig.mark, f":{NAME}$")]
    assert writes == [("update", "secrets"), ("update", "mutatingwebhookconfigurations"), ("update", "secrets")]


class Stream:
    """Pods that are made one after the other; those that nobody changed are kept."""

    def __init__(self, webhook):
        self.webhook, self.count, self.unchanged, self.ends = webhook, 0, [], threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        api = type(self.webhook.api)(self.webhook.rig.cluster)
        while not self.ends.is_set():
            pod = api.create(f"{PODS}?dryRun=All", CASES["shares that are counted stay"][0])
            self.count += 1
            if pod["spec"]["schedulerName"] != OURS:
                self.unchanged.append(self.count)
            self.ends.wait(0.02)
        api.close()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


@pytest.mark.long
def test_a_renewal_leaves_no_pod_unchanged(webhook):
    webhook.start(**FIRST)
    webhook.keeper.stop()
    first = webhook.data()["tls.crt"]
    with Stream(webhook) as stream:
        webhook.keep(**RENEWED)
        webhook.until(lambda: webhook.is_served() and webhook.data()["tls.crt"] != first, "another certificate to be served", 80)
        after = stream.count
        wait_for(lambda: stream.count > after + 100 or not stream.thread.is_alive(), 60, "more pods")
    assert stream.count > 100 and stream.unchanged == []
    assert first in webhook.bundle(), "it may be served still, elsewhere"


@contextlib.contextmanager
def held_back(webhook):
    """The keeper may read the configuration, and not write it: its work ends after the first write."""
    (rule,) = webhook.api.get(ROLE)["rules"]
    webhook.api.merge(ROLE, {"rules": [{**rule, "verbs": ["get", "list", "watch"]}]})
    try:
        yield
    finally:
        webhook.api.merge(ROLE, {"rules": [rule]})


def test_a_keeper_that_is_killed_after_its_first_write_is_followed_by_another(webhook):
    webhook.serve()
    with held_back(webhook):
        webhook.keep()
        wait_for(lambda: "the last look or write failed" in webhook.says()[1], 60, "the keeper to say that it may not write")
        webhook.keeper.kill()
    assert set(webhook.data()) == {"next.crt", "next.key"} and not webhook.bundle()
    webhook.keep()
    webhook.until(webhook.is_served, "another keeper to end what was begun")
    wait_for(webhook.mutates, 30, "pods to be changed")


@pytest.mark.long
def test_a_keeper_that_is_killed_before_its_last_write_is_followed_by_another(webhook):
    webhook.start(**FIRST)
    webhook.keeper.stop()
    first = webhook.data()["tls.crt"]
    webhook.keep(**RENEWED)
    wait_for(lambda: webhook.bundle().count("BEGIN CERTIFICATE") == 2, 30, "both certificates to be trusted")
    webhook.keeper.kill()
    assert webhook.data()["tls.crt"] == first and webhook.data()["next.crt"] in webhook.bundle()
    assert webhook.mutates()
    webhook.keep(**RENEWED)
    webhook.until(lambda: webhook.is_served() and webhook.data()["tls.crt"] != first, "another keeper to end what was begun", 80)
    assert webhook.mutates()


def foreign_certificate(folder):
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", "/CN=foreign"]
    subprocess.run([*command, "-keyout", folder / "key", "-out", folder / "cert"], check=True, capture_output=True, timeout=60)
    return (folder / "cert").read_bytes()


@pytest.mark.parametrize("kind", ["garbage", "foreign"])
def test_another_bundle_is_replaced(webhook, kind, tmp_path):
    webhook.start()
    hook = webhook.api.get(HOOK)
    bundle = b"garbage" if kind == "garbage" else foreign_certificate(tmp_path)
    hook["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()
    try:
        webhook.api.request("PUT", HOOK, hook)
    except ApiError as error:
        assert kind == "garbage" and error.code == 422, error
        pytest.skip("this API server takes certificates alone as a bundle")
    webhook.until(webhook.is_served, "the bundle to be mended")
    wait_for(webhook.mutates, 30, "pods to be changed")


@pytest.mark.long
def test_garbage_in_the_secret_and_a_secret_that_is_made_anew_end_well(webhook):
    webhook.start()
    before = webhook.data()["tls.crt"]
    garbage = base64.b64encode(b"garbage").decode()
    webhook.api.merge(SECRET, {"data": dict.fromkeys(("tls.crt", "next.crt", "old.crt"), garbage)})
    webhook.until(lambda: webhook.is_served() and webhook.data()["tls.crt"] != before, "the Secret to be mended")
    wait_for(webhook.mutates, 30, "pods to be changed")
    webhook.api.delete(SECRET)
    wait_for(lambda: "the Secret is missing" in webhook.says()[1], 30, "the keeper to say that it is missing")
    webhook.api.create(SECRET.rpartition("/")[0], shipped("secret.yaml"))
    webhook.until(webhook.is_served, "the Secret to be filled")
    wait_for(webhook.mutates, 30, "pods to be changed")


def test_two_keepers_do_no_harm(webhook):
    webhook.keep()
    other = webhook.keeper
    webhook.keepers_health = free_port(webhook.rig)
    webhook.keep()
    webhook.serve()
    webhook.until(webhook.is_served, "the certificate to be served")
    assert other.running() and webhook.keeper.running()
    wait_for(webhook.mutates, 30, "pods to be changed")


def test_applying_the_manifests_again_leaves_the_certificate(webhook):
    """As GitOps does it every few minutes."""
    webhook.start()
    before = webhook.data(), webhook.bundle()
    kubectl = webhook.rig.cluster.kubectl
    for way in (["--server-side", "--force-conflicts"], []):
        kubectl("apply", *way, "-f", CONFIG / "secret.yaml")
        hook = shipped("webhook.yaml")
        hook["webhooks"][0]["clientConfig"] = {"url": f"https://127.0.0.1:{webhook.port}/mutate-pods"}
        kubectl("apply", *way, "-f", "-", input=yaml.safe_dump(hook))
        assert (webhook.data(), webhook.bundle()) == before
    assert webhook.mutates()
