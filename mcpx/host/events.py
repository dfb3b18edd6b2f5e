"""What happens in the course of a request, as its host is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpx.host.progress import ProgressRelay
from mcpx.upstream.call import Progress

if TYPE_CHECKING:
    from mcpx.host.inbound import Inbound, Turn
    from mcpx.upstream.call import LogMessage


class Events:
    """Tells the host of one request of what that causes, where it wants to know of it."""

    def __init__(self, request: Inbound, turn: Turn) -> None:
        self._request = request
        self._turn = turn
        self._progress = ProgressRelay(request.token, request.revision)

    async def tell(self, event: Progress | LogMessage) -> None:
        """Tell of one, waiting while the host is far behind."""
        if isinstance(event, Progress):
            said = self._progress.say(event)
        else:
            said = self._turn.relay.logs.say(event, self._request)
        if said is not None:
            await self._turn.way.send(said)
