"""One run of peers: a folder of its own, the commands of hosts and servers, and who is still alive afterwards."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from mcpx.spec.revisions import LATEST_MODERN
from tests.peers.environments import HERE, SCRIPTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.peers.environments import Peers

ROOT = HERE.parents[1]
HOST_LIMIT = 45.0  # seconds for one host to do its tour; it needs one or two
LINGER = 2.0  # seconds after the host's end until nothing of its servers may be left
RECORD_LIMIT = 15.0  # seconds until a server has recorded something that it must
POLL = 0.02  # seconds between two looks at what is alive

COMPLAINT = re.compile(r" (warning|error|critical) mcpx")  # in mcpx's own log

# A host of each SDK in each of its ways to connect: the program, the mode, and the alias of a TypeScript SDK 1.x.
HOSTS = {
    "py1": ("py1_client.py", "legacy", None),
    "py2-legacy": ("py2_client.py", "legacy", None),
    "py2-auto": ("py2_client.py", "auto", None),
    "py2-modern": ("py2_client.py", LATEST_MODERN, None),
    "ts2-legacy": ("ts2_client.mjs", "legacy", None),
    "ts2-auto": ("ts2_client.mjs", "auto", None),
    "ts2-modern": ("ts2_client.mjs", LATEST_MODERN, None),
    "ts1-32": ("ts1_client.mjs", "legacy", "sdk-1-32"),
    "ts1-22": ("ts1_client.mjs", "legacy", "sdk-1-22"),
}
SERVERS = {
    "py1": ("py1_server.py",),
    "py2": ("py2_server.py",),
    "ts2": ("ts2_server.mjs",),
    "ts1-32": ("ts1_server.mjs", "sdk-1-32"),
    "ts1-22": ("ts1_server.mjs", "sdk-1-22"),
}
MODERN_SERVERS = {"py2", "ts2"}  # they serve both eras; the others know the handshake only
MODERN_HOSTS = {"py2-auto", "py2-modern", "ts2-auto", "ts2-modern"}


class Run:
    """A home folder that no other run shares. Every process of the run has ``HOME`` set to it, and is known by that."""

    def __init__(self, folder: Path, peers: Peers, programs: Path) -> None:
        self.peers = peers
        self.programs = programs
        self.home = folder / "home"
        self.home.mkdir()
        self.record = folder / "record"
        self.record.touch()
        self.log = ""  # what the last host, and mcpx and the servers under it, wrote to stderr
        self.env = {
            "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "PEER_RECORD": str(self.record),
            **{f"XDG_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CONFIG", "STATE", "CACHE", "DATA")},
        }

    def program(self, name: str, *arguments: str) -> list[str]:
        """The command of one of our programs, under the interpreter it is for."""
        interpreter = {"py1": self.peers.python_1, "py2": self.peers.python_2}.get(name[:3], Path(sys.executable))
        if name.endswith(".mjs"):
            interpreter = self.peers.node
        return [str(interpreter), str(self.programs / name), *arguments]

    def server(self, name: str) -> list[str]:
        """The command of a server of ``SERVERS``."""
        return self.program(*SERVERS[name])

    def http_server(self, name: str) -> list[str]:
        """The command of the same server when it is to serve HTTP."""
        return [*self.server(name), "http"]

    def share_record(self, other: Run) -> None:
        """Look at the record of another run's servers."""
        self.record = other.record
        self.env["PEER_RECORD"] = str(other.record)

    def entry(self, command: list[str], *, delay: float = 0, **more: Any) -> dict[str, Any]:
        """A server of a configuration file: the command, and the variables that our servers read."""
        env = {"PEER_RECORD": str(self.record), "HOME": str(self.home)}
        if delay:
            env["START_DELAY"] = str(delay)
        return {"command": command[0], "args": command[1:], "env": env, **more}

    def mcpx(self, servers: dict[str, Any], **more: Any) -> list[str]:
        """Write a configuration file, and give the command of mcpx in front of it."""
        path = self.home / "mcpx.json"
        path.write_text(json.dumps({"mcpServers": servers, **more}))
        return [sys.executable, "-m", "mcpx", "serve", "--config", str(path)]

    def passthrough(self, command: list[str]) -> list[str]:
        """The command of mcpx with one server shining through, and no configuration.

        A server given on the command line gets a few variables only; ``env`` gives it the others.
        """
        wanted = ("HOME", "PEER_RECORD", "START_DELAY")
        variables = [f"{name}={self.env[name]}" for name in wanted if name in self.env]
        return [sys.executable, "-m", "mcpx", "serve", "--", "env", *variables, *command]

    async def host(self, name: str, command: list[str], **plan: Any) -> dict[str, Any]:
        """Let a host of ``HOSTS`` start ``command`` as its server and go by the plan; its report.

        Afterwards nothing of the run is alive.
        """
        program, mode, sdk = HOSTS[name]
        arguments = json.dumps({"mode": mode, "sdk": sdk, **plan})
        output = await self.run([*self.program(program, arguments), *command])
        return json.loads(output)

    async def run(self, command: list[str], **env: str) -> str:
        """Run a host to its end; see ``output``. Afterwards nothing of the run is alive."""
        async with self.clearing():
            return await self.output(command, **env)

    async def output(self, command: list[str], **env: str) -> str:
        """Run a host to its end; what it wrote to stdout. Its stderr is shown when the test fails."""
        with trio.fail_after(HOST_LIMIT):
            result = await trio.run_process(
                command,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                stdin=subprocess.DEVNULL,
                env={**self.env, **env},
                cwd=self.home,
            )
        output = result.stdout.decode()
        self.log = result.stderr.decode(errors="replace")
        print(f"--- {command}\n{output}--- stderr\n{self.log}")
        assert result.returncode == 0, f"the host exited with {result.returncode}"
        return output

    @asynccontextmanager
    async def clearing(self) -> AsyncIterator[None]:
        """On leaving, every process of the run has ended by itself. What has not is killed, and fails the test."""
        try:
            yield
            with trio.move_on_after(LINGER):
                while dict(self.alive()):  # noqa: ASYNC110 other programs' children have no event to wait for
                    await trio.sleep(POLL)
        finally:
            left = dict(self.alive())
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        assert not left, f"still alive: {left}"

    def alive(self) -> Iterator[tuple[int, str]]:
        """The processes whose ``HOME`` is this run's, with their command lines."""
        mark = f"HOME={self.home}"
        if Path("/proc/self/environ").exists():
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    environ = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
                    command = (folder / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
                except OSError:  # it ended meanwhile, or is not ours
                    continue
                if mark in environ:
                    yield int(folder.name), command
            return
        listing = subprocess.run(["ps", "-axEww", "-o", "pid=,command="], check=True, capture_output=True, text=True)
        for line in listing.stdout.splitlines():
            if f" {mark} " in f"{line} ":
                pid, command = line.split(maxsplit=1)
                yield int(pid), command

    async def until_recorded(self, word: str, count: int = 1) -> None:
        """Return once servers have recorded ``word`` so often."""
        with trio.fail_after(RECORD_LIMIT):
            while len(self.recorded(word)) < count:  # noqa: ASYNC110 another program's file has no event to wait for
                await trio.sleep(POLL)

    async def lives_on(self, process: trio.Process, seconds: float) -> bool:
        """Whether the process is still there after so long."""
        with trio.move_on_after(seconds) as waiting:
            await process.wait()
        return waiting.cancelled_caught

    def complaints(self) -> list[str]:
        """The lines of the log in which mcpx warns or reports a failure."""
        return [line for line in self.log.splitlines() if COMPLAINT.search(line) or line.startswith("Traceback")]

    def recorded(self, word: str) -> list[int]:
        """The process ids of the servers that recorded ``word``: ``started``, ``called`` or ``cancelled``."""
        lines = [line.split() for line in self.record.read_text().splitlines()]
        return [int(pid) for event, pid in lines if event == word]


def lay_out_programs(folder: Path, peers: Peers) -> Path:
    """Copy the peer programs next to the packages they import: Node looks for those beside a program's real path."""
    programs = folder / "programs"
    shutil.copytree(HERE / "programs", programs, ignore=shutil.ignore_patterns("__pycache__"))
    (programs / "node_modules").symlink_to(peers.modules)
    return programs
