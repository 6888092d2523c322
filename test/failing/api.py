# SPDX-License-Identifier: Apache-2.0
"""As much of an API server as the path "kube" needs (paths.c): every run has one of its own, below
a prefix of the URL, so that one process serves them all."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

WATCH_S = 60


class World:
    """The objects of one run, by path, and what happened to them."""

    def __init__(self):
        self.changed = threading.Condition()
        self.version = 1
        self.objects = {}
        self.events = []  # (version, collection, type, object)

    def put(self, path, obj, kind):
        with self.changed:
            self.version += 1
            obj["metadata"]["resourceVersion"] = str(self.version)
            obj["metadata"].setdefault("uid", f"uid-{self.version}")
            self.objects[path] = obj
            self.events.append((self.version, path.rsplit("/", 1)[0], kind, obj))
            self.changed.notify_all()
            return obj


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def answer(self, status, obj):
        body = json.dumps(obj).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, reason):
        self.answer(status, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason})

    def where(self):
        """The run's world, the path of collection or object, the query."""
        parts = urlsplit(self.path)
        prefix, path = parts.path[1:].split("/", 1)
        with self.server.mu:
            world = self.server.worlds.setdefault(prefix, World())
        return world, path, {k: v[0] for k, v in parse_qs(parts.query).items()}

    def body(self):
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")

    def do_GET(self):
        world, path, query = self.where()
        if "watch" in query:
            self.watch(world, path, query)
        elif path.endswith("/devices"):
            with world.changed:
                items = [o for p, o in world.objects.items() if p.startswith(path + "/")]
                version = str(world.version)
            self.answer(200, {"kind": "DeviceList", "metadata": {"resourceVersion": version}, "items": items})
        elif path in world.objects:
            self.answer(200, world.objects[path])
        else:
            self.refuse(404, "NotFound")

    def chunk(self, kind, obj):
        line = json.dumps({"type": kind, "object": obj}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.flush()

    def watch(self, world, path, query):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        seen = int(query.get("resourceVersion") or 0)
        if query.get("sendInitialEvents") == "true":
            with world.changed:
                items = [o for p, o in world.objects.items() if p.startswith(path + "/")]
                seen = world.version
            for obj in items:
                self.chunk("ADDED", obj)
            about = {"resourceVersion": str(seen), "annotations": {"k8s.io/initial-events-end": "true"}}
            self.chunk("BOOKMARK", {"kind": "Device", "apiVersion": "gpu.cleave.dev/v1alpha1", "metadata": about})
        while True:
            with world.changed:
                if not world.changed.wait_for(lambda: world.version > seen, WATCH_S):
                    break
                news = [e for e in world.events if e[0] > seen and e[1] == path]
                seen = world.version
            for _, _, kind, obj in news:
                self.chunk(kind, obj)
        self.wfile.write(b"0\r\n\r\n")

    def do_POST(self):
        world, path, _ = self.where()
        obj = self.body()
        path = f"{path}/{obj['metadata']['name']}"
        if path in world.objects:
            self.refuse(409, "AlreadyExists")
        else:
            self.answer(201, world.put(path, obj, "ADDED"))

    def do_PUT(self):
        world, path, _ = self.where()
        path = path.removesuffix("/status")
        obj = self.body()
        held = world.objects.get(path)
        if not held:
            self.refuse(404, "NotFound")
        elif obj["metadata"].get("resourceVersion") not in (None, held["metadata"]["resourceVersion"]):
            self.refuse(409, "Conflict")
        else:
            self.answer(200, world.put(path, obj, "MODIFIED"))


class Api(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.mu = threading.Lock()
        self.worlds = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a client that went away is what is tried here

    def url(self, prefix):
        return f"http://127.0.0.1:{self.server_address[1]}/{prefix}"
