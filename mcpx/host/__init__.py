"""mcpx as a server of one host: connections, eras and handshakes, and what each revision gets for its requests.

``serve_stdio`` serves the host that started this process; ``serve_channel`` serves one on any other duplex of messages.
A request is read (``eras``), served (``service``, and the handlers of its table), and answered (``answer``), whatever
it came on; ``connection`` is what keeps a duplex.
"""

from mcpx.host.connection import serve_channel
from mcpx.host.stdio import Ending, open_ending, serve_stdio

__all__ = ["Ending", "open_ending", "serve_channel", "serve_stdio"]
