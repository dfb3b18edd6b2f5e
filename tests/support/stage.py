"""A stage for tests on the real wire: a folder, scripted upstreams, the real ``mcpx serve``, a scripted host."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
import trio.testing

from mcpx.spec.revisions import LATEST_LEGACY
from tests.support.audit import upstream_problems
from tests.support.fake_down import Host, alive, open_host
from tests.support.scripted import Scripted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

ROOT = Path(__file__).resolve().parents[2]
PROBE_DELAY = 5.0  # seconds: however busy the machine, a scripted upstream that means to answer the probe has done so


class Stage:
    """One test's folder, and what is set up in it. The state folder lives as long: eras are remembered between runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sockets = Path(tempfile.mkdtemp(prefix="mcpx"))  # not in `folder`: the path of a socket must be short

    def close(self) -> None:
        shutil.rmtree(self._sockets)

    @property
    def env(self) -> dict[str, str]:
        """The environment of mcpx: what it needs and nothing else."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            **{f"XDG_{kind}_HOME": str(self.folder / kind.lower()) for kind in ("CONFIG", "STATE", "CACHE", "DATA")},
        }

    def upstream(self, name: str, revisions: str | Iterable[str] = LATEST_LEGACY, **script: Any) -> Scripted:
        """A scripted upstream; see ``Scripted``."""
        return Scripted(self.folder, self._sockets, name, revisions, **script)

    def configure(self, servers: dict[str, Any], **more: Any) -> Path:
        """Write a configuration file."""
        path = self.folder / "mcpx.json"
        path.write_text(json.dumps({"mcpServers": servers, **more}))
        return path

    @asynccontextmanager
    async def mcpx(
        self,
        *upstreams: Scripted,
        servers: dict[str, Any] | None = None,
        limits: dict[str, Any] | None = None,
        args: Iterable[str] = (),
        env: dict[str, str] | None = None,
        status: int | None = 0,
        audit: bool = True,
    ) -> AsyncIterator[Host]:
        """Run ``mcpx serve`` in front of these upstreams, and ``servers`` as a configuration file has them.

        ``limits`` are over ``PROBE_DELAY``.
        Afterwards: it ended by itself with ``status`` (``None``: any), no process of an upstream is left, and nothing
        that it sent breaks a rule (``audit``).
        """
        entries = {upstream.name: upstream.entry for upstream in upstreams} | (servers or {})
        config = self.configure(entries, limits={"probeDelay": PROBE_DELAY, **(limits or {})})
        command = [sys.executable, "-m", "mcpx", "serve", "--config", str(config), *args]
        async with self.play(command, *upstreams, env=env, status=status, audit=audit) as host:
            yield host

    @asynccontextmanager
    async def play(
        self,
        command: list[str],
        *upstreams: Scripted,
        env: dict[str, str] | None = None,
        status: int | None = 0,
        audit: bool = True,
    ) -> AsyncIterator[Host]:
        """Run any command between a scripted host and scripted upstreams, with the same checks afterwards."""
        async with trio.open_nursery() as nursery:
            for upstream in upstreams:
                await nursery.start(upstream.serve)
            async with open_host(command, env={**self.env, **(env or {})}, cwd=self.folder) as host:
                try:
                    yield host
                except BaseException:
                    print(f"--- log of the process\n{host.log}")
                    raise
            await trio.testing.wait_all_tasks_blocked()
            with trio.move_on_after(2):
                for upstream in upstreams:
                    await upstream.changes.until(lambda upstream=upstream: not upstream.running, "its end")
            left = [f"process {pid} of {one.name} is left" for one in upstreams for pid in one.pids if alive(pid)]
            nursery.cancel_scope.cancel()
        problems = left
        if status is not None and host.process.returncode != status:
            problems.append(f"exit status {host.process.returncode} instead of {status}")
        if audit:
            problems += host.audit()
            for upstream in upstreams:
                problems += upstream_problems(upstream)
        if problems:
            print(f"--- log of the process\n{host.log}")
            raise AssertionError("\n".join(problems))
