"""An app at one end of a channel: a task for each request, in the newest form of the protocol and no other.

2026-07-28 basic/index (metadata of requests and results), basic/versioning, basic/patterns/cancellation.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec
import trio
from msgspec import UNSET, Raw, UnsetType

from mcpx.app.context import Context
from mcpx.app.errors import FunctionBug, ToolError
from mcpx.app.function import guard
from mcpx.app.methods import METHODS
from mcpx.errors import RemoteProtocolError, RpcError
from mcpx.spec import levels, meta
from mcpx.spec.codes import UNSUPPORTED_VERSION
from mcpx.spec.revisions import MODERN, is_modern
from mcpx.transports.channel import Oversize
from mcpx.wire import frames
from mcpx.wire.frames import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Frame
from mcpx.wire.raws import members_of, string_of

if TYPE_CHECKING:
    from mcpx.app.app import App
    from mcpx.transports.channel import Channel

log = logging.getLogger("mcpx.app")

MAX_IN_FLIGHT = 1024  # requests of one channel; the gateway's own limit for a host, so never met first


class _Meta(msgspec.Struct):
    """The reserved keys of a request's ``_meta``, with their types."""

    version: str = msgspec.field(name=meta.PROTOCOL_VERSION)
    capabilities: dict[str, Raw] = msgspec.field(name=meta.CLIENT_CAPABILITIES)
    client_info: dict[str, Raw] | UnsetType = msgspec.field(name=meta.CLIENT_INFO, default=UNSET)
    log_level: levels.Level | UnsetType = msgspec.field(name=meta.LOG_LEVEL, default=UNSET)
    progress_token: Raw | UnsetType = msgspec.field(name=meta.PROGRESS_TOKEN, default=UNSET)


_decode_meta = msgspec.json.Decoder(_Meta).decode


async def run_app(app: App, channel: Channel) -> None:
    """Serve an app over a channel until the other end closes it. What is in flight then is cancelled."""
    async with trio.open_nursery() as nursery:
        conversation = _Conversation(app, channel, nursery)
        try:
            while messages := await channel.receive():
                for message in messages:
                    conversation.take(message)
        except trio.BrokenResourceError:
            log.info("The connection to the app %s broke.", app.name)
        nursery.cancel_scope.cancel()


class _Conversation:
    """What one channel has in flight."""

    def __init__(self, app: App, channel: Channel, nursery: trio.Nursery) -> None:
        self._app = app
        self._channel = channel
        self._nursery = nursery
        self._in_flight: dict[str | int, trio.CancelScope] = {}

    def take(self, message: bytes | Oversize) -> None:
        """Begin what a message asks for. Never waits, so that a cancellation behind it is seen."""
        if isinstance(message, Oversize):
            self._refuse(UNSET, RpcError(INVALID_REQUEST, f"The message is too large: {message.size} bytes"))
            return
        try:
            frame = frames.decode_frame(message)
            kind = frames.kind(frame)
        except RemoteProtocolError as error:
            self._refuse(UNSET if error.id is None else error.id, RpcError(error.code, error.message))
            return
        if kind == "request":
            self._begin(frame)
        elif kind == "notification" and frame.method == "notifications/cancelled":
            self._cancel(frame)
        # Nothing else is for a server of this revision, and none of it has an answer.

    def _begin(self, frame: Frame) -> None:
        assert isinstance(frame.id, Raw)
        key = frames.id_key(frame.id)
        if key is None:
            self._refuse(UNSET, RpcError(INVALID_REQUEST, "Invalid request: the id must be a string or an integer"))
        elif key in self._in_flight:
            self._refuse(frame.id, RpcError(INVALID_REQUEST, "Invalid request: the id is in flight already"))
        elif len(self._in_flight) >= MAX_IN_FLIGHT:
            self._refuse(frame.id, RpcError(INTERNAL_ERROR, f"More than {MAX_IN_FLIGHT} requests are in flight"))
        else:
            scope = self._in_flight[key] = trio.CancelScope()
            self._nursery.start_soon(self._serve, key, scope, frame)

    def _cancel(self, frame: Frame) -> None:
        """Cancel what a notification names; one that names nothing in flight is ignored."""
        named = (members_of(frame.params) or {}).get("requestId", frames.NULL)
        key = frames.id_key(named)
        if key is not None and key in self._in_flight:
            self._in_flight[key].cancel()

    def _refuse(self, id: Raw | UnsetType, error: RpcError) -> None:
        self._channel.send_nowait(frames.encode(_error(id, error)))

    async def _serve(self, key: str | int, scope: trio.CancelScope, frame: Frame) -> None:
        """Answer a request, unless it is cancelled: then nothing is sent for it any more."""
        assert isinstance(frame.id, Raw)
        try:
            with scope:
                try:
                    answer = frames.result(frame.id, await self._respond(scope, frame))
                except RpcError as error:
                    answer = _error(frame.id, error)
                await self._channel.send(frames.encode(answer))
        finally:
            del self._in_flight[key]

    async def _respond(self, scope: trio.CancelScope, frame: Frame) -> Raw:
        """The result of a request. Raises ``RpcError`` where there is none."""
        assert isinstance(frame.method, str)
        params = frame.params if isinstance(frame.params, Raw) else Raw(b"{}")
        context = self._open_context(scope, frame.method, params)
        method = METHODS.get(frame.method)
        if method is None or not method.is_served(self._app):
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {frame.method}")
        try:
            with guard(frame.method):
                body = await method.respond(self._app, params, context)
                whole = {"resultType": "complete", **body, "_meta": {meta.SERVER_INFO: self._app.server_info}}
                return frames.to_raw(whole)
        except (ToolError, FunctionBug) as error:
            raise RpcError(INTERNAL_ERROR, str(error)) from error
        finally:
            context.end()

    def _open_context(self, scope: trio.CancelScope, method: str, params: Raw) -> Context:
        """Read the metadata of a request. Raises ``RpcError`` where it is not that of a revision the app speaks."""
        try:
            members = frames.members(params)
        except RemoteProtocolError as error:
            raise RpcError(error.code, error.message) from None
        raw = members.get("_meta")
        if method == "initialize" and (raw is None or meta.MARK not in bytes(raw)):
            # A host of the other era. The error names what is spoken, the only diagnostic that it can show
            # (basic/versioning, Backward Compatibility).
            raise _unsupported(string_of(members.get("protocolVersion")) or "")
        if raw is None:
            raise RpcError(INVALID_PARAMS, "Invalid params: `_meta` is missing, which every request must have")
        try:
            values = _decode_meta(raw)
            everything = frames.members(raw)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise RpcError(INVALID_PARAMS, f"Invalid params: `_meta`: {error}") from None
        if not is_modern(values.version):
            raise _unsupported(values.version)
        token = values.progress_token
        if isinstance(token, Raw) and frames.id_key(token) is None:
            raise RpcError(INVALID_PARAMS, "Invalid params: a progress token is a string or an integer")
        return Context(self._channel, scope, everything, token, values.log_level)


def _error(id: Raw | UnsetType, error: RpcError) -> Frame:
    return frames.error(id, error.code, error.message, error.data)


def _unsupported(requested: str) -> RpcError:
    return RpcError(
        UNSUPPORTED_VERSION, "Unsupported protocol version", {"supported": list(MODERN), "requested": requested}
    )
