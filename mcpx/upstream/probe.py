"""Which era a server is of, and the opening of a session in it (rows LV-27 to LV-32).

The default asks ``server/discover`` first (2026-07-28 basic/transports/stdio, Backward Compatibility). A server slower
than ``probeDelay`` is sent ``initialize`` while the probe is still awaited; from then on the answer to ``initialize``
decides, because that is the one thing that both kinds of dual-era server agree on. Nothing that is sent here is ever
cancelled on the wire, and no notification goes out before the era is decided.

Over HTTP a refusal may have nothing of MCP in it. Then its status counts: most say that there is no such request here,
and some that nobody is let in, or that the server is not there, which says nothing of its era (2026-07-28
basic/transports/streamable-http, Backward Compatibility).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import trio
from msgspec import UNSET, Raw

from mcpx.errors import McpxError, RpcError, UpstreamGone, UpstreamStartError, UpstreamUnanswered
from mcpx.spec.codes import MODERN_CODES, UNSUPPORTED_VERSION
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY, MODERN, SUPPORTED, newest_common
from mcpx.upstream.call import Identity
from mcpx.upstream.clock import CallClock
from mcpx.upstream.eras import Remembered
from mcpx.upstream.legacy import LegacyForm, initialize_params, read_initialize_result
from mcpx.upstream.modern import DiscoverResult, ModernForm, discover_params
from mcpx.upstream.pending import PendingCall
from mcpx.wire import frames

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpx.upstream.call import Asker
    from mcpx.upstream.connection import Connection

Opening = Literal["probe", "discover", "initialize"]


class DiedOnProbe(McpxError):
    """The server ended on being probed; start it again and open it with ``initialize``."""


class NotStreamable(McpxError):
    """The server takes no POST of this kind; it may be one of HTTP+SSE. ``error`` is what to say if it is not."""

    def __init__(self, error: UpstreamStartError) -> None:
        super().__init__(error.reason)
        self.error = error


# HTTP statuses with which ``initialize`` is refused by a server of HTTP+SSE (2025-11-25 basic/transports, Backwards
# Compatibility), and those that say nothing of a server's era: who asks is not let in, asks too often, or there is
# no server behind the address at present.
NOT_STREAMABLE = frozenset({400, 404, 405})
NO_VERDICT = frozenset({401, 402, 403, 407, 408, 429, 502, 503, 504})

Answer = Raw | RpcError | UpstreamUnanswered


class Agreement(msgspec.Struct, frozen=True, eq=False):
    """What was agreed on, and what of it is worth remembering."""

    form: LegacyForm | ModernForm
    identity: Identity
    remember: Remembered


class Plan(msgspec.Struct, frozen=True):
    """How a server is to be opened. ``preference`` is its ``protocol`` setting."""

    preference: str
    opening: Opening
    probe_delay: float

    def beginning_with(self, opening: Opening) -> Plan:
        """The same plan with another first step."""
        return msgspec.structs.replace(self, opening=opening)

    @property
    def pinned(self) -> str | None:
        """The one revision that is allowed, if the configuration names one."""
        return self.preference if self.preference in SUPPORTED else None

    @property
    def modern(self) -> tuple[str, ...]:
        """The modern versions that may be agreed on, newest first."""
        return _allowed(self.preference, MODERN, forbidden=None)

    @property
    def legacy(self) -> tuple[str, ...]:
        """The legacy revisions that may be agreed on, newest first."""
        return _allowed(self.preference, LEGACY, forbidden="modern")


def plan(preference: str, remembered: Remembered, probe_delay: float) -> Plan:
    """The plan for a preference (LV-32) and what is remembered (LV-31)."""
    if preference == "modern" or preference in MODERN:
        opening: Opening = "discover"
    elif preference == "legacy" or preference in LEGACY:
        opening = "initialize"
    else:
        openings: dict[str | None, Opening] = {None: "probe", "modern": "discover", "legacy": "initialize"}
        opening = openings[remembered.era]
    return Plan(preference, opening, probe_delay)


def _allowed(preference: str, era: tuple[str, ...], *, forbidden: str | None) -> tuple[str, ...]:
    if preference in SUPPORTED:
        return (preference,) if preference in era else ()
    return () if preference == forbidden else era


class _Discovered(msgspec.Struct, frozen=True, eq=False):
    """The server named its versions: in a DiscoverResult, or in an error that lists them."""

    versions: list[str]
    identity: Identity | None  # None: only an error said so


class _Refused(msgspec.Struct, frozen=True, eq=False):
    """The server answered with an error, or something, that no modern server would."""

    error: RpcError | UpstreamUnanswered

    @property
    def is_sure(self) -> bool:
        """Whether it says for certain that the server is not modern, so that it is worth remembering."""
        return isinstance(self.error, RpcError) or self.error.status in NOT_STREAMABLE


class _UnsupportedData(msgspec.Struct):
    supported: list[str]


class Opener:
    """Opens one session on one connection. One use."""

    def __init__(
        self,
        connection: Connection,
        plan: Plan,
        *,
        asker: Asker,
        tell: Callable[[Asker], Mapping[str, Raw]],
        client_info: Raw,
        passthrough: bool,
        late: Callable[[Remembered], None],
    ) -> None:
        self._connection = connection
        self._server = connection.server
        self._plan = plan
        self._tell = tell
        self._told = tell(asker)
        self._client_info = client_info
        self._passthrough = passthrough
        self._late = late  # called when a probe that lost its race is answered after all: worth remembering

    async def open(self) -> Agreement:
        """Agree on an era and a revision.

        The caller holds the clock (``startTimeout``). Raises ``UpstreamStartError`` where nothing can be agreed on, and
        ``DiedOnProbe`` where another try should begin with ``initialize``.
        """
        openings = {"probe": self._probe, "discover": self._discover_first, "initialize": self._initialize_first}
        return await openings[self._plan.opening]()

    # -- the three openings

    async def _probe(self) -> Agreement:
        probe = self._request("server/discover", self._discover_params(LATEST_MODERN), late=True)
        try:
            answer: Answer | None = None
            with trio.move_on_after(self._plan.probe_delay):
                answer = await _answer(probe)
            return await (self._race(probe) if answer is None else self._judge_alone(answer))
        except UpstreamGone as error:
            raise DiedOnProbe(error.reason) from None

    async def _discover_first(self) -> Agreement:
        answer = await self._discover(self._plan.modern[0] if self._plan.modern else LATEST_MODERN)
        return await self._judge_alone(answer)

    async def _initialize_first(self) -> Agreement:
        answer = await self._initialize(self._plan.legacy[0] if self._plan.legacy else LATEST_LEGACY)
        if isinstance(answer, Raw):
            return self._complete_handshake(answer)
        if not self._plan.modern:
            raise self._refused(answer, _nothing_here(answer) or f"The server refused initialize: {_say(answer)}.")
        # Refused with whatever error: only a modern server does that, and one that names its versions says so itself.
        verdict = await self._discover(LATEST_MODERN)
        if isinstance(verdict, _Refused):
            raise self._refused_both("initialize", answer, "server/discover", verdict.error)
        return await self._judge_alone(verdict)

    async def _race(self, probe: _Probe) -> Agreement:
        """``initialize`` overtook an unanswered probe: its answer decides, and nothing else is sent before it."""
        answer = await self._initialize(LATEST_LEGACY)
        probe_answer = probe.answer_nowait()
        if isinstance(answer, Raw):
            agreement = self._complete_handshake(answer)
            verdict = None if probe_answer is None else _read_probe(probe_answer)
            if isinstance(verdict, _Discovered) and newest_common(verdict.versions, MODERN) is not None:
                # This process has chosen the legacy era; the next one need not be hurried into it.
                era: Literal["legacy", "modern"] | None = "modern"
            else:
                era = "legacy" if isinstance(verdict, _Refused) else None
            probe.late_allowed = probe_answer is None
            return msgspec.structs.replace(agreement, remember=msgspec.structs.replace(agreement.remember, era=era))
        verdict = _read_probe(probe_answer if probe_answer is not None else await _answer(probe))
        if isinstance(verdict, _Refused):
            raise self._refused_both("server/discover", verdict.error, "initialize", answer)
        if newest_common(verdict.versions, self._plan.modern) is None:
            raise self._nothing_in_common(verdict.versions)
        return await self._judge_alone(verdict)

    # -- verdicts

    async def _judge_alone(self, answer: Answer | _Discovered | _Refused) -> Agreement:
        """Follow a verdict while no ``initialize`` is under way."""
        verdict = answer if isinstance(answer, (_Discovered, _Refused)) else _read_probe(answer)
        if isinstance(verdict, _Refused):
            if isinstance(verdict.error, RpcError) and verdict.error.code in MODERN_CODES:
                raise self._failed(
                    f"The server is of the modern era, but refused server/discover: {_say(verdict.error)}."
                )
            if not self._plan.legacy:
                raise self._failed(
                    f"The server refused server/discover ({_say(verdict.error)}), so it is of the legacy era, which "
                    f'"protocol": "{self._plan.preference}" rules out.'
                )
            return await self._open_legacy(self._plan.legacy[0], verdict)
        modern = newest_common(verdict.versions, self._plan.modern)
        if modern is not None:
            return await self._open_modern(modern, verdict)
        legacy = newest_common(verdict.versions, self._plan.legacy)
        if legacy is not None:
            return await self._open_legacy(legacy)
        raise self._nothing_in_common(verdict.versions)

    async def _open_modern(self, version: str, verdict: _Discovered) -> Agreement:
        if verdict.identity is None:  # only an error named the versions: ask with one of them, once
            again = await self._discover(version)
            if isinstance(again, _Refused) or again.identity is None:
                raise self._failed(f"The server names {version} as supported, but refuses server/discover with it.")
            verdict = again
        identity = verdict.identity or Identity()
        form = ModernForm(version, self._client_info, tell=self._tell, passthrough=self._passthrough)
        return Agreement(form, identity, _memory("modern", version, identity))

    async def _open_legacy(self, offered: str, refused: _Refused | None = None) -> Agreement:
        """``refused`` is how the server answered the probe, where it named no versions."""
        answer = await self._initialize(offered)
        if not isinstance(answer, Raw):
            if refused is None:
                raise self._refused(answer, f"The server names {offered}, but refused initialize: {_say(answer)}.")
            raise self._refused_both("server/discover", refused.error, "initialize", answer)
        agreement = self._complete_handshake(answer)
        if refused is None or refused.is_sure:
            return agreement
        return msgspec.structs.replace(agreement, remember=msgspec.structs.replace(agreement.remember, era=None))

    def _complete_handshake(self, answer: Raw) -> Agreement:
        form, identity = read_initialize_result(self._server, answer, told=self._told, pinned=self._plan.pinned)
        self._connection.notify("notifications/initialized")
        return Agreement(form, identity, _memory("legacy", form.revision, identity))

    # -- requests

    async def _discover(self, version: str) -> _Discovered | _Refused:
        probe = self._request("server/discover", self._discover_params(version))
        return _read_probe(await _answer(probe))

    async def _initialize(self, offered: str) -> Answer:
        return await _answer(self._request("initialize", initialize_params(offered, self._told, self._client_info)))

    def _discover_params(self, version: str) -> dict[str, Any]:
        return discover_params(version, self._told, self._client_info)

    def _request(self, method: str, params: dict[str, Any], *, late: bool = False) -> _Probe:
        return _Probe(
            self._connection,
            lambda number: frames.encode(frames.request(Raw(b"%d" % number), method, params)),
            self._late if late else None,
        )

    # -- failures

    def _failed(self, reason: str) -> UpstreamStartError:
        return UpstreamStartError(self._server, reason)

    def _refused(self, answer: RpcError | UpstreamUnanswered, reason: str) -> UpstreamStartError | NotStreamable:
        """The server refused ``initialize``, as far as this channel reaches."""
        failed = self._failed(reason)
        if isinstance(answer, UpstreamUnanswered) and answer.status in NOT_STREAMABLE:
            return NotStreamable(failed)
        return failed

    def _refused_both(
        self, first: str, error: RpcError | UpstreamUnanswered, second: str, other: RpcError | UpstreamUnanswered
    ) -> UpstreamStartError | NotStreamable:
        said, also = _say(error), _say(other)
        initialize = error if first == "initialize" else other
        reason = f"The server refused both {first} ({said}) and {second} ({also})."
        if isinstance(error, UpstreamUnanswered) and (nothing := _nothing_here(other)) is not None:
            reason = nothing
        elif said == also:
            reason = f"The server refused both {first} and {second} ({said})."
        return self._refused(initialize, reason)

    def _nothing_in_common(self, versions: list[str]) -> UpstreamStartError:
        allowed = self._plan.modern + self._plan.legacy
        return self._failed(
            f"No revision in common: the server speaks {', '.join(versions) or 'none'}, "
            f"and mcpx would speak {', '.join(allowed)} with it."
        )


class _Probe(PendingCall):
    """A request of the opening: no limits of its own, never cancelled on the wire, and heard even when it is late."""

    __slots__ = ("_late", "late_allowed")

    def __init__(
        self, connection: Connection, build: Callable[[int], bytes], late: Callable[[Remembered], None] | None
    ) -> None:
        super().__init__(connection, build, CallClock(math.inf, math.inf), cancellable=False)
        self._late = late
        self.late_allowed = False

    def finish(self, outcome: Raw | Exception) -> None:
        super().finish(outcome)
        if self.late_allowed and self._late is not None and isinstance(outcome, Raw):
            verdict = _read_probe(outcome)
            if isinstance(verdict, _Discovered) and (version := newest_common(verdict.versions, MODERN)) is not None:
                self._late(_memory("modern", version, verdict.identity or Identity()))

    def answer_nowait(self) -> Answer | None:
        """The answer, if it came."""
        event = self._events[-1] if self._events else None
        return event if isinstance(event, (Raw, RpcError, UpstreamUnanswered)) else None


async def _answer(request: _Probe) -> Answer:
    """The answer to a request of the opening; an error is an answer too, and so is a refusal over HTTP.

    Raises ``UpstreamUnanswered`` for one that is about who asks, or whether the server is there.
    """
    while True:
        try:
            event = await request.next_raw()
        except RpcError as error:
            return error
        except UpstreamUnanswered as error:
            if not error.reached or error.status in NO_VERDICT:
                raise
            return error
        if isinstance(event, Raw):
            return event


def _read_probe(answer: Answer) -> _Discovered | _Refused:
    """What an answer to ``server/discover`` says. The code is parsed, never searched for in a text (LV-28)."""
    if isinstance(answer, UpstreamUnanswered):
        return _Refused(answer)
    if isinstance(answer, RpcError):
        if answer.code == UNSUPPORTED_VERSION and isinstance(answer.data, Raw):
            try:
                return _Discovered(msgspec.json.decode(answer.data, type=_UnsupportedData).supported, None)
            except (msgspec.MsgspecError, RecursionError):
                return _Refused(answer)
        return _Refused(answer)
    try:
        result = msgspec.json.decode(answer, type=DiscoverResult)
    except (msgspec.MsgspecError, RecursionError):
        # Some servers answer any method with some result. It names no versions, so it is no DiscoverResult.
        return _Refused(RpcError(frames.INVALID_REQUEST, "an answer that is no DiscoverResult"))
    return _Discovered(result.supported_versions, result.identity)


def _memory(era: Literal["legacy", "modern"], revision: str, identity: Identity) -> Remembered:
    return Remembered(
        era,
        revision,
        UNSET if identity.server_info is None else identity.server_info,
        dict(identity.capabilities),
        identity.instructions,
    )


def _nothing_here(answer: RpcError | UpstreamUnanswered) -> str | None:
    """What to say of a server whose HTTP answers have nothing of MCP in them."""
    if isinstance(answer, RpcError) or answer.status is None:
        return None
    ask = "" if answer.reason.endswith("?") else " Is the URL right?"
    return f"There seems to be no MCP server at this URL. {answer.reason}{ask}"


def _say(error: RpcError | UpstreamUnanswered) -> str:
    return f"{error.code} {error.message!r}" if isinstance(error, RpcError) else error.reason.rstrip(".")
