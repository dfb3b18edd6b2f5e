"""How a function speaks to the host that called it, while it runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Raw, UnsetType

from mcpx.errors import LocalProtocolError
from mcpx.spec.levels import LEVELS, Level
from mcpx.spec.meta import PROGRESS_TOKEN
from mcpx.wire.frames import encode, notification

if TYPE_CHECKING:
    from collections.abc import Mapping

    import trio

    from mcpx.transports.channel import Channel


class Context:
    """One request, for the function that serves it. A parameter annotated with this class is given it.

    ``meta`` is the request's ``_meta``, each value as raw JSON.
    """

    def __init__(
        self,
        channel: Channel,
        scope: trio.CancelScope,
        meta: Mapping[str, Raw],
        token: Raw | UnsetType,
        log_level: Level | UnsetType,
    ) -> None:
        self.meta = meta
        self._channel = channel
        self._scope = scope  # of the request
        self._token = token
        self._least = len(LEVELS) if isinstance(log_level, UnsetType) else LEVELS.index(log_level)
        self._progress = -math.inf
        self._over = False

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress, if the host asked for it (2026-07-28 basic/patterns/progress).

        Waits while the host is slow to read. Raises ``LocalProtocolError`` where ``progress`` does not increase.
        """
        if not self._progress < progress < math.inf:
            raise LocalProtocolError(f"progress must increase: {progress} after {self._progress}")
        if total is not None and not math.isfinite(total):
            raise LocalProtocolError(f"a total must be a number: {total}")
        self._progress = progress
        params = {
            PROGRESS_TOKEN: self._token,
            "progress": progress,
            "total": UNSET if total is None else total,
            "message": UNSET if message is None else message,
        }
        await self._send("notifications/progress", params, wanted=self._token is not UNSET)

    async def log(self, level: Level, data: Any, logger: str | None = None) -> None:
        """Send a log message, if the host asked for messages of this level (2026-07-28 server/utilities/logging).

        ``data`` is any value that has a form in JSON.
        """
        params = {"level": level, "logger": UNSET if logger is None else logger, "data": data}
        await self._send("notifications/message", params, wanted=LEVELS.index(level) >= self._least)

    def end(self) -> None:
        """Say nothing more: the function has returned."""
        self._over = True

    async def _send(self, method: str, params: dict[str, Any], *, wanted: bool) -> None:
        if wanted and not self._over and not self._scope.cancel_called:
            kept = {name: value for name, value in params.items() if value is not UNSET}
            await self._channel.send(encode(notification(method, kept)))
