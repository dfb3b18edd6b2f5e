"""mcpx as a server of one host: connections, eras and handshakes, and what each revision gets for its requests.

``serve_stdio`` serves the host that started this process, ``serve_socket`` any number of them on a Unix socket, and
``serve_channel`` one on any other duplex of messages; ``http`` serves them by HTTP; ``ending`` is how that ends.
A request is read (``eras``), served (``service``, and the handlers of its table), and answered (``answer``), whatever
it came on; ``conversation`` knows which are in flight, and ``connection`` is what keeps a duplex.
"""

from typing import TYPE_CHECKING

from mcpx.host.connection import serve_channel
from mcpx.host.ending import Ending, open_ending
from mcpx.host.service import Service
from mcpx.host.socket import serve_socket
from mcpx.host.stdio import serve_stdio

if TYPE_CHECKING:
    from mcpx.host.http import Access, plan_access, serve_http

__all__ = [
    "Access",
    "Ending",
    "Service",
    "open_ending",
    "plan_access",
    "serve_channel",
    "serve_http",
    "serve_socket",
    "serve_stdio",
]

_LATE = frozenset(
    {"Access", "plan_access", "serve_http"}
)  # a host on stdin and stdout need not wait until HTTP is loaded


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mcpx.host import http

    return getattr(http, name)
