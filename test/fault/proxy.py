# SPDX-License-Identifier: Apache-2.0
"""A proxy between our programs and the API server that does harm on order, and knows what it passes on.

    proxy = FaultProxy(cluster, kill)
    kubeconfig = proxy.kubeconfig(path, "controller")     the same credentials by way of the proxy
    proxy.order(Harm(by="controller", verb="patch", resource="devices", at="committed", do="kill"))
    proxy.trace                                           every request and every event of a watch so far

Each program has a port of its own, so who asks is known for certain. Towards the programs it speaks plain HTTP/1.1.
A harm strikes once, at the nth request or event that it fits. Leases are passed on unless a harm names them.
"""

import contextlib
import dataclasses
import http.client
import json
import select
import socket
import ssl
import struct
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOLD_S = 2  # a program that is blind may be what the next event waits for
LOOK_S = 0.1
WRITES = ("create", "update", "patch", "delete", "deletecollection")
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
STATUS = {
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclasses.dataclass
class Harm:
    """One thing that goes wrong.

    Which request: by whom, verb, resource, subresource, name; the nth of these. verb "event" is an event of a watch,
    "answer" of a list is verb "list".
    When: at "before" (it is not passed on), "committed" (the API server has done it, the program does not know yet),
    "answered" (it knows).
    What: do "kill", "stop" (for seconds), "reset", "drop", "delay" (seconds), "truncate", "blackhole" (seconds), "html",
    or a status code as text. Of events: "kill", "duplicate", "cut" (the stream ends), "gone" (ERROR 410), and "hold":
    no event passes until so many (`until`) were held back, or for HOLD_S; then the stream ends with 410, so that the
    program sees what has become of it all, and never how. "freeze": from here on the second API server serves the past;
    "travel" (killed) and "reconnect" (not killed): for seconds, the program reads from that one.
    """

    by: str
    verb: str
    resource: str
    subresource: str = ""
    name: str = ""
    nth: int = 1
    at: str = "before"
    do: str = "reset"
    seconds: float = 0
    until: int = 1
    seen: int = dataclasses.field(default=0, compare=False)
    withheld: int = dataclasses.field(default=0, compare=False)
    struck: bool = dataclasses.field(default=False, compare=False)

    def fits(self, request):
        return (
            self.by == request.by
            and self.verb == request.verb
            and self.resource == request.resource
            and self.subresource == request.subresource
            and self.name in ("", request.name)
        )

    def words(self):
        """As a plan file has it: without what is as always."""
        known = {f.name: f.default for f in dataclasses.fields(self) if f.compare}
        return {k: getattr(self, k) for k, default in known.items() if getattr(self, k) != default}


@dataclasses.dataclass
class Request:
    """A request, or an event of a watch (verb "event"; kind is its type then)."""

    by: str
    verb: str
    resource: str
    subresource: str
    name: str
    kind: str = ""
    code: int = 0
    version: str = ""
    at: float = 0

    def reads(self):
        return self.verb in ("get", "list", "watch")

    def key(self):
        return (self.by, self.verb, self.resource, self.subresource, self.name)


def parse(by, method, path):
    """What the API server would call it."""
    url = urllib.parse.urlparse(path)
    query = urllib.parse.parse_qs(url.query)
    parts = [p for p in url.path.split("/") if p]
    parts = parts[2:] if parts[:1] == ["api"] else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    resource, name, subresource = (*parts, "", "", "")[:3]
    verb = "dry-run" if "dryRun" in query else VERBS.get(method) or ("watch" if query.get("watch") else "get" if name else "list")
    if not name:  # one object, by field
        fields = dict(f.split("=", 1) for f in query.get("fieldSelector", [""])[0].split(",") if "=" in f)
        name = fields.get("metadata.name", "")
    return Request(by, verb, resource, subresource, name, at=time.time())


def refusal(code):
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": STATUS[code], "code": code, "message": "ordered by a test"}
    if code == 504:
        status["details"] = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]}
    return json.dumps(status).encode()


class Gone(Exception):
    """The connection to the program is to be closed now."""


