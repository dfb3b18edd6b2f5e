"""What is remembered of a server between runs: its era and what it said of itself.

One small file per server configuration in the state folder, so that any number of mcpx processes share it without a
lock: a file is replaced whole or not at all. (2026-07-28 basic/versioning, Backward Compatibility: the era is a
property of the server; a client may persist it and must re-probe when it proves wrong.)
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from mcpx.spec.capabilities import is_implementation
from mcpx.spec.revisions import SUPPORTED
from mcpx.upstream.call import Identity

if TYPE_CHECKING:
    from mcpx.settings import ServerSettings

log = logging.getLogger("mcpx.upstream")


class Remembered(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one server was like at its last start."""

    era: Literal["legacy", "modern"] | None = None  # None: known by sight, but the probe was inconclusive
    revision: str | None = None
    server_info: Raw | UnsetType = UNSET  # msgspec takes Raw beside None for null only
    capabilities: dict[str, Raw] = {}
    instructions: str | None = None
    sse: bool = False  # at its URL it speaks HTTP+SSE, and no Streamable HTTP

    @property
    def identity(self) -> Identity:
        return Identity(None if self.server_info is UNSET else self.server_info, self.capabilities, self.instructions)


class Memory:
    """The memory of one server. ``folder=None`` keeps it for the life of the process only."""

    def __init__(self, server: ServerSettings, folder: str | None) -> None:
        self._server = server.name
        self._path = None if folder is None else Path(folder) / "servers" / f"{fingerprint(server)}.json"
        self.value = self._read()

    def remember(self, value: Remembered) -> None:
        """Keep ``value``. A state folder that cannot be written costs a warning, never a call."""
        if value == self.value:
            return
        self.value = value
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, temporary = tempfile.mkstemp(dir=self._path.parent, prefix=".", suffix=".tmp")
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.encode(value))
            Path(temporary).replace(self._path)
        except OSError as error:
            log.warning("[%s] its era cannot be remembered in %s: %s", self._server, self._path.parent, error.strerror)

    def forget(self) -> None:
        """Drop the era: it proved wrong. What the server said of itself stays, to be corrected by its next start."""
        self.remember(msgspec.structs.replace(self.value, era=None, sse=False))

    def _read(self) -> Remembered:
        if self._path is None:
            return Remembered()
        try:
            value = msgspec.json.decode(self._path.read_bytes(), type=Remembered)
        except (OSError, msgspec.MsgspecError, RecursionError):
            return Remembered()  # never written, or not by us: probing again mends it
        known = value.revision is None or value.revision in SUPPORTED
        sound = value.server_info is UNSET or is_implementation(value.server_info)
        return value if known and sound else Remembered()


def fingerprint(server: ServerSettings) -> str:
    """A name for a server configuration: the same as long as it would start the same program, or reach the same URL.

    The program's size and time are in it, so that an updated binary is probed anew. Only a digest leaves this function:
    arguments and variables may hold secrets.
    """
    program = shutil.which(server.command, path=server.env.get("PATH")) if server.command else None
    stamp = ""
    if program is not None:
        with suppress(OSError):  # gone this moment: then the start will say so
            status = Path(program).stat()
            stamp = f"{program}:{status.st_size}:{status.st_mtime_ns}"
    identity = [
        server.builtin,
        server.command,
        server.args,
        sorted(server.env.items()),
        server.cwd,
        server.url,
        server.protocol,
        stamp,
    ]
    return hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:32]
