"""What a host says, in either era, and what it must hear: frames as bytes, made and looked at outside the clock."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from rig.upstreams.answers import image

if TYPE_CHECKING:
    from collections.abc import Iterable

Era = Literal["legacy", "modern"]
REVISIONS: dict[Era, str] = {"legacy": "2025-11-25", "modern": "2026-07-28"}
FIRST = 1_000_000  # ids begin here, so that they and with them all calls are of one length
CALL_SIZE = 200  # bytes of a call of ``echo``, without an envelope
INFO = {"name": "bench", "version": "1"}
_META = "io.modelcontextprotocol/"
_FILL = "the quick brown fox jumps over the lazy dog, "
Message = dict[str, Any]


class WrongAnswerError(Exception):
    """What was heard is not what the call asked for."""


class Host:
    """One host's words. ``prefix`` is what the gateway puts before the names of tools."""

    def __init__(self, era: Era, prefix: str = "") -> None:
        self.era: Era = era
        self.revision = REVISIONS[era]
        self.prefix = prefix
        self._image = ""
        self._fill = ""
        self._envelope: Message = {}
        self._fill = (_FILL * 4)[: CALL_SIZE - len(self.echo(FIRST))]
        if era == "modern":
            said = {"protocolVersion": self.revision, "clientInfo": INFO, "clientCapabilities": {}}
            self._envelope = {"_meta": {_META + key: value for key, value in said.items()}}

    def opening(self) -> list[bytes]:
        """The handshake, where the era has one: a request, then a notification."""
        if self.era == "modern":
            return []
        hello = {"protocolVersion": self.revision, "capabilities": {}, "clientInfo": INFO}
        return [
            _encoded({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
            _encoded({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        ]

    def listing(self, id: int) -> bytes:
        return self._request(id, "tools/list", {})

    def echo(self, id: int, tool: str = "echo") -> bytes:
        """A call of 200 bytes, and in the modern era those of its envelope, whose text tells its id."""
        return self._request(id, "tools/call", {"name": self.prefix + tool, "arguments": {"text": f"{self._fill}{id}"}})

    def large(self, id: int) -> bytes:
        return self._request(id, "tools/call", {"name": f"{self.prefix}large", "arguments": {}})

    def _request(self, id: int, method: str, params: Message) -> bytes:
        return _encoded({"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, **self._envelope}})

    # -- what it must hear

    def check_opening(self, answer: bytes) -> None:
        heard = result_of(answer)
        if heard.get("protocolVersion") != self.revision or "tools" not in heard.get("capabilities", {}):
            raise WrongAnswerError(f"the handshake was answered {_shown(answer)}")

    def check_listing(self, answer: bytes) -> None:
        names = {tool["name"] for tool in result_of(answer)["tools"]}
        if not names >= {f"{self.prefix}echo", f"{self.prefix}large"}:
            raise WrongAnswerError(f"the tools are {sorted(names)[:8]}")

    def check_echo(self, answer: bytes) -> int:
        """The id of an answer to ``echo``, which must be in its text as well."""
        frame = _decoded(answer)
        self._check_content(frame, [{"type": "text", "text": f"{self._fill}{frame.get('id')}"}], answer)
        return frame["id"]

    def check_large(self, answer: bytes) -> int:
        self._image = self._image or image()
        frame = _decoded(answer)
        self._check_content(frame, [{"type": "image", "data": self._image, "mimeType": "image/png"}], answer)
        return frame["id"]

    def check_echoes(self, answers: Iterable[bytes], first: int, count: int) -> None:
        """All of them were answered, each once."""
        heard = [self.check_echo(answer) for answer in answers]
        if sorted(heard) != list(range(first, first + count)):
            raise WrongAnswerError(f"{count} calls got {len(heard)} answers, {len(set(heard))} of them different")

    def _check_content(self, frame: Message, content: list[Message], answer: bytes) -> None:
        result: Message = frame.get("result", {})
        if result.get("content") != content or result.get("isError"):
            raise WrongAnswerError(f"a call was answered {_shown(answer)}")


def result_of(answer: bytes) -> Message:
    frame = _decoded(answer)
    if "result" not in frame:
        raise WrongAnswerError(f"a request was answered {_shown(answer)}")
    return frame["result"]


def _decoded(answer: bytes) -> Message:
    try:
        return json.loads(answer)
    except ValueError as error:
        raise WrongAnswerError(f"an answer is no JSON: {_shown(answer)}") from error


def _encoded(frame: Message) -> bytes:
    return json.dumps(frame, separators=(",", ":")).encode()


def _shown(answer: bytes) -> str:
    return answer[:300].decode(errors="replace").strip()