class FaultProxy:
    def __init__(self, cluster, kill, stop, past):
        """kill(by) ends that program as a crash does, and sees to its start; stop(by, seconds) stops and continues it;
        past (a world.Past) has the second API server."""
        self.upstream = self.where(cluster.server)
        self.tls = ssl.create_default_context(cafile=str(cluster.rundir / "certs" / "apiserver.crt"))
        self.server_url = cluster.server
        self.kill, self.stop_for, self.past = kill, stop, past
        self.reads = {}  # by: where its reads go instead
        self.lock = threading.RLock()
        self.trace, self.harms = [], []
        self.silent = 0  # requests that are being swallowed
        self.servers, self.sockets = {}, []
        self.clients = set()  # connections of the programs, idle ones too
        self.ended = threading.Event()

    @staticmethod
    def where(url):
        parsed = urllib.parse.urlparse(url)
        return parsed.hostname, parsed.port

    # --- for tests ---

    def port(self, by):
        if by not in self.servers:
            server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler(by))
            server.daemon_threads = True
            self.servers[by] = server
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return self.servers[by].server_port

    def kubeconfig(self, path, by):
        made = path.with_name(f"{by}-{path.name}")
        text = path.read_text()
        assert self.server_url in text
        made.write_text(text.replace(self.server_url, f"http://127.0.0.1:{self.port(by)}"))
        return made

    def order(self, *harms):
        with self.lock:
            self.trace.clear()
            self.harms = list(harms)

    def pending(self):
        return [h for h in self.harms if not h.struck]

    def cut(self, by=None):
        """Ends the connections to the API server, of one program or of all."""
        self.shut(lambda request: by in (None, request.by))

    def cut_reads(self, by):
        """Of one program. Of a write that is cut on its way the audit log may say that it failed, and etcd has it all the same."""
        self.shut(lambda request: request.by == by and request.reads())

    def shut(self, chosen):
        with self.lock:
            for request, sock in self.sockets:
                if chosen(request):
                    self.hang_up(sock)

    @staticmethod
    def hang_up(sock):
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    def end(self):
        """The programs may run on: their connections end, and with them the threads that serve these."""
        self.ended.set()
        for server in self.servers.values():
            server.shutdown()
        self.cut()
        with self.lock:
            for client in self.clients:
                self.hang_up(client)
        for server in self.servers.values():
            server.server_close()

    # --- harm ---

    def note(self, request):
        with self.lock:
            self.trace.append(request)

    def strike(self, request, at):
        """The harm that is due here, once."""
        with self.lock:
            due = []
            for harm in self.harms:
                if harm.at != at or harm.struck or not harm.fits(request):
                    continue
                harm.seen += 1
                if harm.seen == harm.nth:
                    due.append(harm)
            if due:
                due[0].struck = due[0].do != "hold"
            return due[0] if due else None

    def harmed(self, harm, request, client):
        """Does it, at the place it was asked for. Returns the answer to give instead, or None."""
        if harm.do == "kill":
            self.kill(request.by)
            raise Gone
        if harm.do == "stop":
            self.stop_for(request.by, harm.seconds)
            return None
        if harm.do == "freeze":
            self.past.freeze()
            return None
        if harm.do in ("travel", "reconnect"):
            self.past.travel(request.by, harm)
            raise Gone
        if harm.do == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raise Gone
        if harm.do == "drop":
            raise Gone
        if harm.do == "delay":
            self.ended.wait(harm.seconds)
            return None
        if harm.do == "blackhole":
            self.swallow(client, harm.seconds)
            raise Gone
        if harm.do == "html":
            return 200, {"Content-Type": "text/html"}, b"<html><body>Please sign in</body></html>"
        code = int(harm.do)
        headers = {"Content-Type": "application/json", **({"Retry-After": "1"} if code in (429, 503) else {})}
        return code, headers, refusal(code)

    def swallow(self, client, seconds):
        """Until the program gives up and hangs up."""
        end = time.monotonic() + seconds
        heard = select.poll()
        heard.register(client, select.POLLIN)
        with self.lock:
            self.silent += 1
        try:
            while time.monotonic() < end and not self.ended.is_set():
                if heard.poll(LOOK_S * 1000) and not client.recv(1, socket.MSG_PEEK):
                    break
        finally:
            with self.lock:
                self.silent -= 1

    # --- passing on ---

    def connect(self, request):
        where = self.reads.get(request.by, self.upstream) if request.reads() else self.upstream
        connection = http.client.HTTPSConnection(*where, context=self.tls, timeout=600)
        connection.connect()
        with self.lock:
            self.sockets.append((request, connection.sock))
        return connection

    def handler(proxy, by):  # noqa: N805 - self is the request's
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle(self):
                with proxy.lock:
                    proxy.clients.add(self.connection)
                    if proxy.ended.is_set():
                        proxy.hang_up(self.connection)
                try:
                    with contextlib.suppress(OSError):
                        super().handle()
                finally:
                    with proxy.lock:
                        proxy.clients.remove(self.connection)

            def finish(self):
                with contextlib.suppress(OSError):
                    super().finish()

            def answer(self):
                try:
                    self.pass_on()
                except (OSError, http.client.HTTPException, Gone):
                    self.close_connection = True

            def pass_on(self):
                request = parse(by, self.command, self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.struck(request, "before"):
                    return
                upstream = proxy.connect(request)
                self.upstream = upstream.sock
                entry = (request, upstream.sock)
                try:
                    headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection", "accept-encoding", "content-length")}
                    upstream.request(self.command, self.path, body or None, headers)
                    answer = upstream.getresponse()
                    if request.verb == "watch" and answer.status == 200:
                        self.relay_events(request, answer)
                    else:
                        self.relay(request, answer)
                finally:
                    with proxy.lock:
                        proxy.sockets.remove(entry)
                    upstream.close()

            def struck(self, request, at):
                """Was it answered by a harm?"""
                harm = proxy.strike(request, at)
                if harm and harm.do != "truncate":
                    instead = proxy.harmed(harm, request, self.connection)
                    if instead:
                        self.send(*instead)
                        return True
                return False

            def send(self, code, headers, body, cut=None):
                self.send_response_only(code)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[:cut])

            def relay(self, request, answer):
                body = answer.read()
                request.code = answer.status
                with contextlib.suppress(ValueError):
                    said = json.loads(body)
                    request.version = said.get("metadata", {}).get("resourceVersion", "")
                    request.name = request.name or (said.get("metadata", {}).get("name", "") if request.verb == "create" else "")
                proxy.note(request)
                headers = {k: v for k, v in answer.getheaders() if k.lower() not in ("transfer-encoding", "connection", "content-length")}
                truncate = next((h for h in proxy.pending() if h.do == "truncate" and h.at == "committed" and h.fits(request)), None)
                if truncate and proxy.strike(request, "committed") is truncate:
                    self.send(answer.status, headers, body, cut=len(body) // 2)
                    raise Gone
                if self.struck(request, "committed"):
                    return
                self.send(answer.status, headers, body)
                self.struck(request, "answered")

            # --- events ---

            def relay_events(self, request, answer):
                self.send_response_only(200)
                self.send_header("Content-Type", answer.getheader("Content-Type", "application/json"))
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                holding = None
                while line := self.line_of(answer):
                    event = self.event_of(request, line)
                    if event:
                        proxy.note(event)
                        holding = holding or self.harm_event(event, line)
                    if holding:
                        holding.withheld += bool(event)
                        if holding.withheld >= holding.until:
                            break
                    else:
                        self.chunk(line)
                if holding:
                    holding.struck = True
                    self.gone()
                self.chunk(b"")

            def line_of(self, answer):
                """The next line; b"" at the end, and when the time is over for which events are held back."""
                try:
                    return answer.readline()
                except TimeoutError:
                    return b""

            def event_of(self, request, line):
                """None: a bookmark, which tells nothing."""
                try:
                    said = json.loads(line)
                except ValueError:
                    return None
                if said["type"] in ("BOOKMARK", "ERROR"):
                    return None
                meta = said["object"]["metadata"]
                return Request(by, "event", request.resource, "", meta["name"], said["type"], version=meta.get("resourceVersion", ""), at=time.time())

            def harm_event(self, event, line):
                """The harm that holds this event and the next ones back; None when it is to be passed on."""
                harm = proxy.strike(event, "before")
                if not harm:
                    return None
                if harm.do == "hold":
                    self.upstream.settimeout(HOLD_S)
                    return harm
                if harm.do == "duplicate":
                    self.chunk(line)
                elif harm.do == "gone":
                    self.gone()
                elif harm.do == "cut":
                    self.chunk(b"")
                    raise Gone
                else:
                    proxy.harmed(harm, event, self.connection)
                return None

            def gone(self):
                self.chunk(b'{"type":"ERROR","object":' + refusal(410) + b"}\n")
                self.chunk(b"")
                raise Gone

            def chunk(self, data):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *_):
                pass

        return Handler
