"""How long a call may take. Its limits stand still while somebody is asked something, which has a limit of its own."""

from __future__ import annotations

from math import inf

import trio


class Stopwatch:
    """Seconds on Trio's clock, but for the time during which it was stopped. Stops nest."""

    __slots__ = ("_lost", "_stopped_at", "_stops")

    def __init__(self) -> None:
        self._lost = 0.0
        self._stops = 0
        self._stopped_at = 0.0

    @property
    def now(self) -> float:
        return (self._stopped_at if self._stops else trio.current_time()) - self._lost

    def stop(self) -> None:
        if not self._stops:
            self._stopped_at = trio.current_time()
        self._stops += 1

    def go(self) -> None:
        self._stops -= 1
        if not self._stops:
            self._lost += trio.current_time() - self._stopped_at

    def when(self, now: float) -> float:
        """The time on Trio's clock at which this one will show ``now``; never, while it is stopped."""
        return inf if self._stops else now + self._lost


_STEADY = Stopwatch()  # that of all clocks which nothing has stopped yet; it is never stopped itself


class CallClock:
    """The limits of one call: ``idle`` and ``total`` seconds for the server, ``patience`` for the answer to each of
    its questions.

    The server's stand still while a question is open, and all of them while somebody holds the call.
    """

    __slots__ = ("_asking", "_deadline", "_due", "_patience", "_progressed", "_running", "idle", "total")

    def __init__(self, idle: float, total: float, patience: float = inf) -> None:
        self.idle = idle
        self.total = total
        self._patience = patience
        self._running = self._asking = _STEADY
        self._due: dict[str, float] = {}  # when the answer to each open question is due
        self._progressed = self._deadline = inf  # nothing is limited before it is started

    def start(self) -> None:
        """Measure the server's limits from now."""
        self._progressed = now = self._running.now
        self._deadline = now + self.total

    def progress(self) -> None:
        """The server has reported progress."""
        self._progressed = self._running.now

    def hold(self) -> None:
        """All limits stand still, until as many ``release``."""
        self._make_stoppable()
        self._running.stop()
        self._asking.stop()

    def release(self) -> None:
        """Go on, unless something else holds it still."""
        self._running.go()
        self._asking.go()

    def open(self, question: str) -> None:
        """A question is put to the host."""
        self._make_stoppable()
        self._running.stop()
        self._due[question] = self._asking.now + self._patience

    def close(self, question: str) -> None:
        """It is open no more."""
        if self._due.pop(question, None) is not None:
            self._running.go()

    def _make_stoppable(self) -> None:
        if self._running is _STEADY:
            self._running, self._asking = Stopwatch(), Stopwatch()

    @property
    def expiry(self) -> float:
        """The next time, on Trio's clock, at which a limit may be over."""
        server = self._running.when(min(self._progressed + self.idle, self._deadline))
        return min(server, self._asking.when(min(self._due.values()))) if self._due else server

    @property
    def is_asking(self) -> bool:
        """Whether a question is open."""
        return bool(self._due)

    @property
    def is_capped(self) -> bool:
        """Whether the total limit is over."""
        return self._running.now >= self._deadline

    @property
    def is_over(self) -> bool:
        """Whether either limit of the server's is over."""
        return not self._due and self._running.now >= min(self._progressed + self.idle, self._deadline)

    @property
    def overdue(self) -> list[str]:
        """The questions whose answers are overdue."""
        if not self._due:
            return []
        now = self._asking.now
        return [question for question, due in self._due.items() if now >= due]
