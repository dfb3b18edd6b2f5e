"""Progress of a host's request, as its revision says it, under the token that the host gave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from mcpx.spec.carry import carry
from mcpx.spec.mend import mend
from mcpx.spec.meta import PER_HOP_KEYS, PROGRESS_TOKEN
from mcpx.spec.revisions import LATEST_MODERN
from mcpx.wire.frames import encode, notification, to_raw
from mcpx.wire.raws import members_of

if TYPE_CHECKING:
    from msgspec import Raw

    from mcpx.upstream.call import Progress


class _Measure(msgspec.Struct):
    """What a progress notification must be to be passed on (the progress pages of all revisions)."""

    progress: float
    total: float | UnsetType = UNSET
    message: str | UnsetType = UNSET


_measure = msgspec.json.Decoder(_Measure)


class ProgressRelay:
    """Says the progress of one request, for as long as it gets further: its value must increase with each notification
    (the progress pages of all revisions, Progress Flow). ``token`` is the host's; without one nothing is said.
    """

    def __init__(self, token: Raw | None, revision: str) -> None:
        self._token = token
        self._revision = revision
        self._reached = float("-inf")

    def say(self, event: Progress) -> bytes | None:
        """``notifications/progress`` with the token in its exact spelling; ``None`` for what is none, or no step
        forward.
        """
        if self._token is None:
            return None
        params = {PROGRESS_TOKEN: self._token, **event.params}
        if (meta := members_of(params.pop("_meta", None))) is not None:
            params["_meta"] = to_raw({key: value for key, value in meta.items() if key not in PER_HOP_KEYS})
        written = mend("ProgressNotificationParams", to_raw(params))
        try:
            measured = _measure.decode(written)
        except msgspec.MsgspecError:
            return None
        if measured.progress <= self._reached:
            return None
        self._reached = measured.progress
        # Taken as written in the newest revision, so that whatever the host's does not have is left out.
        said = carry("ProgressNotificationParams", written, LATEST_MODERN, self._revision)
        return encode(notification("notifications/progress", said))
