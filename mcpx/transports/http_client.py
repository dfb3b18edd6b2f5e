"""HTTP as a client: requests to one server, and their answers as they come.

What is here is what holds for every request: what it says of who asks, which redirects are followed, what is said to a
person where it does not come off. Connections are the engines' (``http_direct``, ``http_proxied``): they are kept alive
and shared by all requests to a server.

Deadlines belong to the caller, except that of connecting: a request is often nobody's but its own task's. A request
that is cancelled, and an answer that is left before its end, close their connection at once.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from mcpx.errors import BrokenAnswer, ConnectError, LocalProtocolError
from mcpx.transports.handshake import PORTS, opening, target_of
from mcpx.transports.http_direct import DirectEngine
from mcpx.transports.http_engine import HttpAnswer, Unheard
from mcpx.transports.http_messages import RequestHead
from mcpx.transports.proxies import proxy_for
from mcpx.transports.reasons import clean, said_status

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
    from types import TracebackType
    from urllib.parse import SplitResult

    from mcpx.transports.handshake import Opening
    from mcpx.transports.http_engine import Engine

__all__ = ["HttpAnswer", "HttpClient", "HttpClients"]

MAX_REDIRECTS = 5
MAX_HEADS = 64  # heads of requests kept; most say the same again and again

_SAME_METHOD = frozenset({307, 308})  # RFC 9110 section 15.4: the others let the client make a GET of it
_REDIRECTS = frozenset({301, 302, 303}) | _SAME_METHOD
IDENTITY = "identity"  # not packed: most messages are small, and each event is to come at once


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
        self._heads: dict[tuple[object, ...], RequestHead] = {}
        proxy = proxy_for(self._scheme, self._opening.host, self._opening.port, environ)
        self._engine = DirectEngine(self._opening) if proxy is None else _proxied(self._opening, proxy)

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

    def open_answer(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        target: str | None = None,
        sent: Callable[[], None] | None = None,
    ) -> OpenAnswer:
        """Send a request and wait for the head of its answer. ``sent`` is called when all of it was written.

        ``headers`` count before those of the configuration; ``target`` is a path and query other than the URL's own.
        Redirects are followed as far as they stay with the server and mean the same request. Raises ``ConnectError``
        where the server cannot be reached and ``BrokenAnswer`` where the connection breaks; both bring a sentence.
        """
        return OpenAnswer(self, method, headers, body, target or self.target, sent)

    async def ask(
        self, method: str, headers: Mapping[str, str], body: bytes, target: str, sent: Callable[[], None] | None
    ) -> HttpAnswer:
        """The answer, which the caller closes; see ``open_answer``."""
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._ask(method, headers, body, target, sent)
            if answer.status not in _REDIRECTS or (elsewhere := answer.headers.get("location")) is None:
                return answer
            await answer.aclose()
            target = self._redirected(answer.status, method, elsewhere)
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
        key = (method, target, *headers.items())
        head = self._heads.get(key)
        if head is None:
            if len(self._heads) >= MAX_HEADS:
                self._heads.clear()
            head = self._heads[key] = RequestHead(method, target, list(self._fields(headers)))
        try:
            answer = await self._engine.ask(head, body, sent)
        except LocalProtocolError:
            said = f"A request to {self.where} cannot be said in HTTP; look at its headers in the configuration."
            raise ConnectError(said) from None
        except Unheard as error:
            doubtful = not self._known and not self._opening.tls
            hint = " If it speaks TLS, its URL should begin with https://." if doubtful else ""
            raise BrokenAnswer(f"{error}{hint}") from None
        self._known = True
        packing = answer.headers.get("content-encoding", IDENTITY).lower()
        if packing != IDENTITY:
            await answer.aclose()
            raise BrokenAnswer(f"The server packs its answers ({clean(packing, ())}), which it was asked not to do.")
        return answer

    def _fields(self, headers: Mapping[str, str]) -> Iterator[tuple[bytes, bytes]]:
        yield b"Host", self._opening.host_header.encode()
        yield b"Accept-Encoding", IDENTITY.encode()
        own = {name.lower() for name in headers} | {"accept-encoding"}
        for name, value in self._opening.headers:
            if name.decode().lower() not in own:
                yield name, value
        for name, value in headers.items():
            yield name.encode(), value.encode()

    async def aclose(self) -> None:
        """Close all connections, whatever is under way on them."""
        await self._engine.aclose()


class OpenAnswer:
    """The context of an answer; on leaving it is closed. Open it with ``HttpClient.open_answer``."""

    __slots__ = ("_answer", "_body", "_client", "_headers", "_method", "_sent", "_target")

    def __init__(
        self,
        client: HttpClient,
        method: str,
        headers: Mapping[str, str],
        body: bytes,
        target: str,
        sent: Callable[[], None] | None,
    ) -> None:
        self._client = client
        self._method = method
        self._headers = headers
        self._body = body
        self._target = target
        self._sent = sent

    async def __aenter__(self) -> HttpAnswer:
        self._answer = await self._client.ask(self._method, self._headers, self._body, self._target, self._sent)
        return self._answer

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._answer.aclose()


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


def _proxied(opening: Opening, proxy: str) -> Engine:
    from mcpx.transports.http_proxied import ProxiedEngine  # late: what it is made of takes its time to load

    return ProxiedEngine(opening, proxy)
