"""HTTP as a client: requests to one server, and their answers as they come. The one place that knows httpx.

Of httpx its transport is used and not its client: that would log each URL with its query, follow redirects, keep
cookies and unpack bodies, none of which is wanted. Connections are kept alive and shared by all requests to a server.

Deadlines belong to the caller, except that of connecting: a request is often nobody's but its own task's. A request
that is cancelled, and an answer that is left before its end, close their connection at once.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import asynccontextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import httpx
import trio

from mcpx.errors import BrokenAnswer, ConnectError
from mcpx.transports.handshake import PORTS, opening, target_of
from mcpx.transports.proxies import proxy_for
from mcpx.transports.reasons import clean, said_status, why_no_tls
from mcpx.transports.sockets import why_all
from mcpx.wire.headers import media_type

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
    from urllib.parse import SplitResult

# An idle connection is used again for so many seconds. Node and uvicorn close theirs after five: a request that is sent
# at that very moment is lost, and nobody can say whether it ran.
KEEP_ALIVE = 4.0
MAX_IDLE = 16  # connections kept; any number is in use at once, as many as there are requests
CONNECT_LIMIT = 20.0  # seconds for a connection, TLS included; a machine that is off says nothing for two minutes
CLOSE_LIMIT = 0.5  # seconds for closing connections; nothing is said to anyone then
MAX_REDIRECTS = 5

_SAME_METHOD = frozenset({307, 308})  # RFC 9110 section 15.4: the others let the client make a GET of it
_REDIRECTS = frozenset({301, 302, 303}) | _SAME_METHOD
IDENTITY = "identity"  # not packed: most messages are small, and each event is to come at once
_SENT = "http11.send_request_body.complete"


class HttpAnswer:
    """An answer whose head has come. Open it with ``HttpClient.open_answer``."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers  # names in any case
        self.media_type = media_type(response.headers.get("content-type"))
        self._response = response
        self._chunks: AsyncIterator[bytes] | None = None
        self._ended = False

    async def receive_some(self) -> bytes:
        """The next bytes of the body, as they came; none at its end.

        Raises ``BrokenAnswer`` where the connection breaks before that.
        """
        if self._ended:
            await trio.lowlevel.checkpoint()
            return b""
        if self._chunks is None:
            assert isinstance(self._response.stream, httpx.AsyncByteStream)
            self._chunks = aiter(self._response.stream)
        try:
            return await anext(self._chunks)
        except StopAsyncIteration:
            self._ended = True
            return b""
        except httpx.TransportError as error:
            self._ended = True
            raise BrokenAnswer(f"The connection broke in the middle of the answer{_because(error)}.") from None
        except BaseException:
            self._ended = True
            raise

    async def read(self, limit: int) -> bytes | None:
        """The rest of the body; ``None`` where it is longer than that. Raises as ``receive_some`` does."""
        body = BytesIO()  # it grows in place and is handed out uncopied
        while chunk := await self.receive_some():
            if body.tell() + len(chunk) > limit:
                return None
            body.write(chunk)
        return body.getvalue()

    async def aclose(self) -> None:
        """Give the connection back where the answer was read to its end, and close it otherwise."""
        with trio.CancelScope(shield=True):
            if self._chunks is not None and not self._ended:
                # A generator within generators ends where it stands only by an exception from the innermost.
                with trio.CancelScope() as now:
                    now.cancel()
                    while await self.receive_some_or_nothing():
                        pass
            await self._response.aclose()

    async def receive_some_or_nothing(self) -> bytes:
        """The next bytes; none at the end, however it came."""
        try:
            return await self.receive_some()
        except BrokenAnswer:
            return b""


