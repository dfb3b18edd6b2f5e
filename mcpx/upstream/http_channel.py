"""What the channels over HTTP have in common: each message sent is a task of its own, and what comes back is queued."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING

import trio

from mcpx.errors import BrokenAnswer, ConnectError, LocalProtocolError
from mcpx.transports.channel import Gap, Lost, Said
from mcpx.upstream.http_answers import NoAnswer, Place, read_refusal
from mcpx.upstream.http_letters import Letter, read_letter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcpx.transports.channel import Oversize
    from mcpx.transports.http_client import HttpClient

log = logging.getLogger("mcpx.upstream")

MAX_QUEUED = 64  # messages that came, before those who bring more wait for the connection to take them
MAX_NOTES = 64  # notifications and answers under way at once, before their senders wait: they get no answer to wait for
NOTE_LIMIT = 30.0  # seconds that a server may take to accept one; a request may take as long as its caller waits
CLOSE_LIMIT = 0.5  # seconds that leaving waits for what is under way; within any exit budget

JSON_HEADERS = {"Content-Type": "application/json"}


class Exchange:
    """One request of ours, from its first byte to its answer."""

    def __init__(self, letter: Letter, number: int) -> None:
        self.letter = letter
        self.number = number
        self.scope = trio.CancelScope()
        self.sent = False  # all of it was written
        self.answered = False  # what came for it is an answer beyond doubt
        self.place = Place()
        self.generation = 0  # of the session that it was sent in
        self.doubt: str | None = None  # why its answer ends the channel as well

    def mark_sent(self) -> None:
        self.sent = True


class PostingChannel(ABC):
    """A ``ClientChannel`` whose every message is a POST. ``crew`` owns the tasks."""

    def __init__(self, server: str, client: HttpClient, crew: trio.Nursery, *, max_frame: int) -> None:
        self.server = server
        self.client = client
        self.max_frame = max_frame
        self._crew = crew
        self._exchanges: dict[int, Exchange] = {}
        self._came: deque[bytes | Said | Lost | Gap] = deque()
        self._arrival: trio.Event | None = None  # set when something comes; None while nobody waits for that
        self._taken = trio.Event()  # replaced whenever what came has been taken
        self._notes = 0  # under way
        self._progress = trio.Event()  # replaced whenever one of them is done
        self._end = "The connection to the server ended."
        self.ended = False

    # -- for the connection

    def describe_end(self) -> str:
        """How it ended, in a sentence for a person."""
        return self._end

    async def receive(self) -> Sequence[bytes | Oversize | Said | Lost | Gap]:
        """The next messages; see ``ClientChannel``."""
        while not (self._came or self.ended):
            self._arrival = trio.Event()
            await self._arrival.wait()
        messages = list(self._came)
        if len(messages) >= MAX_QUEUED:
            self._taken.set()
            self._taken = trio.Event()
        self._came.clear()
        return messages

    def send_nowait(self, message: bytes) -> None:
        """Send one message at once; see ``ClientChannel``."""
        self._begin(read_letter(message))

    def offer(self, message: bytes) -> bool:
        """Send one message at once, unless too many are under way; see ``ClientChannel``."""
        if self._notes >= MAX_NOTES:
            return False
        self.send_nowait(message)
        return True

    async def send(self, message: bytes) -> None:
        """Send one message; what gets no answer waits while too many are under way. See ``ClientChannel``."""
        await trio.lowlevel.checkpoint_if_cancelled()
        letter = read_letter(message)
        while letter.id is None and self._notes >= MAX_NOTES and not self.ended:
            await self._progress.wait()
        self._begin(letter)

    async def flush(self) -> None:
        """Wait until what gets no answer has been taken by the server. Bound it with a deadline."""
        while self._notes:
            await self._progress.wait()

    @abstractmethod
    def cancel(self, number: int, farewell: bytes | None) -> None:
        """Say that a request is no longer awaited; see ``ClientChannel``."""

    # -- for those who post

    def end(self, reason: str) -> None:
        """Nothing more comes, for a reason (a sentence)."""
        if not self.ended:
            self.ended = True
            self._end = reason
            self._taken.set()
            self._arrive()
            self._wake()

    async def deliver(self, item: bytes | Said | Lost | Gap) -> None:
        """Queue what came; where much is queued already, wait until the connection has taken it."""
        if self.ended:  # and with it every call
            return
        self._came.append(item)
        self._arrive()
        if len(self._came) >= MAX_QUEUED:
            await self._taken.wait()

    def _arrive(self) -> None:
        if self._arrival is not None:
            self._arrival.set()
            self._arrival = None

    def _begin(self, letter: Letter) -> None:
        if self.ended:
            return
        if letter.id is not None:
            self._exchanges[letter.id] = exchange = Exchange(letter, letter.id)
            self._crew.start_soon(self._run_exchange, exchange, name=f"{letter.method} to {self.server}")
        else:
            self._begin_note(letter)

    def _begin_note(self, letter: Letter, then: Callable[[], None] | None = None) -> None:
        """Post what gets no answer, and call ``then`` when that is over."""
        self._notes += 1
        self._crew.start_soon(self._run_note, letter, then, name=f"{letter.method or 'answer'} to {self.server}")

    async def _run_exchange(self, exchange: Exchange) -> None:
        """Make a request's exchange, and say when no answer can come any more."""
        lost: Lost | None = None
        with exchange.scope:
            try:
                reason = await self._converse(exchange)
                lost = None if reason is None else Lost(exchange.number, reason)
            except LocalProtocolError as error:
                lost = Lost(exchange.number, f"The request cannot be made over HTTP: {error}.")
            except ConnectError as error:
                lost = Lost(exchange.number, str(error), reached=False)
            except BrokenAnswer as error:
                lost = Lost(exchange.number, str(error))
            except NoAnswer as error:
                lost = Lost(exchange.number, error.reason, error.status)
        del self._exchanges[exchange.number]
        if exchange.scope.cancelled_caught:
            return
        if lost is not None:
            await self.deliver(lost)
        if exchange.doubt is not None:
            self.end(exchange.doubt)

    async def _run_note(self, letter: Letter, then: Callable[[], None] | None) -> None:
        """Post what gets no answer. That it was refused is worth a line in the log, and nothing else can be done."""
        why: str | None = f"not accepted within {NOTE_LIMIT:g} s"
        try:
            with trio.move_on_after(NOTE_LIMIT):
                why = await self._post_note(letter)
        except (LocalProtocolError, ConnectError, BrokenAnswer) as error:
            why = str(error)
        finally:
            self._notes -= 1
            self._wake()
            if then is not None:
                then()
        if why is not None:
            log.info("[%s] %s was not taken: %s", self.server, letter.method or "an answer", why)

    async def _post_note(self, letter: Letter) -> str | None:
        """Post what gets no answer; why it was refused, if it was."""
        headers = self._headers(letter)
        async with self.client.open_answer("POST", headers, letter.body, target=self._target) as answer:
            if answer.status >= 300:
                return (await read_refusal(answer, self._secrets(headers))).reason()
            await answer.read(self.max_frame)  # to the end, so that the connection is kept
            return None

    def _secrets(self, headers: dict[str, str]) -> tuple[str, ...]:
        """What is not to be quoted of an answer to a request with these headers."""
        return self.client.secrets

    def _wake(self) -> None:
        self._progress.set()
        self._progress = trio.Event()

    # -- what differs

    @property
    def _target(self) -> str | None:
        """Where to post; ``None`` for the URL of the configuration."""
        return None

    @abstractmethod
    def _headers(self, letter: Letter) -> dict[str, str]:
        """The headers of a message."""

    @abstractmethod
    async def _converse(self, exchange: Exchange) -> str | None:
        """Post a request, and deliver what the answer brings; why nothing comes for it any more, unless it may.

        Raises ``NoAnswer``, ``ConnectError`` or ``BrokenAnswer`` where nothing came for it.
        """
