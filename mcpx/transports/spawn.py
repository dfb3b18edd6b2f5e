"""Starting a child in a session and process group of its own, and saying plainly why one did not start."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from mcpx.errors import SpawnError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


async def spawn(command: Sequence[str], env: Mapping[str, str], cwd: str | None) -> trio.Process:
    """Start a child with pipes for stdin, stdout and stderr, and nothing else of ours open in it.

    The command is looked for on the ``PATH`` of ``env``, which is its whole environment. Raises ``SpawnError``.
    Cancelled, it has started nothing; there is no checkpoint between the start of the child and the return.
    """
    if sys.platform == "win32":
        raise SpawnError(
            "On Windows mcpx does not start servers: it could not end them with everything that they started, since "
            "there are no process groups to signal. Run mcpx in WSL, or reach the server by URL."
        )
    if not command or not command[0]:
        raise SpawnError("There is no command to start.")
    try:
        return await trio.lowlevel.open_process(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise SpawnError(_explain(error, command[0], env, cwd)) from error


def signal_group(pgid: int, number: int) -> None:
    """Send a signal to a process group that mcpx made; one that is empty but for its dead leader is no error.

    Call it only while the leader has not been reaped.
    """
    if pgid <= 1 or pgid == os.getpgrp():
        raise ValueError(f"{pgid} is not the group of a child")
    with suppress(ProcessLookupError, PermissionError):  # macOS refuses to signal a group of zombies
        os.killpg(pgid, number)


def _explain(error: OSError | ValueError, program: str, env: Mapping[str, str], cwd: str | None) -> str:
    """A sentence for a person: what did not start, why, and where it was looked for."""
    if isinstance(error, ValueError):  # a null byte, or "=" in a variable's name
        return f'"{program}" cannot be started: its command line or environment is not usable ({error}).'
    if cwd is not None and not Path(cwd).is_dir():
        return f'"{program}" cannot be started in "{cwd}": there is no such folder.'
    if cwd is not None and not os.access(cwd, os.X_OK):
        return f'"{program}" cannot be started in "{cwd}": that folder may not be entered.'
    path = os.pathsep.join(os.get_exec_path(dict(env)))
    found = shutil.which(program, path=path)
    if error.errno == errno.ENOENT:
        if found is not None:
            return f'"{program}" ({found}) cannot be started: the interpreter that its first line names does not exist.'
        if os.path.dirname(program):  # noqa: PTH120 a Path would drop the "./" that this is about
            return f'"{program}" does not exist' + (f' (seen from "{cwd}").' if cwd is not None else ".")
        return f'The command "{program}" was not found on the PATH: {path or "(empty)"}'
    if error.errno == errno.EACCES:
        return f'"{program}" cannot be started: it may not be executed.'
    if error.errno == errno.ENOEXEC:
        return (
            f'"{program}" ({found}) cannot be started: it is neither a program for this machine nor a script that '
            "names its interpreter."
        )
    return f'"{program}" cannot be started: {error.strerror or error}.'