class HttpClient:
    """Requests to the server at one URL, with the headers of its configuration. Close it with ``aclose``.

    Raises ``ConnectError`` for an address or headers that cannot be used.
    """

    def __init__(self, url: str, headers: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self._opening = opening(url, headers)
        self.where = self._opening.where  # the address as it is shown
        self.secrets = self._opening.secrets
        self._known = False  # it has answered as a server of HTTP does
        self._scheme = "https" if self._opening.tls else "http"
        proxy = proxy_for(self._scheme, self._opening.host, self._opening.port, environ)
        self._proxy = None if proxy is None else _shown_proxy(proxy)
        try:
            self._transport = httpx.AsyncHTTPTransport(
                verify=ssl.create_default_context() if self._opening.tls else False,
                trust_env=False,
                limits=httpx.Limits(
                    max_connections=None, max_keepalive_connections=MAX_IDLE, keepalive_expiry=KEEP_ALIVE
                ),
                proxy=proxy,
                socket_options=[(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)],
            )
        except (ValueError, ImportError, httpx.InvalidURL):
            raise ConnectError(f"The proxy {self._proxy} is of a kind that mcpx does not know.") from None

    @property
    def target(self) -> str:
        """The path and query that requests are for. They may hold credentials."""
        return self._opening.target

    @property
    def has_credentials(self) -> bool:
        """Whether requests say more than that they are mcpx's."""
        return bool(self._opening.headers)

    def resolve(self, reference: str) -> str:
        """The path and query of a URL that the server names, relative to its own or whole.

        Raises ``ConnectError`` for one of another origin: what goes there would be told to somebody else.
        """
        base = f"{self._scheme}://{self.where}{self.target}"
        try:
            found = urlsplit(urljoin(base, reference))
            origin = _origin(found)
        except ValueError:
            raise ConnectError(f"{self.where} points to an address that makes no sense") from None
        if origin != _origin(urlsplit(base)):
            said = clean(f"{found.scheme}://{found.netloc.rpartition('@')[2]}{found.path}", self.secrets)
            raise ConnectError(f"{self.where} points to {said}, which is of another origin")
        return target_of(found.path, found.query)

    @asynccontextmanager
    async def open_answer(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        target: str | None = None,
        sent: Callable[[], None] | None = None,
    ) -> AsyncGenerator[HttpAnswer]:
        """Send a request and wait for the head of its answer. ``sent`` is called when all of it was written.

        ``headers`` count before those of the configuration; ``target`` is a path and query other than the URL's own.
        Redirects are followed as far as they stay with the server and mean the same request. Raises ``ConnectError``
        where the server cannot be reached and ``BrokenAnswer`` where the connection breaks; both bring a sentence.
        """
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._ask(method, headers, body, target or self.target, sent)
            try:
                elsewhere = answer.headers.get("location") if answer.status in _REDIRECTS else None
                if elsewhere is None:
                    yield answer
                    return
                target = self._redirected(answer.status, method, elsewhere)
            finally:
                await answer.aclose()
        raise ConnectError(f"{self.where} redirects in a circle.")

    def _redirected(self, status: int, method: str, location: str) -> str:
        said = f"with HTTP status {said_status(status)}"
        try:
            target = self.resolve(location)
        except ConnectError as error:
            why = ", and what mcpx was given for it is told nobody else" if self.has_credentials else ""
            raise ConnectError(f"{error} ({said}){why}: give mcpx the address that is meant.") from None
        if method not in ("GET", "HEAD") and status not in _SAME_METHOD:
            shown = clean(target.partition("?")[0], self.secrets)
            raise ConnectError(f"{self.where} redirects to {shown} {said}: give mcpx the address that is meant.")
        return target

    async def _ask(
        self, method: str, headers: Mapping[str, str], body: bytes, target: str, sent: Callable[[], None] | None
    ) -> HttpAnswer:
        async def trace(name: str, info: dict[str, Any]) -> None:
            if name == _SENT and sent is not None:
                sent()

        timeout = {"connect": CONNECT_LIMIT, "read": None, "write": None, "pool": None}
        try:
            request = httpx.Request(
                method,
                httpx.URL(
                    scheme=self._scheme,
                    host=self._opening.host,
                    port=self._opening.port,
                    raw_path=target.encode(),
                ),
                headers=list(self._headers(headers)),
                content=body or None,
                extensions={"timeout": timeout} if sent is None else {"timeout": timeout, "trace": trace},
            )
            answer = HttpAnswer(await self._transport.handle_async_request(request))
        except httpx.InvalidURL:
            raise ConnectError(f"{self.where} is no address that HTTP knows.") from None
        except httpx.ConnectTimeout:
            raise ConnectError(f"{self.where} could not be connected to within {CONNECT_LIMIT:g} s.") from None
        except (httpx.ConnectError, httpx.ProxyError, httpx.LocalProtocolError) as error:
            raise ConnectError(self._why_not(error)) from None
        except httpx.TransportError as error:
            raise BrokenAnswer(self._why_broken(error)) from None
        self._known = True
        packing = answer.headers.get("content-encoding", IDENTITY).lower()
        if packing != IDENTITY:
            await answer.aclose()
            raise BrokenAnswer(f"The server packs its answers ({clean(packing, ())}), which it was asked not to do.")
        return answer

    def _headers(self, headers: Mapping[str, str]) -> Iterator[tuple[bytes, bytes]]:
        yield b"Host", self._opening.host_header.encode()
        yield b"Accept-Encoding", IDENTITY.encode()
        own = {name.lower() for name in headers} | {"accept-encoding"}
        for name, value in self._opening.headers:
            if name.decode().lower() not in own:
                yield name, value
        for name, value in headers.items():
            yield name.encode(), value.encode()

    def _why_not(self, error: httpx.TransportError) -> str:
        if isinstance(error, httpx.ProxyError):
            return f"The proxy {self._proxy} does not let mcpx through to {self.where}: {clean(str(error), ())}."
        if isinstance(error, httpx.LocalProtocolError):
            return f"A request to {self.where} cannot be said in HTTP; look at its headers in the configuration."
        where = self.where if self._proxy is None else f"The proxy {self._proxy}"
        for cause in _causes(error):
            if isinstance(cause, ssl.SSLError):
                return why_no_tls(self.where, cause, "http://")
            if isinstance(cause, socket.gaierror):
                host = self._opening.host if self._proxy is None else self._proxy
                return f"The host name {host!r} cannot be resolved: {cause.strerror or cause}."
            if isinstance(cause, OSError):
                return f"{where} cannot be connected to: {why_all(cause)}."
            if isinstance(cause, trio.BrokenResourceError) and cause.__cause__ is None and self._opening.tls:
                return why_no_tls(self.where, None, "http://")
        return f"{where} cannot be connected to."

    def _why_broken(self, error: httpx.TransportError) -> str:
        doubtful = not self._known and not self._opening.tls
        hint = " If it speaks TLS, its URL should begin with https://." if doubtful else ""
        if isinstance(error, httpx.RemoteProtocolError):
            if "disconnected" in str(error):
                return f"The server closed the connection without an answer.{hint}"
            return f"The server does not speak HTTP, or not well.{hint}"
        return f"The connection to the server broke before it answered{_because(error)}."

    async def aclose(self) -> None:
        """Close all connections, whatever is under way on them."""
        with trio.move_on_after(CLOSE_LIMIT, shield=True):
            await self._transport.aclose()


class HttpClients:
    """The clients in use, one for each server: whoever asks for the same URL with the same headers shares one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._clients: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[HttpClient, list[object]]] = {}

    @asynccontextmanager
    async def lease(self, url: str, headers: Mapping[str, str]) -> AsyncGenerator[HttpClient]:
        """A client for a server; it is closed when the last who has it leaves. Raises ``ConnectError``."""
        key = (url, tuple(sorted(headers.items())))
        if key not in self._clients:
            self._clients[key] = (HttpClient(url, headers, self._environ), [])
        client, users = self._clients[key]
        user = object()
        users.append(user)
        try:
            yield client
        finally:
            users.remove(user)
            if not users:
                del self._clients[key]
                await client.aclose()


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    """What tells servers apart (RFC 6454 section 4). Raises ``ValueError`` for a port that is none."""
    return url.scheme, url.hostname, url.port or PORTS.get(url.scheme)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """What an error comes from, the nearest first. The library hides the cause of some, which is their context then."""
    cause = error.__cause__ or error.__context__
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _because(error: BaseException) -> str:
    for cause in _causes(error):
        if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError):
            return f": {why_all(cause)}"
    return ""


def _shown_proxy(url: str) -> str:
    """A proxy without its password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
