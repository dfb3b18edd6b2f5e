"""``mcpx serve --socket`` as a process, and scripted hosts that connect to it."""

from __future__ import annotations

import signal
import tempfile
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import trio

from tests.support.fake_down import Host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.scripted import Scripted
    from tests.support.stage import Stage


class Served(NamedTuple):
    """A process that serves a socket. ``process`` is a host that says nothing: it has its log, signals and end."""

    process: Host
    path: Path

    async def stop(self) -> int:
        """End it as a person would; its exit status."""
        self.process.signal(signal.SIGTERM)
        return await self.process.wait()


@asynccontextmanager
async def serving(stage: Stage, *upstreams: Scripted, args: tuple[str, ...] = (), **how: Any) -> AsyncIterator[Served]:
    """Run ``mcpx serve --socket`` in front of these upstreams; see ``Stage.mcpx`` for what is checked afterwards.

    On leaving it is ended by SIGTERM, where it has not ended before, and its socket must be gone.
    """
    with tempfile.TemporaryDirectory(prefix="mcpx") as folder:  # the path of a socket must be short
        path = Path(folder) / "mcpx.sock"
        async with stage.mcpx(*upstreams, args=["--socket", str(path), *args], **how) as process:
            await process.logged("listening on")
            served = Served(process, path)
            yield served
            if process.process.returncode is None:
                await served.stop()
        assert process.received == []  # stdout is not used
        assert not list(Path(folder).iterdir())  # noqa: ASYNC240


@asynccontextmanager
async def connected(served: Served | Path) -> AsyncIterator[Host]:
    """A host on the socket; on leaving it goes at once. What it was sent must break no rule."""
    path = served if isinstance(served, Path) else served.path
    stream = await trio.open_unix_socket(str(path))
    host = Host(cast("trio.Process", SimpleNamespace(stdin=stream, stdout=stream, stderr=None)))

    async def read() -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await host.read()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        try:
            yield host
        finally:
            await trio.aclose_forcefully(stream)
            nursery.cancel_scope.cancel()
    problems = host.audit()
    assert not problems, problems
