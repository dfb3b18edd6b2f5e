"""How a gateway's upstreams are, as plain data for whoever watches over it.

Nothing of what a configuration holds is in here but the names of servers and what each is pinned to.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from mcpx.spec.revisions import era_of
from mcpx.wire.raws import members_of, string_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Raw

    from mcpx.gateway.gateway import Gateway
    from mcpx.upstream.supervisor import InstanceStatus, Supervisor

MAX_SHOWN = 200  # characters of one member of what a peer says of itself
_IDENTITY = ("name", "title", "version", "description", "websiteUrl")
_STATES = ("up", "starting", "backing off", "ended")  # from best to worst


class Now(NamedTuple):
    """One moment, on Trio's clock and on the wall's."""

    clock: float
    wall: float

    def since(self, moment: float) -> dict[str, Any]:
        """When something on Trio's clock happened, and how many seconds ago."""
        ago = max(self.clock - moment, 0.0)
        at = datetime.fromtimestamp(self.wall - ago, UTC).isoformat(timespec="seconds")
        return {"since": at, "seconds": round(ago, 3)}


def agreements(gateway: Gateway) -> list[dict[str, Any]]:
    """What was agreed on with each upstream, or is remembered of it, and what it is pinned to."""
    return [_agreed(one) for one in gateway.supervisors]


def upstreams(gateway: Gateway, moment: Now, redact: Callable[[str], str]) -> list[dict[str, Any]]:
    """How each upstream is. ``redact`` masks secrets in what servers said before they ended."""
    return [_upstream(one, moment, redact) for one in gateway.supervisors]


def words(info: Raw | None, members: tuple[str, ...] = _IDENTITY) -> dict[str, str] | None:
    """What a peer says of itself, without whatever else it may have put there; ``None`` where it says nothing."""
    if info is None:
        return None
    told = members_of(info) or {}
    found = {member: string_of(told.get(member)) for member in members}
    return {member: text[:MAX_SHOWN] for member, text in found.items() if text}


def _agreed(supervisor: Supervisor) -> dict[str, Any]:
    remembered = supervisor.memory.value
    running = [one.revision for one in supervisor.status() if one.revision is not None]
    revision = running[0] if running else remembered.revision
    return {
        "name": supervisor.name,
        "preference": supervisor.server.protocol,
        "era": era_of(revision) if running and revision is not None else remembered.era,
        "revision": revision,
        "identity": words(remembered.identity.server_info),
    }


def _upstream(supervisor: Supervisor, moment: Now, redact: Callable[[str], str]) -> dict[str, Any]:
    """An upstream is as its best instance is; one that nobody has needed yet, or for long, is idle."""
    instances = supervisor.status()
    best = min(instances, key=_rank, default=None)
    return {
        "name": supervisor.name,
        "state": "idle" if best is None else best.state,
        **({} if best is None else moment.since(best.since)),
        "restarts": sum(one.restarts for one in instances),
        "inFlight": sum(one.in_flight for one in instances),
        "lastError": next((_sound(one.last_error, redact) for one in instances if one.last_error is not None), None),
        "instances": [_instance(one, moment, redact) for one in instances],
    }


def _rank(instance: InstanceStatus) -> int:
    return _STATES.index(instance.state)


def _instance(instance: InstanceStatus, moment: Now, redact: Callable[[str], str]) -> dict[str, Any]:
    return {
        "state": instance.state,
        **moment.since(instance.since),
        "revision": instance.revision,
        "restarts": instance.restarts,
        "users": instance.leases,
        "inFlight": instance.in_flight,
        "lastError": None if instance.last_error is None else _sound(instance.last_error, redact),
        "noise": {"lines": instance.noise_count, "first": [_sound(line, redact) for line in instance.noise]},
    }


def _sound(text: str, redact: Callable[[str], str]) -> str:
    """Without secrets, and without what no JSON can hold: a name of a file may be any bytes."""
    return redact(text).encode(errors="replace").decode()
