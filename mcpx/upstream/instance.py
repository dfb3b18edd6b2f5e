"""One running, starting or failing copy of a server, and what tells copies apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec
import trio

if TYPE_CHECKING:
    from mcpx.errors import UpstreamError
    from mcpx.upstream.call import Asker
    from mcpx.upstream.session import Session

State = Literal["starting", "up", "backing off", "ended"]


class Key(msgspec.Struct, frozen=True):
    """What tells instances apart. ``told`` is canonical JSON; ``host`` is set where the instance could ask that
    host.
    """

    told: bytes = b""
    host: str | None = None
    call: int | None = None  # scope "call": one instance each


COMMON_KEY = Key()  # the instance of all who need none of their own: a modern server has no other


class Instance:
    """One copy of a server."""

    def __init__(self, key: Key, asker: Asker, now: float) -> None:
        self.key = key
        self.asker = asker  # whose capabilities it is told at its handshake
        self.state: State = "starting"
        self.since = now
        self.session: Session | None = None
        self.leases = 0  # of calls that use it, or wait for it
        self.kept = False  # somebody has subscribed to what it changes
        self.last_used = now
        self.failures = 0  # in a row, without a healthy run between
        self.restarts = 0
        self.last_error: UpstreamError | None = None
        self.start_failed = False  # the last attempt never came up
        self.retry_at = 0.0
        self.scope = trio.CancelScope()

    @property
    def idle(self) -> bool:
        return self.leases == 0 and not self.kept

    @property
    def ready(self) -> bool:
        """Whether it takes calls. One that is up may be ending already: its connection has, or it was told to."""
        return (
            self.state == "up"
            and self.session is not None
            and not self.session.connection.closed.is_set()
            and not self.scope.cancel_called
        )

    def move(self, state: State, now: float) -> None:
        self.state, self.since = state, now

    @property
    def _reason(self) -> str | None:
        """What is wrong with it, or was last. A server over HTTP may be out of reach while its session is good."""
        if self.session is not None and self.session.connection.trouble is not None:
            return self.session.connection.trouble
        return None if self.last_error is None else self.last_error.reason

    def status(self) -> InstanceStatus:
        """What status shows of it."""
        connection = None if self.session is None else self.session.connection
        return InstanceStatus(
            self.state,
            self.since,
            self.restarts,
            self.leases,
            0 if self.session is None else self.session.connection.in_flight - self.session.listening.streams,
            None if self.session is None else self.session.revision,
            self._reason,
            [] if connection is None else connection.noise,
            0 if connection is None else connection.noise_count,
        )


class InstanceStatus(msgspec.Struct, frozen=True):
    """What status shows of an instance. Times are on Trio's clock."""

    state: State
    since: float
    restarts: int
    leases: int
    in_flight: int
    revision: str | None
    last_error: str | None
    noise: list[str]
    noise_count: int
