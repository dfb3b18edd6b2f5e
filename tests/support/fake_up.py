"""A scripted MCP server of any revision: the standard library alone, so that it starts in a few hundredths of a second.

    python -S -E fake_up.py SCRIPT.json

The script is one JSON object; ``Scripted`` in ``scripted.py`` writes it. Its keys:

``legacy``, ``modern``     the revisions it speaks, newest first
``info``, ``capabilities``, ``instructions``
``tools``, ``prompts``, ``resources``, ``templates``   the items of its lists, as they go on the wire
``pageSize``, ``cursors``  how lists are cut: ``offset``, ``empty`` (page two's is ``""``), ``cycle``, ``endless``
``on``                     steps per method, instead of the default answer
``calls``, ``gets``, ``reads``, ``completes``   steps per tool, prompt, URI and argument name
``onStart``, ``onEof``     steps before anything is read, and once stdin has ended (default: exit)
``onInitialized``          steps once the handshake is over
``starts``                 overrides of the script for the first, second, ... start; the last one stays
``acknowledges``           what listen streams may ask for, as a filter; without it everything
``lock``                   once ``server/discover`` was answered, ``initialize`` is refused
``ignoreCancelled``        a cancelled request is answered all the same
``signals``                steps per name of a signal that is caught; an empty list ignores it
``crlf``, ``spell``        how it writes: lines ending in CRLF; ids as ``string`` or ``float``
``record``                 a socket, or a file, to which it writes what it sees and does
``count``                  a file in which it counts its starts

Steps are a list of one-key objects, see ``fake_steps.py``. A request whose steps end without an answer never gets
one. Over the socket the test may send ``{"release": NAME}``, ``{"do": STEPS}`` and ``{"set": {KEY: VALUE}}`` at any
time.
"""

from __future__ import annotations

import heapq
import json
import os
import select
import signal
import socket
import stat
import sys
import time

from fake_steps import LEVELS, META, STEPS  # beside this script, which runs without site packages

