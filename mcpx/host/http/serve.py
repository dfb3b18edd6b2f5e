"""Serving any number of hosts by HTTP: what there is at which path, and how all of it ends together."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
import trio

from mcpx.errors import McpxError
from mcpx.host.ending import SERVER, Ending, open_ending
from mcpx.host.http import status
from mcpx.host.http.access import LOOPBACK, is_wildcard, plan_access
from mcpx.host.http.endpoint import open_endpoint
from mcpx.host.http.guard import HEALTH, check, cors
from mcpx.host.http.legacy_sse import MESSAGES, LegacySse
from mcpx.host.http.websocket import WebSockets
from mcpx.transports import http_server
from mcpx.transports.http_server import HttpLimits, is_loopback, open_tcp_listeners, tls_listeners
from mcpx.transports.sockets import host_and_port

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from mcpx.host.http.access import Access
    from mcpx.host.http.endpoint import Endpoint
    from mcpx.host.service import Service
    from mcpx.settings import Limits
    from mcpx.transports.http_server import Aloft, Answer, HttpRequest, HttpResponse

log = logging.getLogger("mcpx.host")

MCP = "/mcp"
MAX_TOLD = 100  # refusals that the log tells at level info; any further are noise

Handler: TypeAlias = Callable[["HttpRequest", "HttpResponse"], Awaitable[None]]

_PLAIN = {"Content-Type": "text/plain; charset=utf-8"}
_JSON = {"Content-Type": "application/json", "Cache-Control": "no-store"}
_REFUSALS = {
    401: "it did not show the token (401)",
    403: "its Host or Origin is not allowed (403); the answer says which, and what would allow it",
}
_NOTHING_HERE = f"There is nothing at this path. MCP is served at {MCP}.\n".encode()


async def serve_http(
    service: Service,
    address: tuple[str, int],
    ending: Ending | None = None,
    *,
    access: Access | None = None,
    tls: ssl.SSLContext | None = None,
    redact: Callable[[str], str] = str,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve hosts by HTTP at a host and port until a signal asks mcpx to end, or ``ending.stop`` is set.

    ``access`` says who may come in (``plan_access``): by default whoever is on this machine, without a token. ``tls``
    makes it HTTPS, ``redact`` masks secrets in what status shows of servers. Sets ``service.gateway.exit_plan.end`` by
    ``exitBudget.server`` as the end begins, and returns with the answers that were owed written, as far as there was
    time; leaving the gateway is what ends the upstreams. ``ending`` is as for ``serve_stdio``. Raises ``McpxError``
    where the address cannot be listened on, or could be reached by others and asks for no token. ``task_status`` is
    told the URLs of ``/mcp`` when hosts can connect.
    """
    if access is None:
        access = plan_access(address)
    if ending is None:
        async with open_ending() as ending:
            await serve_http(service, address, ending, access=access, tls=tls, redact=redact, task_status=task_status)
        return
    ending.plan_for(service.gateway, alone=SERVER, hastened=SERVER)
    async with open_tcp_listeners(*address) as listeners:
        places = [listener.socket.getsockname()[:2] for listener in listeners]
        _check_private(places, access)
        urls = [f"{'http' if tls is None else 'https'}://{host_and_port(*place)}{MCP}" for place in places]
        async with open_endpoint(service, ending) as endpoint, trio.open_nursery() as nursery:
            site = _Site(service, ending, endpoint, access, redact)
            await nursery.start(
                partial(
                    http_server.serve_http,
                    listeners if tls is None else tls_listeners(listeners, tls),
                    _Door(access).check,
                    site.handle,
                    http_limits(service.gateway.settings.limits),
                    stop=ending.stop,
                    begin=site.begin,
                )
            )
            for url in urls if not is_wildcard(address[0]) else _named(urls, access):
                log.info("listening on %s", url)
            task_status.started(urls)
            await ending.stop.wait()
            # What is owed has its own, shorter time; this is for clients that are still amidst a request.
            nursery.cancel_scope.deadline = trio.current_time() + ending.drain() + SERVER.flush
            await endpoint.drain()


