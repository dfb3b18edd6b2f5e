"""A minimal MCP server for frames of many megabytes, which it reads and writes at full speed.

    python -S -E bulk.py legacy|modern stdio
    python -S -E bulk.py legacy|modern http|events

Its tool ``give`` has a text of so many bytes for a result; ``take`` is given one and tells how long it was. By HTTP it
says its port as its first line, and ends when its stdin does; with ``events`` a result is a stream of one event.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from answers import Answers  # beside this script
from filling import filling

SCHEMA = {"type": "object"}
TOOLS = [{"name": name, "inputSchema": SCHEMA} for name in ("give", "take")]


class Bulk(Answers):
    """The minimal server with two more tools."""

    def __init__(self, era: str) -> None:
        super().__init__(era, 2)
        self._tools += TOOLS

    def _call(self, id: str, params: dict[str, Any]) -> bytes:
        if params["name"] == "give":
            text = filling(params["arguments"]["bytes"])
        elif params["name"] == "take":
            text = str(len(params["arguments"]["text"]))
        else:
            return super()._call(id, params)
        return f'{{"jsonrpc":"2.0","id":{id}{self._before}{json.dumps(text)}{self._behind}'.encode()


def serve_pipes(server: Bulk) -> None:
    for line in sys.stdin.buffer:
        if (answer := server.answer(line)) is not None:
            sys.stdout.buffer.write(answer)
            sys.stdout.buffer.flush()


def serve_http(server: Bulk, *, events: bool) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            answer = server.answer(self.rfile.read(int(self.headers["Content-Length"])))
            if answer is None:
                self._say(202, "", b"")
            elif events:
                self._say(200, "text/event-stream", b"event: message\ndata: %b\n" % answer)
            else:
                self._say(200, "application/json", answer)

        def do_GET(self) -> None:
            self._say(405, "", b"")

        def do_DELETE(self) -> None:
            self._say(405, "", b"")

        def _say(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            if kind:
                self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing of each request."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        print(http.server_address[1], flush=True)
        threading.Thread(target=http.serve_forever, daemon=True).start()
        sys.stdin.read()
        http.shutdown()


def main() -> None:
    era, way = sys.argv[1:]
    if way == "stdio":
        serve_pipes(Bulk(era))
    else:
        serve_http(Bulk(era), events=way == "events")


if __name__ == "__main__":
    main()
