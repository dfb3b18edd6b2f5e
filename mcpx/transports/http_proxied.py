"""HTTP requests to a server behind a proxy. The one place that knows httpx.

Of httpx its transport is used and not its client: that would log each URL with its query, follow redirects, keep
cookies and unpack bodies, none of which is wanted.
"""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import trio

from mcpx.errors import BrokenAnswer, ConnectError, LocalProtocolError
from mcpx.transports.http_engine import (
    CONNECT_LIMIT,
    KEEP_ALIVE,
    MAX_IDLE,
    NO_HTTP,
    SILENT,
    HttpAnswer,
    Unheard,
    broken_amidst,
    broken_before,
    causes,
)
from mcpx.transports.reasons import clean, why_no_tls
from mcpx.transports.sockets import why_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcpx.transports.handshake import Opening
    from mcpx.transports.http_messages import RequestHead

CLOSE_LIMIT = 0.5  # seconds for closing connections; nothing is said to anyone then

_SENT = "http11.send_request_body.complete"


class ProxiedAnswer(HttpAnswer):
    """An answer that a proxy has brought."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(response.status_code, response.headers)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        self._response = response
        self._body = response.stream
        self._chunks: AsyncIterator[bytes] | None = None

    async def receive_some(self) -> bytes:
        if self.ended:
            await trio.lowlevel.checkpoint()
            return b""
        if self._chunks is None:
            self._chunks = aiter(self._body)
        try:
            return await anext(self._chunks)
        except StopAsyncIteration:
            self.ended = True
            return b""
        except httpx.TransportError as error:
            self.ended = True
            raise BrokenAnswer(broken_amidst(error)) from None
        except BaseException:
            self.ended = True
            raise

    async def aclose(self) -> None:
        with trio.CancelScope(shield=True):
            if self._chunks is not None and not self.ended:
                # A generator within generators ends where it stands only by an exception from the innermost.
                with trio.CancelScope() as now:
                    now.cancel()
                    while await self.receive_some_or_nothing():
                        pass
            await self._response.aclose()


class ProxiedEngine:
    """Requests to one server by way of a proxy. Raises ``ConnectError`` for a proxy of a kind that is not known."""

    def __init__(self, opening: Opening, proxy: str) -> None:
        self._opening = opening
        self._scheme = "https" if opening.tls else "http"
        self._proxy = _shown(proxy)
        try:
            self._transport = httpx.AsyncHTTPTransport(
                verify=ssl.create_default_context() if opening.tls else False,
                trust_env=False,
                limits=httpx.Limits(
                    max_connections=None, max_keepalive_connections=MAX_IDLE, keepalive_expiry=KEEP_ALIVE
                ),
                proxy=proxy,
                socket_options=[(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)],
            )
        except (ValueError, ImportError, httpx.InvalidURL):
            raise ConnectError(f"The proxy {self._proxy} is of a kind that mcpx does not know.") from None

    async def ask(self, head: RequestHead, body: bytes, sent: Callable[[], None] | None) -> HttpAnswer:
        """Send a request and wait for the head of its answer; see ``Engine``."""

        async def trace(name: str, info: dict[str, Any]) -> None:
            if name == _SENT and sent is not None:
                sent()

        timeout = {"connect": CONNECT_LIMIT, "read": None, "write": None, "pool": None}
        try:
            request = httpx.Request(
                head.method,
                httpx.URL(
                    scheme=self._scheme,
                    host=self._opening.host,
                    port=self._opening.port,
                    raw_path=head.target.encode(),
                ),
                headers=head.fields,
                content=body or None,
                extensions={"timeout": timeout} if sent is None else {"timeout": timeout, "trace": trace},
            )
            return ProxiedAnswer(await self._transport.handle_async_request(request))
        except httpx.InvalidURL:
            raise ConnectError(f"{self._opening.where} is no address that HTTP knows.") from None
        except httpx.ConnectTimeout:
            said = f"{self._opening.where} could not be connected to within {CONNECT_LIMIT:g} s."
            raise ConnectError(said) from None
        except httpx.LocalProtocolError:
            raise LocalProtocolError("a header holds what none may hold") from None
        except (httpx.ConnectError, httpx.ProxyError) as error:
            raise ConnectError(self._why_not(error)) from None
        except httpx.RemoteProtocolError as error:
            raise Unheard(SILENT if "disconnected" in str(error) else NO_HTTP) from None
        except httpx.TransportError as error:
            raise BrokenAnswer(broken_before(error)) from None

    def _why_not(self, error: httpx.TransportError) -> str:
        where = self._opening.where
        if isinstance(error, httpx.ProxyError):
            return f"The proxy {self._proxy} does not let mcpx through to {where}: {clean(str(error), ())}."
        for cause in causes(error):
            if isinstance(cause, ssl.SSLError):
                return why_no_tls(where, cause, "http://")
            if isinstance(cause, socket.gaierror):
                return f"The host name {self._proxy!r} cannot be resolved: {cause.strerror or cause}."
            if isinstance(cause, OSError):
                return f"The proxy {self._proxy} cannot be connected to: {why_all(cause)}."
            if isinstance(cause, trio.BrokenResourceError) and cause.__cause__ is None and self._opening.tls:
                return why_no_tls(where, None, "http://")
        return f"The proxy {self._proxy} cannot be connected to."

    async def aclose(self) -> None:
        """Close all connections, whatever is under way on them."""
        with trio.move_on_after(CLOSE_LIMIT, shield=True):
            await self._transport.aclose()


def _shown(url: str) -> str:
    """A proxy without its password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