def http_limits(limits: Limits) -> HttpLimits:
    """The bounds of the HTTP server, out of the table of limits."""
    return HttpLimits(
        max_body=limits.max_frame,
        max_connections=limits.max_connections,
        max_head=limits.max_head,
        head_time=limits.head_time,
        body_time=limits.body_time,
        idle_time=limits.connection_idle,
        write_time=limits.write_time,
    )


def _check_private(places: list[tuple[str, int]], access: Access) -> None:
    """A name may stand for more than it seems to."""
    if access.token is None:
        for host, port in places:
            if not is_loopback(host):
                raise McpxError(f"Others could use your servers at {host_and_port(host, port)}, so it needs a token.")


def _named(urls: list[str], access: Access) -> list[str]:
    """The same places, which are every address of this machine, as one can use them."""
    parts = [urlsplit(url) for url in urls]
    scheme, port = parts[0].scheme, parts[0].port or 0
    if names := sorted(access.hosts - LOOPBACK):
        return [f"{scheme}://{host_and_port(name, port)}{MCP}" for name in names]
    here = f"{scheme}://{host_and_port('127.0.0.1', port)}{MCP}"
    return [f"{here} and every other address of this machine; --allow-host adds the name that others call it by"]


class _Door:
    """Lets in who may come in. The log hears of each kind of refusal once, so that who runs mcpx can tell why."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._told: set[tuple[int, str]] = set()

    def check(self, request: HttpRequest) -> Answer | None:
        """The answer to a request that goes no further."""
        answer = check(request, self._access)
        if answer is not None and answer.status in _REFUSALS:
            self._tell((answer.status, request.peer))
        return answer

    def _tell(self, refused: tuple[int, str]) -> None:
        new = refused not in self._told and len(self._told) < MAX_TOLD
        if new:
            self._told.add(refused)
        status, peer = refused
        log.log(logging.INFO if new else logging.DEBUG, "Refused a request from %s: %s", peer, _REFUSALS[status])


class _Site:
    """What there is at which path."""

    def __init__(
        self, service: Service, ending: Ending, endpoint: Endpoint, access: Access, redact: Callable[[str], str]
    ) -> None:
        self._service = service
        self._endpoint = endpoint
        self._access = access
        self._redact = redact
        sse, sockets = LegacySse(service, ending), WebSockets(service, ending)
        self._routes: Mapping[str, Mapping[str, Handler]] = {
            "/sse": {"GET": sse.open},
            MESSAGES: {"POST": sse.post},
            "/ws": {"GET": sockets.serve},
            "/v1/protocol": _reading(self._protocol),
            "/v1/status": _reading(self._status),
            HEALTH: _reading(_health),
        }

    def begin(self, aloft: Aloft) -> Callable[[], None] | None:
        """Begin a request without a task, if it can be; see ``mcpx.transports.http_server``."""
        if aloft.request.path != MCP:
            return None
        aloft.response.common_headers = cors(aloft.request, self._access)
        return self._endpoint.begin(aloft)

    async def handle(self, request: HttpRequest, response: HttpResponse) -> None:
        """Answer a request that the guard has let through."""
        response.common_headers = cors(request, self._access)
        path = request.path.rstrip("/") or "/"
        if path == MCP:
            await self._endpoint.handle(request, response)
        elif (methods := self._routes.get(path)) is None:
            await response.send(404, _NOTHING_HERE, _PLAIN)
        elif (handler := methods.get(request.method)) is None:
            allowed = ", ".join(methods)
            body = f"{path} takes {allowed}, not this method.\n".encode()
            await response.send(405, body, {**_PLAIN, "Allow": allowed})
        else:
            await handler(request, response)

    async def _protocol(self, request: HttpRequest, response: HttpResponse) -> None:
        await _tell(response, status.protocol(self._service.gateway))

    async def _status(self, request: HttpRequest, response: HttpResponse) -> None:
        await _tell(response, status.status(self._service, self._endpoint.session_count, status.now(), self._redact))


def _reading(handler: Handler) -> Mapping[str, Handler]:
    return {"GET": handler, "HEAD": handler}


async def _health(request: HttpRequest, response: HttpResponse) -> None:
    """From the moment that the end begins nobody is let in who could ask."""
    await _tell(response, {"status": "ok"})


async def _tell(response: HttpResponse, data: Any) -> None:
    await response.send(200, msgspec.json.format(msgspec.json.encode(data)) + b"\n", _JSON)
