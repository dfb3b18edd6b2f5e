"""mcpx as a server of one host: connections, eras and handshakes, and what each revision gets for its requests.

``serve_stdio`` serves the host that started this process, ``serve_socket`` any number of them on a Unix socket, and
``serve_channel`` one on any other duplex of messages; ``http`` serves them by HTTP; ``ending`` is how that ends.
A request is read (``eras``), served (``service``, and the handlers of its table), and answered (``answer``), whatever
it came on; ``conversation`` knows which are in flight, and ``connection`` is what keeps a duplex.
"""

from mcpx.host.connection import serve_channel
from mcpx.host.ending import Ending, open_ending
from mcpx.host.service import Service
from mcpx.host.socket import serve_socket
from mcpx.host.stdio import serve_stdio

__all__ = ["Ending", "Service", "open_ending", "serve_channel", "serve_socket", "serve_stdio"]
