"""The stream on which a legacy server says what belongs to no call: opened with a GET, and opened again when it ends.

(2025-03-26 to 2025-11-25 basic/transports, Listening for Messages from the Server; Resumability and Redelivery.)
"""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING, Literal

import trio

from mcpx.errors import BrokenAnswer, ConnectError
from mcpx.spec.headers import LAST_EVENT_ID
from mcpx.transports.channel import Gap
from mcpx.upstream.backoff import HEALTHY, restart_delay
from mcpx.upstream.http_answers import EVENTS, NoAnswer, Place, read_events

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpx.settings import Limits
    from mcpx.upstream.http_channel import PostingChannel
    from mcpx.upstream.http_session import LegacySession

log = logging.getLogger("mcpx.upstream")

Outcome = Literal["ended", "failed", "none", "expired"]


class _Record:
    """How the stream has fared, over all sessions."""

    def __init__(self) -> None:
        self.failures = 0  # in a row

    def note(self, outcome: Outcome, lasted: float) -> None:
        self.failures = 1 if outcome == "ended" and lasted >= HEALTHY else self.failures + 1


async def run_listening(channel: PostingChannel, session: LegacySession, limits: Limits) -> None:
    """Keep the stream of each session open, as far as the server has one to give."""
    record = _Record()
    while True:
        await session.opened.wait()
        replaced = session.replaced
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_keep_open, channel, session, limits, record)
            await replaced.wait()
            nursery.cancel_scope.cancel()


async def _keep_open(channel: PostingChannel, session: LegacySession, limits: Limits, record: _Record) -> None:
    """Open one session's stream, and again when it ends; until the server says that it has none."""
    generation = session.generation
    place = Place()
    was_open = tried = False
    listening = session.listening
    while True:
        delay = restart_delay(record.failures, limits.restart_backoff_step, limits.restart_backoff_max, random.random())
        await trio.sleep(max(delay, place.retry or 0))
        began = trio.current_time()
        outcome = await _listen(channel, session, place, listening.set, again=tried)
        tried = True
        listening.set()
        if outcome == "none" or (outcome == "expired" and not was_open):
            return  # it has no such stream, which it need not
        was_open = was_open or outcome == "ended"
        record.note(outcome, trio.current_time() - began)
        if outcome == "expired":
            await session.renew(generation)  # nothing else may ask for long, and what changes is to be heard


async def _listen(
    channel: PostingChannel, session: LegacySession, place: Place, opened_now: Callable[[], None], *, again: bool
) -> Outcome:
    """Open the stream once and read it to its end; ``opened_now`` is called when it is open. ``again``: not for the
    first time in this session.
    """

    resumed = place.last_id is not None  # what was said meanwhile comes now

    async def take(body: bytes, alone: bool) -> bool:
        await channel.deliver(body)
        return False

    opened = False
    headers = {"Accept": EVENTS, **session.headers}
    if place.last_id is not None:
        headers[LAST_EVENT_ID] = place.last_id
    try:
        async with channel.client.open_answer("GET", headers) as answer:
            if answer.status == 404:
                return "expired"
            if answer.status >= 500 and answer.status != 501:
                return "failed"
            if answer.status != 200 or answer.media_type != EVENTS:
                log.debug("[%s] has no stream of its own (HTTP status %s)", channel.server, answer.status)
                return "none"
            opened = True
            opened_now()
            if again and not resumed:
                await channel.deliver(Gap(forgotten=False))
            await read_events(answer, take, place, channel.max_frame)
            return "ended"
    except NoAnswer as error:
        log.warning("[%s] %s It is skipped.", channel.server, error.reason)
        place.last_id = None  # or it would come again
        return "ended"
    except (BrokenAnswer, ConnectError):
        return "ended" if opened else "failed"
