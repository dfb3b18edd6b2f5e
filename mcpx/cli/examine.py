"""Starting one server and looking at it: what ``mcpx check`` and ``mcpx discover`` both do."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import msgspec
import trio
from msgspec import Raw

from mcpx.cli.text import plain
from mcpx.errors import RpcError, UpstreamError
from mcpx.gateway import open_gateway
from mcpx.spec.lists import LISTINGS
from mcpx.spec.revisions import is_modern
from mcpx.upstream.call import Asker

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

    from mcpx.cli.log import Level
    from mcpx.settings import ServerSettings, Settings
    from mcpx.upstream.session import Session
    from mcpx.upstream.target import Builtins

PATIENCE = 3.0  # seconds without a word before it is said who is awaited
_UPSTREAM = "mcpx.upstream"  # the logger whose errors come back as exceptions, and would be told twice


class Finding(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What one server is like."""

    server: str
    era: str
    revision: str  # the one that mcpx uses with it
    revisions: tuple[str, ...]  # all that it says it speaks; a legacy server names one only
    server_info: dict[str, Any] = {}
    capabilities: dict[str, Any] = {}
    instructions: str | None = None
    counts: dict[str, int] = {}
    noise: int = 0  # lines on its stdout that were no messages

    @property
    def offers(self) -> str:
        """What it offers, counted."""
        counted = (f"{count} {kind if count != 1 else kind[:-1]}" for kind, count in self.counts.items() if count)
        return ", ".join(counted) or "nothing"

    @property
    def identity(self) -> str:
        """Name and version, as far as it gave them."""
        return " ".join(str(self.server_info[key]) for key in ("name", "version") if key in self.server_info)


def silent(level: Level) -> tuple[str, ...]:
    """The loggers that are not heard: whoever asks for more than warnings hears all of them."""
    return (_UPSTREAM,) if level in ("warning", "error") else ()


@asynccontextmanager
async def telling_who_is_awaited(awaited: Iterable[str], tell: Callable[[str], None]) -> AsyncGenerator[None]:
    """Tell, once, the names of the servers that are in ``awaited`` where the block takes longer than ``PATIENCE``."""

    async def watch() -> None:
        await trio.sleep(PATIENCE)
        tell(f"mcpx: still waiting for {plain(', '.join(awaited))}")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        yield
        nursery.cancel_scope.cancel()


async def examine(settings: Settings, server: ServerSettings, builtins: Builtins) -> Finding:
    """Start a server, see how it answers, count what it offers, and end it.

    Raises ``UpstreamError`` where it does not come up.
    """
    alone = msgspec.structs.replace(settings, servers=(server,))
    asker = Asker(host="the command line")
    async with open_gateway(alone, builtins=builtins) as gateway:
        [supervisor] = gateway.supervisors
        instance = await supervisor.lease(asker)
        try:
            assert instance.session is not None
            session = instance.session
            revisions = await _revisions(session, asker)
            counts: dict[str, int] = dict.fromkeys(LISTINGS, 0)
            for kind in LISTINGS:
                cursor: str | None = None
                while True:
                    page = await gateway.list(kind, asker, cursor)
                    counts[kind] += sum(len(part.items) for part in page.parts)
                    cursor = page.next_cursor
                    if cursor is None:
                        break
            return _finding(session, revisions, counts)
        finally:
            supervisor.release(instance)


async def _revisions(session: Session, asker: Asker) -> tuple[str, ...]:
    """The versions that a server names: a modern one all of them, a legacy one what it answered the handshake with."""
    if not is_modern(session.revision):
        return (session.revision,)
    try:
        payload: Any = msgspec.json.decode(await session.ask("server/discover", {}, asker))
    except (UpstreamError, RpcError):
        return (session.revision,)
    return tuple(version for version in payload.get("supportedVersions", ()) if isinstance(version, str))


def _finding(session: Session, revisions: tuple[str, ...], counts: dict[str, int]) -> Finding:
    identity = session.identity
    return Finding(
        server=session.server,
        era="modern" if is_modern(session.revision) else "legacy",
        revision=session.revision,
        revisions=revisions,
        server_info=_decoded(identity.server_info),
        capabilities={name: msgspec.json.decode(raw) for name, raw in identity.capabilities.items()},
        instructions=identity.instructions,
        counts=counts,
        noise=session.connection.noise_count,
    )


def _decoded(raw: Raw | None) -> dict[str, Any]:
    value: Any = {} if raw is None else msgspec.json.decode(raw)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
