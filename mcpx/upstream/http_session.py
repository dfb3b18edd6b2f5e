"""The session of a legacy server over HTTP: its id, how it is opened anew where the server forgot it, and its end.

(2025-03-26 to 2025-11-25 basic/transports, Session Management.)
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from msgspec import Raw

from mcpx.errors import BrokenAnswer, ConnectError
from mcpx.spec.headers import MCP_PROTOCOL_VERSION, MCP_SESSION_ID
from mcpx.spec.revisions import VERSION_HEADER
from mcpx.upstream.http_answers import ACCEPT, NoAnswer, Place, no_answer, read_messages, read_refusal
from mcpx.upstream.http_letters import INITIALIZE, INITIALIZED, Letter, read_answer
from mcpx.wire import frames
from mcpx.wire.raws import members_of, string_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpx.transports.http_client import HttpAnswer, HttpClient

log = logging.getLogger("mcpx.upstream")

READY_LIMIT = 10.0  # seconds that requests wait for the server to accept that the handshake is over
# Seconds that the first requests of a session wait until its own stream is open: what a server says there is lost as
# long as nobody listens (the official SDKs' servers keep nothing), a question about the first call as well.
LISTEN_LIMIT = 0.5
RENEW_LIMIT = 30.0  # seconds for opening a session anew
DELETE_LIMIT = 0.5  # seconds for telling the server that a session is over; within any exit budget

_VISIBLE = re.compile(r"[\x21-\x7e]+")  # what an id may hold


class LegacySession:
    """What was agreed in a handshake over HTTP. One that the server no longer knows is opened anew, as often as needed,
    with the very same ``initialize``.

    ``renewed`` is called when that is done, and ``end`` with the reason when it is not possible.
    """

    def __init__(
        self,
        server: str,
        client: HttpClient,
        crew: trio.Nursery,
        *,
        end: Callable[[str], None],
        renewed: Callable[[], Awaitable[None]],
        max_frame: int,
    ) -> None:
        self._server = server
        self._client = client
        self._crew = crew
        self._end = end
        self._renewed = renewed
        self._max_frame = max_frame
        self._initialize: Letter | None = None
        self._agreed: Any = None
        self._revision: str | None = None
        self._renewing: trio.Event | None = None  # set when the renewal under way is done
        self._ready = trio.Event()  # the server has accepted that the handshake is over
        self.id: str | None = None
        self.generation = 0  # counts the sessions; 0: none yet
        self.opened = trio.Event()  # of the session; set when it is in use
        self.replaced = trio.Event()  # of the session; set when it is over and another is to take its place
        self.listening = trio.Event()  # of the session; set when its own stream is open, or there is none to be had

    @property
    def headers(self) -> dict[str, str]:
        """What every message after the handshake says of it (Session Management; Protocol Version Header)."""
        found: dict[str, str] = {}
        if self.id is not None:
            found[MCP_SESSION_ID] = self.id
        if self._revision in VERSION_HEADER:
            found[MCP_PROTOCOL_VERSION] = self._revision
        return found

    def agreed(self, letter: Letter, answer: HttpAnswer, result: Raw) -> None:
        """The server has answered ``initialize``."""
        self._initialize = letter
        self._agreed = _agreement(result)
        self._revision = string_of((members_of(result) or {}).get("protocolVersion"))
        self._adopt(answer)

    def _adopt(self, answer: HttpAnswer) -> None:
        given = answer.headers.get(MCP_SESSION_ID)
        if given is not None and not _VISIBLE.fullmatch(given):
            log.warning("[%s] gave its session an id with characters that none may hold; it is not used", self._server)
            given = None
        self.id = given
        self.generation += 1

    def completed(self) -> None:
        """The server has taken, or refused, the notification that the handshake is over."""
        self._ready.set()
        self.opened.set()

    async def until_ready(self) -> None:
        """Wait while a session is being opened: what comes too early would be refused."""
        if self._ready.is_set() and self._renewing is None and self.listening.is_set():
            return  # nothing is waited for, and nobody else gets a turn
        with trio.move_on_after(READY_LIMIT):
            await self._ready.wait()
        listening: trio.Event | None = None
        # Whatever was waited for, the session may be opened anew meanwhile, and what is said then is in none at all.
        while self._renewing is not None or listening is not self.listening:
            if self._renewing is not None:
                await self._renewing.wait()
                continue
            listening = self.listening
            with trio.move_on_after(LISTEN_LIMIT):
                await listening.wait()
            listening.set()  # nothing waits for it a second time

    async def renew(self, generation: int) -> bool:
        """Open the session anew, unless that has been done since ``generation``; whether there is one now.

        Whoever needs it waits for the one renewal, which goes on when they no longer do.
        """
        if self.generation == generation:
            if self._renewing is None:
                self._renewing = trio.Event()
                self._crew.start_soon(self._renew, name=f"new session with {self._server}")
            await self._renewing.wait()
        elif self._renewing is not None:
            await self._renewing.wait()
        return self.generation != generation

    async def _renew(self) -> None:
        assert self._renewing is not None
        reason: str | None = f"it was not there within {RENEW_LIMIT:g} s."
        before, self.id = self.id, None
        self.replaced.set()
        self.opened, self.replaced, self.listening = trio.Event(), trio.Event(), trio.Event()
        try:
            with trio.move_on_after(RENEW_LIMIT):
                reason = await self._try_renewing()
        except (ConnectError, BrokenAnswer) as error:
            reason = str(error)
        except NoAnswer as error:
            reason = error.reason
        finally:
            renewing, self._renewing = self._renewing, None
            renewing.set()
        if reason is not None:
            self.id = before
            self._end(f"The session with the server expired, and no new one could be opened: {reason}")
        else:
            log.info("[%s] its session had expired; there is a new one", self._server)
            self.completed()
            await self._renewed()

    async def _try_renewing(self) -> str | None:
        """Make the handshake once more; why it failed, if it did."""
        assert self._initialize is not None
        letter = self._initialize
        result: Raw | None = None
        refused: str | None = None

        async def take(body: bytes, alone: bool) -> bool:
            nonlocal result, refused
            found = read_answer(body, letter.id or 0, alone=alone).frame
            if found is not None and isinstance(found.result, Raw):
                result = found.result
            elif found is not None and isinstance(found.error, Raw):
                refused = frames.error_object(found.error).message
            return found is not None

        headers = {"Accept": ACCEPT, "Content-Type": "application/json"}
        async with self._client.open_answer("POST", headers, letter.body) as answer:
            if answer.status >= 300:
                return (await read_refusal(answer, self._client.secrets)).reason()
            await read_messages(answer, take, Place(), self._max_frame)
            if result is None:
                return f"it refused {INITIALIZE}: {refused}." if refused else no_answer(letter, answer).reason
            if _agreement(result) != self._agreed:
                return "it is another server now, of another revision or with other capabilities."
            self._adopt(answer)
        done = frames.encode(frames.notification(INITIALIZED))
        async with self._client.open_answer("POST", {**headers, **self.headers}, done) as answer:
            if answer.status >= 300:
                return (await read_refusal(answer, self._client.secrets)).reason()
            await answer.read(self._max_frame)
        return None

    async def delete(self) -> None:
        """Tell the server that the session is over; one that does not want to know need not."""
        if self.id is None:
            return
        headers, self.id = self.headers, None
        with trio.move_on_after(DELETE_LIMIT, shield=True):
            try:
                async with self._client.open_answer("DELETE", headers):
                    return
            except (ConnectError, BrokenAnswer):
                return


def _agreement(result: Raw) -> tuple[Any, Any]:
    """What of an answer to ``initialize`` must be the same when a session is opened anew."""
    members = members_of(result) or {}
    try:
        capabilities: Any = msgspec.json.decode(members.get("capabilities", Raw(b"{}")))
    except (msgspec.MsgspecError, RecursionError):
        capabilities = None
    return string_of(members.get("protocolVersion")), capabilities
