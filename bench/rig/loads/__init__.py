"""Hosts that are not the bottleneck: what they say is made beforehand, what they heard is looked at afterwards.

``StdioLoad`` talks to a process by its pipes, ``HttpLoad`` to a port; what both can measure is in ``Load``. Their work
while the clock runs is a write, a read and a count, and they tell the processor time that it took them.

    with running(command) as process:
        load = StdioLoad.of(process, Host("legacy"))
        load.open()                         # the handshake, and a first call
        load.check()                        # the list of tools, and an answer
        load.latencies(1.0)                 # seconds of each call, one at a time
        load.throughput(64, 1.0)            # a window of 64 calls that slides
        load.large(1.0)                     # seconds of each result of 1 MB, one at a time
"""

from __future__ import annotations

from rig.loads.http import HttpLoad
from rig.loads.load import Flow, Load
from rig.loads.stdio import StdioLoad
from rig.loads.words import Era, Host, WrongAnswerError

__all__ = ["Era", "Flow", "Host", "HttpLoad", "Load", "StdioLoad", "WrongAnswerError"]