CUT = 256 * 1024  # a longer line is recorded by its head and its size
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
NOT_FOUND_LEGACY, UNSUPPORTED = -32002, -32022
LISTS = {  # method -> (key of the script, member of the result)
    "tools/list": ("tools", "tools"),
    "prompts/list": ("prompts", "prompts"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("templates", "resourceTemplates"),
}
CACHEABLE = {*LISTS, "resources/read", "server/discover"}
LEGACY_ONLY = {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
MODERN_ONLY = {"server/discover", "subscriptions/listen"}
NAMED = {  # method -> (key of the script with steps, where the name stands in the params)
    "tools/call": ("calls", lambda params: params.get("name")),
    "prompts/get": ("gets", lambda params: params.get("name")),
    "resources/read": ("reads", lambda params: params.get("uri")),
    "completion/complete": ("completes", lambda params: params.get("argument", {}).get("name")),
}


SPELLINGS = {"number": json.dumps, "string": lambda ident: json.dumps(str(ident)), "float": "{}.0".format}


class RefusedError(Exception):
    """A request gets an error."""

    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.error = {"code": code, "message": message, **({} if data is None else {"data": data})}


class Request:
    """One request that was received, and whether it was answered."""

    def __init__(self, frame, modern):
        self.id = frame.get("id")
        self.method = frame["method"]
        self.params = frame.get("params") or {}
        self.modern = modern
        self.token = (self.params.get("_meta") or {}).get("progressToken")
        self.filter = {}  # of a listen stream: what it is told of
        self.cancelled = False
        self.progress = 0


class Record:
    """Where the test learns what the server saw and did; the socket also carries the test's orders."""

    def __init__(self, target):
        self.socket = self.file = None
        self.buffer = b""
        if target and stat.S_ISSOCK(os.stat(target).st_mode if os.path.exists(target) else 0):  # noqa: PTH110, PTH116
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(target)  # before anything else, so that the test can steer from the start
        elif target:
            self.file = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, kind, value):
        line = json.dumps({"at": time.monotonic(), "pid": os.getpid(), "kind": kind, "value": value}).encode() + b"\n"
        if self.socket is not None:
            try:
                self.socket.sendall(line)
            except OSError:  # the test has gone; the server goes on
                self.socket = None
        elif self.file is not None:
            os.write(self.file, line)

    def line(self, kind, data):
        self.write(kind, {"text": data[:CUT].decode("utf-8", "surrogateescape"), "size": len(data)})

    def orders(self):
        data = self.socket.recv(65536)
        if not data:
            self.socket = None
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        return [json.loads(line) for line in lines]


class Fake:
    """The server: one loop over stdin, the orders of the test, and what is due."""

    def __init__(self, script):
        self.start = count_start(script)
        starts = script.get("starts") or [{}]
        self.script = {**script, **starts[min(self.start, len(starts) - 1)]}
        self.record = Record(self.script.get("record"))
        self.due = []  # heap of (when, order, steps that go on, their request)
        self.order = 0
        self.held = {}  # name -> what waits for its release
        self.released = set()
        self.next_id = 0
        self.answers = {}  # to requests of the server's own: id -> result, or error
        self.requests = {}  # id as JSON -> Request in flight
        self.listening = {}  # id as JSON -> Request of a listen stream, with the filter that was agreed to
        self.subscribed = set()  # URIs that a legacy client subscribed to
        self.used = {}  # (kind, name) -> how often it was asked for
        self.discovered = False
        self.ready = False  # whether stdin is read
        self.level = None  # that a legacy client has set for log messages
        self.corked = None  # what is held back, to be written at once
        self.spell = self.script.get("spell", "number")

    # -- the loop

    def run(self):
        self.wake = os.pipe()
        for end in self.wake:
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self.wake[1])  # a signal ends the select below
        for name in self.script.get("signals", {}):
            signal.signal(getattr(signal, name), self.signalled)
        self.record.write(
            "start",
            {
                "start": self.start,
                "group": os.getpgid(0),
                "session": os.getsid(0),
                "env": dict(os.environ),
                "cwd": os.getcwd(),  # noqa: PTH109
                "argv": sys.argv,
            },
        )
        self.begin(self.open(), None)
        buffer, reading = bytearray(), True
        while True:
            self.advance()
            wait = max(0.0, self.due[0][0] - time.monotonic()) if self.due else None
            sources = ([0] if reading and self.ready else []) + ([self.record.socket] if self.record.socket else [])
            readable, _, _ = select.select([*sources, self.wake[0]], [], [], wait)
            if self.wake[0] in readable:
                os.read(self.wake[0], 4096)
            if self.record.socket in readable:
                for order in self.record.orders():
                    self.obey(order)
            if 0 in readable:
                data = os.read(0, 1 << 20)
                if not data:
                    reading = False
                    self.record.write("eof", bytes(buffer).decode("utf-8", "replace"))
                    self.begin(self.steps(self.script.get("onEof", [{"exit": 0}]), None), None)
                    continue
                seen = len(buffer)
                buffer += data
                while (end := buffer.find(b"\n", seen)) >= 0:
                    line = bytes(buffer[:end])
                    del buffer[: end + 1]
                    seen = 0
                    self.receive(line)

    def signalled(self, number, _):
        name = signal.Signals(number).name
        self.record.write("signal", name)
        self.begin(self.steps(self.script["signals"][name], None), None)

    def open(self):
        """The steps of the start; nothing is read until they are done."""
        yield from self.steps(self.script.get("onStart", []), None)
        self.ready = True

    def begin(self, steps, request):
        self.order += 1
        heapq.heappush(self.due, (time.monotonic(), self.order, steps, request))

    def advance(self):
        while self.due and self.due[0][0] <= time.monotonic():
            _, order, steps, request = heapq.heappop(self.due)
            if request is not None and request.cancelled and not self.script.get("ignoreCancelled"):
                continue
            try:
                wait = next(steps)
            except StopIteration:
                continue
            except RefusedError as refused:
                self.reply(request, "error", json.dumps(refused.error))
                continue
            if isinstance(wait, str):
                self.held.setdefault(wait, []).append((order, steps, request))
            else:
                heapq.heappush(self.due, (time.monotonic() + wait, order, steps, request))

    def obey(self, order):
        if "release" in order:
            name = order["release"]
            self.released.add(name)
            for number, steps, request in self.held.pop(name, []):
                heapq.heappush(self.due, (time.monotonic(), number, steps, request))
        self.script.update(order.get("set", {}))
        if "do" in order:
            self.begin(self.steps(order["do"], None), None)

    # -- what comes in

    def receive(self, line):
        self.record.line("in", line)
        try:
            frame = json.loads(line)
        except ValueError:
            self.write('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}')
            return
        if "method" not in frame:
            self.answers[frame.get("id")] = frame.get("result", frame.get("error"))
            self.obey({"release": f"answer {frame.get('id')}"})
        elif "id" not in frame:
            self.notified(frame)
        else:
            request = Request(frame, self.is_modern(frame))
            self.requests[json.dumps(request.id)] = request
            self.begin(self.serve(request), request)

    def is_modern(self, frame):
        meta = (frame.get("params") or {}).get("_meta") or {}
        return bool(self.script.get("modern")) and META + "protocolVersion" in meta

    def notified(self, frame):
        if frame["method"] == "notifications/cancelled":
            key = json.dumps((frame.get("params") or {}).get("requestId"))
            self.listening.pop(key, None)
            if key in self.requests:
                self.requests[key].cancelled = True
        elif frame["method"] == "notifications/initialized":
            self.begin(self.steps(self.script.get("onInitialized", []), None), None)

    def serve(self, request):
        key, named = NAMED.get(request.method, ("on", lambda _: request.method))
        name = named(request.params)
        steps = self.script.get("on", {}).get(request.method)
        if steps is None:
            steps = self.script.get(key, {}).get(name, [{"answer": True}])
        used = self.used[key, name] = self.used.get((key, name), 0) + 1
        if isinstance(steps, dict):  # {"times": [first, second, ...]}; the last one stays
            steps = steps["times"][min(used, len(steps["times"])) - 1]
        return self.steps(steps, request)

    # -- default answers

    def answer(self, request):
        modern, legacy = self.script.get("modern", []), self.script.get("legacy", [])
        if request.modern:
            meta = request.params["_meta"]
            if not isinstance(meta.get(META + "clientCapabilities"), dict):
                raise RefusedError(INVALID_PARAMS, "The metadata of the request is incomplete")
            if meta[META + "protocolVersion"] not in modern:
                data = {"supported": modern + legacy, "requested": meta[META + "protocolVersion"]}
                raise RefusedError(UNSUPPORTED, "Unsupported protocol version", data)
        elif request.method != "initialize" and not legacy:
            raise RefusedError(INVALID_PARAMS, "The metadata of the request is missing")
        handler = DEFAULTS.get(request.method)
        if handler is None or request.method in (LEGACY_ONLY if request.modern else MODERN_ONLY):
            raise RefusedError(METHOD_NOT_FOUND, f"Method not found: {request.method}")
        return handler(self, request)

    def initialize(self, request):
        modern, legacy = self.script.get("modern", []), self.script.get("legacy", [])
        requested = request.params.get("protocolVersion")
        data = {"supported": modern, "requested": requested}
        if not legacy or (self.script.get("lock") and self.discovered):
            raise RefusedError(UNSUPPORTED, "Unsupported protocol version", data)
        result = {
            "protocolVersion": requested if requested in legacy else legacy[0],
            "capabilities": self.script["capabilities"],
            "serverInfo": self.script["info"],
        }
        return {**result, **({"instructions": self.script["instructions"]} if "instructions" in self.script else {})}

    def discover(self, request):
        self.discovered = True
        modern, legacy = self.script["modern"], self.script.get("legacy", [])
        result = {"supportedVersions": modern + legacy, "capabilities": self.script["capabilities"]}
        return {**result, **({"instructions": self.script["instructions"]} if "instructions" in self.script else {})}

    def list(self, request):
        key, member = LISTS[request.method]
        items = self.script.get(key, [])
        size = self.script.get("pageSize") or max(len(items), 1)
        mode = self.script.get("cursors", "offset")
        cursor = request.params.get("cursor")
        try:
            start = 0 if cursor is None else size if cursor == "" and mode == "empty" else int(cursor)
        except ValueError:
            raise RefusedError(INVALID_PARAMS, f"Invalid cursor: {cursor}") from None
        if mode == "endless":
            name = "uri" if key == "resources" else "uriTemplate" if key == "templates" else "name"
            page = [{**item, name: f"{item[name]}{start}"} for item in items[:size]]
            return {member: page, "nextCursor": str(start + size)}
        page, end = items[start : start + size], start + size
        if end < len(items):
            return {member: page, "nextCursor": "" if mode == "empty" and start == 0 else str(end)}
        return {member: page, **({"nextCursor": str(size)} if mode == "cycle" else {})}

    def call(self, request):
        name = request.params.get("name")
        if all(tool["name"] != name for tool in self.script.get("tools", [])):
            raise RefusedError(INVALID_PARAMS, f"Unknown tool: {name}")
        text = json.dumps(request.params.get("arguments"))
        return {"content": [{"type": "text", "text": f"{name} {text}"}]}

    def get(self, request):
        name = request.params.get("name")
        if all(prompt["name"] != name for prompt in self.script.get("prompts", [])):
            raise RefusedError(INVALID_PARAMS, f"Unknown prompt: {name}")
        text = f"{name} {json.dumps(request.params.get('arguments'))}"
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}

    def read(self, request):
        uri = request.params.get("uri", "")
        heads = [template["uriTemplate"].split("{")[0] for template in self.script.get("templates", [])]
        known = {resource["uri"] for resource in self.script.get("resources", [])}
        if uri not in known and not any(uri.startswith(head) for head in heads):
            code = INVALID_PARAMS if request.modern else NOT_FOUND_LEGACY
            raise RefusedError(code, "Resource not found", {"uri": uri})
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": f"content of {uri}"}]}

    def complete(self, request):
        value = request.params["argument"]["value"]
        return {"completion": {"values": [value + "1", value + "2"], "total": 2, "hasMore": False}}

    def listen(self, request):
        self.listening[json.dumps(request.id)] = request
        asked, granted = request.params["notifications"], self.script.get("acknowledges")
        request.filter = asked if granted is None else {name: asked[name] for name in granted if name in asked}
        if "resourceSubscriptions" in (granted or {}) and "resourceSubscriptions" in request.filter:
            uris = request.filter["resourceSubscriptions"]
            request.filter["resourceSubscriptions"] = [uri for uri in uris if uri in granted["resourceSubscriptions"]]
        params = {"notifications": request.filter, "_meta": {META + "subscriptionId": request.id}}
        self.notify("notifications/subscriptions/acknowledged", params)

    def set_level(self, request):
        if request.params.get("level") not in LEVELS:
            raise RefusedError(INVALID_PARAMS, "Unknown log level")
        self.level = request.params["level"]
        return {}

    def subscribe(self, request):
        self.subscribed.add(request.params["uri"])
        return {}

    def unsubscribe(self, request):
        self.subscribed.discard(request.params["uri"])
        return {}

    # -- what goes out

    def write(self, text):
        data = text.encode("utf-8", "surrogatepass")
        self.record.line("out", data)
        self.write_bytes(data + (b"\r\n" if self.script.get("crlf") else b"\n"))

    def write_bytes(self, data, descriptor=1):
        if self.corked is not None and descriptor == 1:
            self.corked += data
            return
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]

    def notify(self, method, params=None):
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}))

    def reply(self, request, member, text):
        spelt = {"number": json.dumps, "string": lambda id: json.dumps(str(id)), "float": "{}.0".format}[self.spell](
            request.id
        )
        self.requests.pop(json.dumps(request.id), None)
        self.write(f'{{"jsonrpc":"2.0","id":{spelt},"{member}":{text}}}')

    def result(self, request, value):
        """Answer with a result, with what its era asks of every result."""
        if request.modern:
            meta = {META + "serverInfo": self.script["info"], **value.get("_meta", {})}
            cache = {"ttlMs": 0, "cacheScope": "private"} if request.method in CACHEABLE else {}
            value = {"resultType": "complete", **cache, **value, "_meta": meta}
        self.reply(request, "result", json.dumps(value))

    # -- steps

    def steps(self, steps, request):
        """Go through steps; yields seconds to wait, or the name of what to wait for."""
        for step in steps:
            ((kind, value),) = step.items()
            yield from STEPS[kind](self, request, value) or ()


DEFAULTS = {
    "initialize": Fake.initialize,
    "server/discover": Fake.discover,
    "ping": lambda fake, request: {},
    "logging/setLevel": Fake.set_level,
    "resources/subscribe": Fake.subscribe,
    "resources/unsubscribe": Fake.unsubscribe,
    "subscriptions/listen": Fake.listen,
    "tools/call": Fake.call,
    "prompts/get": Fake.get,
    "resources/read": Fake.read,
    "completion/complete": Fake.complete,
    **dict.fromkeys(LISTS, Fake.list),
}


def count_start(script):
    """Which start this is, from zero: the size of a file that grows by a byte at each."""
    if not script.get("count"):
        return 0
    descriptor = os.open(script["count"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    before = os.fstat(descriptor).st_size
    os.write(descriptor, b".")
    os.close(descriptor)
    return before


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123
        Fake(json.load(file)).run()
