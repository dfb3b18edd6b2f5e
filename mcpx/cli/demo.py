"""``mcpx demo``: the gateway on its built-in demo server, with a host of each era in front of it, frame by frame."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from mcpx import __version__
from mcpx.cli.run import leaves
from mcpx.errors import McpxError
from mcpx.settings import Limits, ServerSettings, server_environment
from mcpx.spec import meta
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from mcpx.transports.process import open_process

if TYPE_CHECKING:
    from mcpx.transports.channel import Channel

PATIENCE = 30.0  # seconds for the whole show; it takes about one
SHOWN = 400  # characters of a frame that are printed
INFO = {"name": "mcpx-demo", "version": __version__}
TEXT = "hello from either era"


class DemoFailed(McpxError):
    """The show did not go as it should; the message says where."""


def demo() -> int:
    """Show it, and return the exit status."""
    try:
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
                host = _Host(process.channel)
                await _play_legacy(host)
                await _play_modern(host)
            if patience.cancelled_caught:
                words = process.last_words()
                raise DemoFailed(
                    f"mcpx did not answer within {PATIENCE:g} s" + (f"; it said: {words}" if words else "")
                )
    print("\nBoth hosts got their answer from one server, on one pipe. The README says how to put your own behind it.")


def _environment(folder: str) -> dict[str, str]:
    """An environment in which no configuration is found, whatever the user has."""
    python = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    inherited = server_environment(ServerSettings(name="mcpx", inherit_env=python), os.environ)
    ours = {f"XDG_{kind}_HOME": folder for kind in ("CONFIG", "STATE", "DATA", "CACHE")}
    return {**inherited, **ours, "HOME": folder}


class _Host:
    """A host that shows what it sends and receives."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._last_id = 0

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result."""
        self._last_id += 1
        await self._send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        while messages := await self._channel.receive():
            for message in messages:
                if not isinstance(message, bytes):
                    raise DemoFailed("mcpx sent a message that is too large")
                _print_frame("host <- mcpx", message)
                frame = msgspec.json.decode(message)
                if frame.get("id") == self._last_id:
                    if "result" not in frame:
                        raise DemoFailed(f"{method} was answered with an error: {frame['error']['message']}")
                    return frame["result"]
        raise DemoFailed(f"mcpx ended before it answered {method}")

    async def notify(self, method: str) -> None:
        """Send a notification."""
        await self._send({"jsonrpc": "2.0", "method": method})

    async def _send(self, frame: dict[str, Any]) -> None:
        data = json.dumps(frame, separators=(",", ":")).encode()
        _print_frame("host -> mcpx", data)
        await self._channel.send(data)


async def _play_legacy(host: _Host) -> None:
    print(f"\nA host of the legacy era ({LATEST_LEGACY}): a handshake, then requests.")
    await host.request("initialize", {"protocolVersion": LATEST_LEGACY, "capabilities": {}, "clientInfo": INFO})
    await host.notify("notifications/initialized")
    await _call_echo(host, {})


async def _play_modern(host: _Host) -> None:
    print(f"\nA host of the modern era ({LATEST_MODERN}): no handshake, every request says who asks.")
    own = {meta.PROTOCOL_VERSION: LATEST_MODERN, meta.CLIENT_CAPABILITIES: {}, meta.CLIENT_INFO: INFO}
    await host.request("server/discover", {"_meta": own})
    await _call_echo(host, {"_meta": own})


async def _call_echo(host: _Host, extra: dict[str, Any]) -> None:
    tools = (await host.request("tools/list", extra))["tools"]
    name = next((tool["name"] for tool in tools if tool["name"].endswith("echo")), None)
    if name is None:
        raise DemoFailed("the demo server has no tool that echoes")
    result = await host.request("tools/call", {"name": name, "arguments": {"text": TEXT}, **extra})
    if not any(TEXT in block.get("text", "") for block in result["content"]):
        raise DemoFailed(f"{name} did not echo")


def _print_frame(direction: str, data: bytes) -> None:
    text = data.decode(errors="replace")
    print(f"  {direction}  {text if len(text) <= SHOWN else f'{text[:SHOWN]}... ({len(text)} characters)'}")
