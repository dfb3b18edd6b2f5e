"""The gateways that are compared: how each is started for each way, and what it says it cannot do.

Only ways are told here, as each gateway's own documentation has them. Which eras a peer can do is seen when it is
tried.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from rig.machine import versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rig.loads import Era

Transport = Literal["stdio", "http"]
RELAYS = Path(__file__).resolve().parent / "relays"
OURS, NO_GATEWAY = "mcpx", "none"
LIMITS = ("byte relay", "bare Trio relay")  # the second has to do what every gateway must
SERVER = "bench"  # the upstream's name in mcpx's configuration


class Way(NamedTuple):
    """How a host reaches the gateway, and how the gateway reaches the upstream."""

    host: Transport
    upstream: Transport

    def __str__(self) -> str:
        return f"{self.host}-{self.upstream}"


WAYS = [Way("stdio", "stdio"), Way("http", "stdio"), Way("stdio", "http"), Way("http", "http")]


class Eras(NamedTuple):
    """The era that the host speaks, and the one that the upstream does."""

    host: Era
    upstream: Era

    def __str__(self) -> str:
        return f"{self.host}-{self.upstream}"

    @property
    def crossed(self) -> bool:
        return self.host != self.upstream


ERAS = [Eras("legacy", "legacy"), Eras("modern", "modern"), Eras("legacy", "modern"), Eras("modern", "legacy")]


class Cell(NamedTuple):
    """What one gateway is asked to do."""

    way: Way
    eras: Eras

    def __str__(self) -> str:
        crossed = ", crossed" if self.eras.crossed else ""
        return f"{self.way.host} → {self.way.upstream}, {self.eras.host} host, {self.eras.upstream} upstream{crossed}"


@dataclass(frozen=True)
class Place:
    """Where it is to do it."""

    upstream: Sequence[str]  # the command of an upstream on stdio
    target: int  # the port of one by HTTP
    port: int  # where to serve hosts by HTTP
    folder: Path  # for files of its own

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.target}/mcp"


class Gateway(ABC):
    """One of them."""

    name: str
    prefix = ""  # before the upstream's names of tools

    def install(self) -> None:  # noqa: B027  # what is there need not be
        """Make sure that it is there, before anything is measured."""

    @abstractmethod
    def version(self) -> str:
        """Its version, or those of what it is made of; empty where nothing has one."""

    @abstractmethod
    def refusal(self, cell: Cell) -> str:
        """Why it is not even tried; empty where it is."""

    @abstractmethod
    def command(self, cell: Cell, place: Place) -> list[str]:
        """The command that starts it; an empty one where hosts go to an upstream by HTTP as they are."""


class Mcpx(Gateway):
    """As people have it: a configuration with a server in it, whose tools get its name for a prefix."""

    name = OURS
    prefix = f"{SERVER}__"

    def version(self) -> str:
        return versions("mcpx")["mcpx"]

    def refusal(self, cell: Cell) -> str:
        return ""

    def command(self, cell: Cell, place: Place) -> list[str]:
        program, *arguments = place.upstream
        by_pipes = {"command": program, "args": arguments}
        server = by_pipes if cell.way.upstream == "stdio" else {"url": place.url}
        config = place.folder / "mcpx.json"
        config.write_text(json.dumps({"mcpServers": {SERVER: server}}), encoding="utf-8")
        serve = [sys.executable, "-m", "mcpx", "serve", "--config", str(config)]
        return serve if cell.way.host == "stdio" else [*serve, "--http", f"127.0.0.1:{place.port}"]


class _Plain(Gateway):
    """What knows nothing of MCP: eras must be the same, and for most of them the transports."""

    def refusal(self, cell: Cell) -> str:
        return "knows nothing of eras" if cell.eras.crossed else ""


class NoGateway(_Plain):
    """The host and the upstream alone: the difference to it is what a gateway adds."""

    name = NO_GATEWAY

    def version(self) -> str:
        return ""

    def refusal(self, cell: Cell) -> str:
        apart = cell.way.host != cell.way.upstream
        return "host and upstream do not understand each other" if apart or cell.eras.crossed else ""

    def command(self, cell: Cell, place: Place) -> list[str]:
        return list(place.upstream) if cell.way.upstream == "stdio" else []


class ByteRelay(_Plain):
    """Copies bytes, in two threads."""

    name = LIMITS[0]

    def version(self) -> str:
        return ""

    def refusal(self, cell: Cell) -> str:
        return super().refusal(cell) or ("changes no transport" if cell.way.host != cell.way.upstream else "")

    def command(self, cell: Cell, place: Place) -> list[str]:
        script = [sys.executable, "-S", "-E", str(RELAYS / "copying.py")]
        if cell.way.host == "stdio":
            return [*script, "stdio", *place.upstream]
        return [*script, "tcp", str(place.port), str(place.target)]


class TrioRelay(_Plain):
    """Decodes envelopes, renumbers ids and encodes, on Trio; HTTP by h11."""

    name = LIMITS[1]

    def version(self) -> str:
        return ", ".join(f"{name} {version}" for name, version in versions("trio", "h11").items())

    def command(self, cell: Cell, place: Place) -> list[str]:
        if cell.way == Way("stdio", "stdio"):
            return [sys.executable, str(RELAYS / "bare_stdio.py"), *place.upstream]
        back = ["stdio", *place.upstream] if cell.way.upstream == "stdio" else ["http", str(place.target)]
        front = "-" if cell.way.host == "stdio" else str(place.port)
        return [sys.executable, str(RELAYS / "bare_http.py"), front, *back]
