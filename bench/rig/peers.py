"""Gateways of others, as their own documentation has them started, in environments of their own.

They are installed from the pins in ``bench/peers`` when they are first asked for. Their logs are turned down as far as
they let one, since what is logged for each call is a cost that they need not have.
"""

from __future__ import annotations

import json
import re
import shlex
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rig.gateways import SERVER, Gateway, Way
from rig.loads.words import REVISIONS
from tests.peers.environments import node, node_modules, python

if TYPE_CHECKING:
    from rig.gateways import Cell, Place

_FASTMCP_MODES = {"legacy": "legacy", "modern": REVISIONS["modern"]}
PINS = Path(__file__).resolve().parents[1] / "peers"


class _Peer(Gateway):
    """One of them, with the ways that it is made for."""

    ways: frozenset[Way]

    def refusal(self, cell: Cell) -> str:
        return "" if cell.way in self.ways else "is not made for this way"


class _PythonPeer(_Peer):
    package: str

    @cached_property
    def _python(self) -> Path:
        return python(f"bench-{self.package}", self._pins)

    @property
    def _pins(self) -> Path:
        return PINS / f"py-{self.package}.txt"

    def install(self) -> None:
        _ = self._python

    def version(self) -> str:
        found = re.search(rf"^{re.escape(self.package)}==(\S+)$", self._pins.read_text(encoding="utf-8"), re.MULTILINE)
        assert found is not None
        return found[1]


class FastMCP(_PythonPeer):
    """FastMCP's proxy of a configuration in mcpx's shape; tools of a single server keep their names.

    By itself it speaks to the upstream what its host does; for another era it is told which.
    """

    name = "FastMCP"
    package = "fastmcp"
    ways = frozenset({Way("stdio", "stdio"), Way("http", "stdio"), Way("stdio", "http"), Way("http", "http")})

    def command(self, cell: Cell, place: Place) -> list[str]:
        program, *arguments = place.upstream
        by_pipes = {"command": program, "args": arguments}
        server = by_pipes if cell.way.upstream == "stdio" else {"url": place.url, "transport": "http"}
        config = json.dumps({"mcpServers": {SERVER: server}})
        mode = _FASTMCP_MODES[cell.eras.upstream] if cell.eras.crossed else "-"
        run = [str(self._python), str(PINS / "fastmcp_proxy.py"), config, mode]
        return run if cell.way.host == "stdio" else [*run, str(place.port)]


class PyMcpProxy(_PythonPeer):
    """mcp-proxy, the one that is written in Python."""

    name = "mcp-proxy (Python)"
    package = "mcp-proxy"
    ways = frozenset({Way("http", "stdio"), Way("stdio", "http")})

    def command(self, cell: Cell, place: Place) -> list[str]:
        run = [str(self._python.with_name("mcp-proxy")), "--log-level", "CRITICAL"]
        if cell.way.host == "stdio":
            return [*run, "--transport", "streamablehttp", place.url]
        return [*run, "--host", "127.0.0.1", "--port", str(place.port), "--", *place.upstream]


class _NodePeer(_Peer):
    package: str

    @cached_property
    def _modules(self) -> Path:
        return node_modules("bench-npm", PINS)

    def install(self) -> None:
        _ = self._modules

    def version(self) -> str:
        return json.loads((PINS / "package.json").read_text(encoding="utf-8"))["dependencies"][self.package]

    def _run(self, script: str) -> list[str]:
        return [str(node()), str(self._modules / self.package / script)]


class NodeMcpProxy(_NodePeer):
    """mcp-proxy, the one that is written for Node. What its upstream speaks must be told."""

    name = "mcp-proxy (Node)"
    package = "mcp-proxy"
    ways = frozenset({Way("http", "stdio")})

    def command(self, cell: Cell, place: Place) -> list[str]:
        serve = ["--server", "stream", "--host", "127.0.0.1", "--port", str(place.port)]
        run = [*self._run("dist/bin/mcp-proxy.mjs"), *serve, "--upstreamProtocol", cell.eras.upstream]
        return [*run, "--", *place.upstream]


class Supergateway(_NodePeer):
    """supergateway. Stateful, as without it each request gets a process of its own."""

    name = "supergateway"
    package = "supergateway"
    ways = frozenset({Way("http", "stdio"), Way("stdio", "http")})

    def command(self, cell: Cell, place: Place) -> list[str]:
        run = [*self._run("dist/index.js"), "--logLevel", "none"]
        if cell.way.host == "stdio":
            return [*run, "--streamableHttp", place.url]
        serve = ["--outputTransport", "streamableHttp", "--stateful", "--port", str(place.port)]
        return [*run, "--stdio", shlex.join(place.upstream), *serve]
