"""The axes along which cost may grow, each with what is measured at one point of it."""

from __future__ import annotations

from rig.axes.axis import Axis, Quantity
from rig.axes.flight import Flight
from rig.axes.hosts import Connections, Sessions
from rig.axes.idle import Idle
from rig.axes.start import Start
from rig.axes.streams import GetStreams, ListenStreams
from rig.axes.tools import Tools
from rig.axes.upstreams import Upstreams

AXES: list[type[Axis]] = [
    Upstreams,
    Tools,
    Connections,
    Sessions,
    ListenStreams,
    GetStreams,
    Flight,
    Start,
    Idle,
]

__all__ = ["AXES", "Axis", "Quantity"]
