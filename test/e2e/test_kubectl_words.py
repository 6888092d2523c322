# SPDX-License-Identifier: Apache-2.0
"""The command line of kubectl cleave, before any cluster is asked."""

import json
import re
import subprocess

import pytest


@pytest.fixture
def nowhere(tmp_path):
    """A kubeconfig of a server that is not there: whoever tries to reach it had no other complaint."""
    server = {"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "east", "context": {"cluster": "x", "user": "x", "namespace": "ml"}}
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "clusters": [server], "contexts": [context], "users": [{"name": "x", "user": {}}]}))
    return config


@pytest.fixture
def said(release, nowhere):
    def run(words):
        done = subprocess.run(
            [release("kubectl-cleave"), *words], capture_output=True, text=True, timeout=60, env={"KUBECONFIG": str(nowhere), "PATH": "/usr/bin:/bin"}
        )
        return done.returncode, done.stdout + done.stderr

    return run


@pytest.mark.parametrize(
    "words",
    [
        "--context east doctor",
        "-o json --context=east doctor",
        "-o=json doctor",
        "--context east --node n1",
        "-n ml why train",
        "why pod/train",
        "why ml/train -n ml",
        "why train --request-timeout=5",
        "why train --request-timeout 1m30s",
        "--context east --request-timeout 0 history node/n1",
        "history --node n1",
        "top --node n1",
        "-A --context east",
        "doctor -A --context east",
    ],
)
def test_what_kubectls_users_write_is_understood(said, words):
    words = words.split()
    code, text = said(words if "--context" in words or "--context=east" in words else [*words, "--context", "east"])
    assert (code, text.startswith("Unable to connect to the server: ")) == (1, True), text


@pytest.mark.parametrize(
    "words, complaint",
    [
        ("history n1 -w", "unknown flag -w"),
        ("-w history n1", "unknown flag -w"),
        ("why train -q", "unknown flag -q"),
        ("why train --output", "--output needs a value"),
        ("why train -o=jsno", 'output format "jsno"'),
        ("--node a --node b", "--node can be given once only"),
        ("plan -f a -f b", "--filename can be given once only"),
        ("top --node a b", "--node and b name two nodes"),
        ("plan x.yaml", 'unexpected argument "x.yaml": did you mean -f x.yaml?'),
        ("why", "must specify the pod's name"),
        ("why a/b/c", '"a/b/c" names no pod: it is NAME, pod/NAME or NAMESPACE/NAME'),
        ("why ml/train -n other", "ml/train is in another namespace than -n says, other"),
        ("history pod/x", '"pod/x" names no node: it is NAME or node/NAME'),
        ("--node=", '"" names no node'),
        ("--request-timeout 5x", "--request-timeout: "),
        ("--context east odd", 'unknown command "odd" for "kubectl cleave"'),
        ("help odd", 'unknown command "odd" for "kubectl cleave"'),
    ],
)
def test_a_wrong_word_is_the_one_that_is_named(said, words, complaint):
    code, text = said(words.split())
    assert code == 1 and text.startswith("error: ") and complaint in text, text


def test_help_and_version_are_found_where_people_look(said):
    assert said(["--version"]) == said(["version"]) and said(["version"])[1].startswith("kubectl-cleave ")
    assert said(["help"]) == said(["--help"]) == said(["-h"])
    assert said(["help", "why"]) == said(["why", "--help"])
    assert said(["--context", "east", "why", "-h"])[1].startswith("usage: kubectl cleave why POD")


def test_the_flags_of_the_help_are_those_that_complete(said):
    for verb in ([], ["doctor"], ["history"], ["plan"], ["top"], ["why"]):
        flags = re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", said([*verb, "--help"])[1], re.MULTILINE)
        assert sorted(said(["__complete", *verb, "--"])[1].split()) == sorted([*flags, ":4"])


def test_a_cluster_that_is_not_there_completes_no_names_and_no_complaint(said):
    for words in (["history", ""], ["why", "-n", "ml", ""], ["why", "-n", ""], ["top", "--context", "odd", ""], ["--node", ""]):
        assert said(["__complete", *words]) == (0, ":4\n")


def test_contexts_are_those_of_the_kubeconfig(said, nowhere):
    assert said(["__complete", "doctor", "--context", ""]) == (0, "east\n:4\n")
    assert said(["__complete", "--context", "w"]) == (0, ":4\n")
    other = nowhere.with_name("other")
    other.write_text(nowhere.read_text().replace('"east"', '"west"'))
    assert said(["__complete", "--kubeconfig", str(other), "--context", "w"]) == (0, "west\n:4\n")
