"""Many hosts by HTTP, each with a connection of its own that is kept and, in the legacy era, a session of its own.

Each makes one call at a time. They call one after the other, or all at once.
"""

from __future__ import annotations

import select
import time
from contextlib import closing
from typing import TYPE_CHECKING

from rig.loads import Flow, Host, HttpLoad
from rig.loads.http import Link
from rig.trial import calls_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rig.loads import Era

FIRST = 5_000_000  # ids of calls begin here, so that they are of one length
_LEAST_RATE = 20_000  # calls a second that are made ready for; nobody answers more


class Crowd:
    """The hosts. Close it."""

    def __init__(self, port: int, era: Era, prefix: str, hosts: int) -> None:
        """Open all: the handshake where the era has one, and a first call, whose answer is looked at."""
        self._host = Host(era, prefix)
        self._next = FIRST
        self._links: list[Link] = []
        self._parts: list[list[bytes]] = []  # of each host's call: what stands around its ids
        try:
            for _ in range(hosts):
                with closing(HttpLoad(port, self._host)) as load:
                    load.open()
                    self._parts.append(load.message(self._host.echo(FIRST)).split(b"%d" % FIRST))
                    self._payload = load.payload
                self._links.append(Link(port))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        while self._links:
            self._links.pop().socket.close()

    def in_turn(self, seconds: float) -> list[float]:
        """Seconds of each call, one host after the other, for about so long and of each host at least once."""
        hosts = len(self._links)
        first, messages = self._messages(max(hosts, int(_LEAST_RATE * seconds)))
        taken: list[float] = []
        heard: list[bytes] = []
        clock = time.perf_counter
        end = clock() + seconds
        for number, message in enumerate(messages):
            link = self._links[number % hosts]
            before = clock()
            link.send(message)
            while (answer := link.receive()) is None:
                pass
            after = clock()
            taken.append(after - before)
            heard.append(answer)
            if after > end and len(taken) >= hosts:
                break
        self._check(heard, first)
        return taken

    def at_once(self, seconds: float, meters: Mapping[str, Callable[[], float]]) -> Flow:
        """All hosts call, each again as soon as it was answered, until about so much time has passed."""
        count = calls_for(seconds, len(self._links), lambda calls: self._flow(calls, {}).rate)
        return self._flow(count, meters)

    def _flow(self, count: int, meters: Mapping[str, Callable[[], float]]) -> Flow:
        """So many calls, as evenly among the hosts as can be: each has its number of them."""
        hosts = len(self._links)
        first, messages = self._messages(count)
        owed = {link.socket.fileno(): messages[number::hosts] for number, link in enumerate(self._links)}
        before = {name: meter() for name, meter in meters.items()}
        own, start = time.process_time(), time.perf_counter()
        heard = self._exchange(owed, count)
        seconds, own = time.perf_counter() - start, time.process_time() - own
        passed = {name: meter() - before[name] for name, meter in meters.items()}
        self._check(heard, first)
        return Flow(count, seconds, own, passed)

    def _exchange(self, owed: dict[int, list[bytes]], count: int) -> list[bytes]:
        heard: list[bytes] = []
        with select.epoll() as poll:
            links = {link.socket.fileno(): link for link in self._links}
            for number, link in links.items():
                poll.register(number, select.EPOLLIN)
                link.send(owed[number].pop())
            while len(heard) < count:
                for number, _ in poll.poll():
                    link = links[number]
                    if (answer := link.receive()) is None:
                        continue
                    heard.append(answer)
                    if waiting := owed[number]:
                        link.send(waiting.pop())
        return heard

    def _messages(self, count: int) -> tuple[int, list[bytes]]:
        """The first id, and calls of the hosts in turn."""
        first = self._next
        self._next += count
        parts, hosts = self._parts, len(self._parts)
        return first, [(b"%d" % (first + number)).join(parts[number % hosts]) for number in range(count)]

    def _check(self, heard: Sequence[bytes], first: int) -> None:
        self._host.check_echoes(map(self._payload, heard), first, len(heard))
