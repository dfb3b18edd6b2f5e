"""What one host is asked: requests of mcpx's own to a legacy host, and their answers (2024-11-05 to 2025-11-25
client/elicitation, client/sampling, client/roots).
"""

from __future__ import annotations

import logging
import secrets
from itertools import count
from typing import TYPE_CHECKING

from msgspec import UNSET

from mcpx.errors import RpcError
from mcpx.spec.asking import permit_question, refusal
from mcpx.spec.carry import carry_question
from mcpx.wire.frames import encode, error_object, notification, request, to_raw
from mcpx.wire.raws import string_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Raw

    from mcpx.upstream.call import Asker, Question
    from mcpx.wire.frames import Frame

    Settled = Callable[[Raw | RpcError], None]

log = logging.getLogger("mcpx.host")


def say_question(question: Question, asker: Asker, revision: str) -> dict[str, Raw]:
    """The params of a question as a host of ``revision`` is asked it.

    Raises ``RpcError`` for what the host did not declare, ``CannotSay`` for what its revision has no way to say.
    """
    permitted = permit_question(question.method, question.params, asker.capabilities, question.revision)
    minted = f"mcpx-{secrets.token_hex(8)}"  # used where the revision names a visit to a URL, and the server did not
    return carry_question(question.method, permitted, question.revision, revision, elicitation_id=minted)


class Desk:
    """The questions that one host was asked and has not answered. Their ids are none that a host would number by."""

    def __init__(self, host: str, revision: Callable[[], str]) -> None:
        self._host = host
        self._revision = revision  # in which the host writes
        self._numbers = count(1)
        self._open: dict[str, tuple[str, Settled]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def ask(self, method: str, params: dict[str, Raw], settled: Settled) -> tuple[str, bytes]:
        """Ask something: the id of the request, and the request, which is to be sent now.

        ``settled`` is called once, with the result as the host wrote it or its error, unless it is withdrawn before.
        """
        id = f"mcpx-{next(self._numbers)}"
        self._open[id] = (method, settled)
        return id, encode(request(to_raw(id), method, params or UNSET))

    def settle(self, frame: Frame) -> bool:
        """Take a response; ``False`` for one to nothing that is asked (any more)."""
        asked = None if frame.id is UNSET else self._open.pop(string_of(frame.id) or "", None)
        if asked is None:
            return False
        _, settled = asked
        if frame.error is UNSET or frame.result is not UNSET:
            assert frame.result is not UNSET
            settled(frame.result)
        else:
            error = error_object(frame.error)
            data = None if error.data is UNSET else error.data
            settled(RpcError(error.code, error.message, data, revision=self._revision()))
        return True

    def refuse(self, id: Raw | None, reason: str) -> bool:
        """The answer has come and cannot be read; say whether there was such a question."""
        asked = self._open.pop(string_of(id) or "", None)
        if asked is None:
            return False
        method, settled = asked
        log.warning("Host %s: its answer to %s cannot be used: %s", self._host, method, reason)
        settled(refusal(method, reason))
        return True

    def withdraw(self, id: str, reason: str) -> bytes | None:
        """No answer is awaited any more: what tells the host so, where it has not answered."""
        if self._open.pop(id, None) is None:
            return None
        return encode(notification("notifications/cancelled", {"requestId": id, "reason": reason}))

    def close(self) -> None:
        """The host has gone, and answers nothing any more."""
        for method, settled in list(self._open.values()):
            settled(refusal(method, "The host has gone"))
        self._open.clear()
