"""Log messages of servers, for one host: the level at which it wants them, and how they are said to it.

A legacy host sets a level for all its requests (2024-11-05 to 2025-11-25 server/utilities/logging), a modern one asks
on each request (2026-07-28 server/utilities/logging), and gets none for one that does not ask.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Raw, UnsetType

from mcpx.errors import RemoteProtocolError
from mcpx.spec.carry import carry
from mcpx.spec.levels import LEVELS, Level, is_level, reaches
from mcpx.spec.meta import PER_HOP_KEYS
from mcpx.spec.revisions import LATEST_MODERN
from mcpx.wire.frames import INVALID_PARAMS, NULL, encode, notification, to_raw
from mcpx.wire.raws import members_of, string_of, without

if TYPE_CHECKING:
    from mcpx.gateway.gateway import Gateway
    from mcpx.host.inbound import Inbound, Turn
    from mcpx.host.service import Service
    from mcpx.upstream.call import Asker, LogMessage

log = logging.getLogger("mcpx.host")

LOG_MESSAGE = "notifications/message"
_TYPE = "LoggingMessageNotificationParams"
_EMPTY = Raw(b"{}")


async def set_level(service: Service, request: Inbound, turn: Turn) -> Raw:
    """``logging/setLevel``: answered at once. Servers are told of it before the host's next call, or when they start.

    Raises ``RemoteProtocolError`` (``-32602``) for what is no level.
    """
    level = string_of(request.params.get("level"))
    if not is_level(level):
        raise RemoteProtocolError(INVALID_PARAMS, f'Invalid params: "level" must be one of {", ".join(LEVELS)}')
    turn.relay.logs.set(request.asker, level)
    return _EMPTY


class HostLogs:
    """The level that one legacy host has set, which holds until its next handshake. ``close`` at its end.

    ``gateway`` is ``None`` for a host of which nothing can be kept between its requests.
    """

    def __init__(self, gateway: Gateway | None) -> None:
        self._gateway = gateway
        self._asker: Asker | None = None  # that has set a level
        self._leveled: Asker | None = None  # the same with it
        self._level: Level | None = None
        self._introduced: Asker | None = None  # that has made a handshake, and so knows of log messages

    def set(self, asker: Asker, level: Level) -> None:
        """From now on the host wants to hear of what reaches this level."""
        if self._gateway is None:
            log.info("Host %s: its log level cannot be kept, as it has opened no session", asker.host)
            return
        self._asker, self._leveled, self._level = asker, msgspec.structs.replace(asker, log_level=level), level
        self._gateway.set_level(asker, level)

    def follow(self, asker: Asker) -> None:
        """The host has confirmed its handshake: what it set before that is void."""
        self._introduced = asker
        if self._asker is not asker:
            self.close()

    def close(self) -> None:
        """Nobody wants this host's level any more."""
        if self._gateway is not None and self._asker is not None:
            self._gateway.set_level(self._asker, None)
        self._asker = self._leveled = self._level = None

    def asker(self, asker: Asker) -> Asker:
        """Who asks, with the level that is to be asked for: a modern host has said it itself."""
        return self._leveled if asker is self._asker and self._leveled is not None else asker

    def say(self, message: LogMessage, request: Inbound) -> bytes | None:
        """What is said to the host of a message that a request of its has caused; ``None`` for nothing."""
        if not request.modern:
            return self.say_beside(message, request.asker, request.revision)
        wanted = request.asker.log_level
        return _say(message, wanted, request.revision) if is_level(wanted) else None

    def say_beside(self, message: LogMessage, asker: Asker, revision: str) -> bytes | None:
        """What is said to a legacy host of a message, of a request or of none.

        One that set no level hears all, if it has made a handshake.
        """
        level = self._level if asker is self._asker else None
        return None if level is None and asker is not self._introduced else _say(message, level, revision)


class _Measure(msgspec.Struct):
    """What a log message must be to be passed on (the logging pages of all revisions)."""

    level: Level
    data: Raw
    logger: str | UnsetType = UNSET


_measure = msgspec.json.Decoder(_Measure)


def _say(message: LogMessage, least: Level | None, revision: str) -> bytes | None:
    """``notifications/message``, where it reaches the level; what is none is not said."""
    params = without(message.params, "_meta")
    if params.get("logger") == NULL:  # as if unsaid; `data` may well be null
        params = without(params, "logger")
    if (meta := members_of(message.params.get("_meta"))) is not None:
        params = {**params, "_meta": to_raw({key: one for key, one in meta.items() if key not in PER_HOP_KEYS})}
    written = to_raw(params)
    try:
        measured = _measure.decode(written)
    except msgspec.MsgspecError:
        return None
    if least is not None and not reaches(measured.level, least):
        return None
    # Taken as written in the newest revision, so that whatever the host's does not have is left out.
    return encode(notification(LOG_MESSAGE, carry(_TYPE, written, LATEST_MODERN, revision)))
