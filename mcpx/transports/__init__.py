"""Moves frames with Trio: over pipes to child processes, mcpx's own stdin and stdout, sockets, WebSockets, in memory.

Knows no method. Everything here that lives is opened by a context manager and has ended when that is left.
"""

from mcpx.transports.channel import Channel, Oversize
from mcpx.transports.ladder import ExitPlan
from mcpx.transports.memory import MemoryChannel, memory_channel_pair
from mcpx.transports.process import ServerProcess, open_process
from mcpx.transports.sockets import connect, open_unix_listener
from mcpx.transports.stdio import open_stdio_channel
from mcpx.transports.streams import LineChannel, open_line_channel
from mcpx.transports.watcher import Watcher, open_watcher

__all__ = [
    "Channel",
    "ExitPlan",
    "LineChannel",
    "MemoryChannel",
    "Oversize",
    "ServerProcess",
    "Watcher",
    "connect",
    "memory_channel_pair",
    "open_line_channel",
    "open_process",
    "open_stdio_channel",
    "open_unix_listener",
    "open_watcher",
]
