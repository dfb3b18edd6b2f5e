"""One running, starting or failing copy of a server, and what tells copies apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec
import trio

if TYPE_CHECKING:
    from mcpx.errors import UpstreamError
    from mcpx.upstream.call import Asker
    from mcpx.upstream.questions import Certainty, Questions
    from mcpx.upstream.session import Session

State = Literal["starting", "up", "backing off", "ended"]


class Key(msgspec.Struct, frozen=True):
    """What tells instances apart. ``told`` is canonical JSON; ``host`` is set where the instance could ask that
    host, and ``seat`` where it could ask one that has no connection: it takes one request at a time then.
    """

    told: bytes = b""
    host: str | None = None
    call: int | None = None  # scope "call": one instance each
    seat: int | None = None


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
        self.user = user_of(asker)  # who leased it last
        self.kept = False  # somebody has subscribed to what it changes
        self.last_used = now
        self.failures = 0  # in a row, without a healthy run between
        self.restarts = 0
        self.last_error: UpstreamError | None = None
        self.start_failed = False  # the last attempt never came up
        self.retry_at = 0.0
        self.scope = trio.CancelScope()
        self.ending = False

    def end(self) -> None:
        """It is to end: no more calls come to it."""
        self.ending = True
        self.scope.cancel()

    @property
    def idle(self) -> bool:
        return self.leases == 0 and not self.kept

    @property
    def is_free_seat(self) -> bool:
        """Whether it is for hosts without a connection, and nobody uses it, so that the next one can."""
        return self.key.seat is not None and self.leases == 0 and not self.ending

    @property
    def certainty(self) -> Certainty:
        """How certain it is that what it asks now, beside any call, is for the host that used it last."""
        if self.key.host is not None or (self.leases > 0 and (self.key.seat or self.key.call) is not None):
            return "certain"
        return "likely" if self.key.seat is not None else "unknown"

    @property
    def ready(self) -> bool:
        """Whether it takes calls. One that is up may be ending already: its connection has, or it was told to."""
        return (
            self.state == "up"
            and self.session is not None
            and not self.session.connection.closed.is_set()
            and not self.ending
        )

    @property
    def questions(self) -> Questions | None:
        """Those of its session, where it has one that can ask by itself."""
        return None if self.session is None else self.session.questions

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


def user_of(asker: Asker) -> tuple[str, bytes]:
    """Who an asker without a connection may well be: its address, and what it calls itself."""
    return asker.host, bytes(asker.client_info or b"")


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
