"""``mcpx demo``: the gateway on its built-in demo server, with a host of each era in front of it, frame by frame."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any, cast

import msgspec
import trio

from mcpx import __version__
from mcpx.cli.run import begin_collecting
from mcpx.errors import McpxError, leaves
from mcpx.settings import Limits, ServerSettings, server_environment
from mcpx.spec import meta
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from mcpx.transports.process import open_process

if TYPE_CHECKING:
    from mcpx.transports.process import ServerProcess

PATIENCE = 30.0  # seconds for the whole show; it takes about one
WIDTH = 96  # characters of a line; with what stands before it a terminal of 100 columns shows it whole
INFO = {"name": "mcpx-demo", "version": __version__}
TEXT = "hello from either era"


class DemoFailed(McpxError):
    """The show did not go as it should; the message says where."""


def demo() -> int:
    """Show it, and return the exit status."""
    try:
        begin_collecting()
        trio.run(_show)
    except* McpxError as group:
        raise next(leaves(group)) from None
    return 0


async def _show() -> None:
    print("Starting `mcpx serve` without a configuration: it serves its built-in demo server.")
    with tempfile.TemporaryDirectory(prefix="mcpx-demo-") as folder:
        async with open_process(
            [sys.executable, "-m", "mcpx", "serve", "--log-level", "warning"],
            name="mcpx",
            env=_environment(folder),
            cwd=folder,
            limits=Limits(),
        ) as process:
            with trio.move_on_after(PATIENCE) as patience:
                host = _Host(process)
                await _play_modern(host, await _play_legacy(host))
            if patience.cancelled_caught:
                raise DemoFailed(f"mcpx did not answer within {PATIENCE:g} s" + _said(process))
    print("\nOne server, on one pipe, answered a host of each era. The README says how to put your own behind mcpx.")


def _said(process: ServerProcess) -> str:
    """What it wrote to stderr, for the end of a message."""
    words = process.last_words()
    return f"; it said: {words}" if words else ""


def _environment(folder: str) -> dict[str, str]:
    """An environment in which no configuration is found, whatever the user has."""
    python = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    inherited = server_environment(ServerSettings(name="mcpx", inherit_env=python), os.environ)
    ours = {f"XDG_{kind}_HOME": folder for kind in ("CONFIG", "STATE", "DATA", "CACHE")}
    return {**inherited, **ours, "HOME": folder}


class _Host:
    """A host that shows what it sends and receives."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process
        self._channel = process.channel
        self._last_id = 0

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result."""
        self._last_id += 1
        await self._send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        while messages := await self._channel.receive():
            for message in messages:
                if not isinstance(message, bytes):
                    raise DemoFailed("mcpx sent a message that is too large")
                _print_frame("mcpx -> host", message)
                frame = msgspec.json.decode(message)
                if frame.get("id") == self._last_id:
                    if "result" not in frame:
                        raise DemoFailed(f"{method} was answered with an error: {frame['error']['message']}")
                    return frame["result"]
        status = await self._process.wait()
        raise DemoFailed(f"mcpx ended with status {status} before it answered {method}" + _said(self._process))

    async def notify(self, method: str) -> None:
        """Send a notification."""
        await self._send({"jsonrpc": "2.0", "method": method})

    async def _send(self, frame: dict[str, Any]) -> None:
        data = json.dumps(frame, separators=(",", ":")).encode()
        _print_frame("host -> mcpx", data)
        await self._channel.send(data)


async def _play_legacy(host: _Host) -> str:
    """A handshake, a list, a call; returns the name of the tool that was called."""
    print(f"\nA host of the legacy era ({LATEST_LEGACY}): a handshake, then requests.")
    await host.request("initialize", {"protocolVersion": LATEST_LEGACY, "capabilities": {}, "clientInfo": INFO})
    await host.notify("notifications/initialized")
    tools = (await host.request("tools/list", {}))["tools"]
    name = next((tool["name"] for tool in tools if tool["name"].endswith("echo")), None)
    if name is None:
        raise DemoFailed("the demo server has no tool that echoes")
    await _call(host, name, {})
    return name


async def _play_modern(host: _Host, name: str) -> None:
    print(f"\nA host of the modern era ({LATEST_MODERN}): no handshake, every request says who asks.")
    own = {meta.PROTOCOL_VERSION: LATEST_MODERN, meta.CLIENT_CAPABILITIES: {}, meta.CLIENT_INFO: INFO}
    await host.request("server/discover", {"_meta": own})
    await _call(host, name, {"_meta": own})


async def _call(host: _Host, name: str, extra: dict[str, Any]) -> None:
    result = await host.request("tools/call", {"name": name, "arguments": {"text": TEXT}, **extra})
    if not any(TEXT in block.get("text", "") for block in result["content"]):
        raise DemoFailed(f"{name} did not say back what it was told")


def _print_frame(direction: str, data: bytes) -> None:
    print(f"  {direction}")
    for line in readable(msgspec.json.decode(data)):
        print(f"    {line}")


def readable(value: Any, width: int = WIDTH, label: str = "") -> list[str]:
    """JSON, behind a label, in lines of at most ``width`` characters where that can be; what fits on one is on one.

    Of a list of objects only the first is shown.
    """
    flat = label + json.dumps(value, ensure_ascii=False)
    if len(flat) <= width or value in ({}, []):
        return [flat]
    if not isinstance(value, (dict, list)):
        return [f"{flat[: width - 4]}...{flat[-1]}"]
    members, hidden = _members(value)
    lines: list[str] = []
    for number, (name, member) in enumerate(members, 1):
        lines += [f"  {line}" for line in readable(member, width - 3, name)]
        if number < len(members) or hidden:
            lines[-1] += ","
    if hidden:
        lines.append(f"  ... {hidden} more")
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return [label + opening, *lines, closing]


def _members(value: Any) -> tuple[list[tuple[str, Any]], int]:
    """What of an object or a list is shown, each with its label, and how much is not."""
    if isinstance(value, dict):
        return [(f"{json.dumps(key)}: ", member) for key, member in cast("dict[str, Any]", value).items()], 0
    shown = value[:1] if isinstance(value[0], dict) else value
    return [("", member) for member in shown], len(value) - len(shown)
