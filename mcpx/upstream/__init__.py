"""mcpx as a client of one server: the era probe, sessions of both eras, and the supervisor that keeps instances
running.

``call.py`` is the vocabulary that this room shares with those above it.
"""

from mcpx.upstream.supervisor import Supervisor
from mcpx.upstream.target import Surroundings, open_session

__all__ = ["Supervisor", "Surroundings", "open_session"]
