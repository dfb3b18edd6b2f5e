"""From a server's settings to an open session with it."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
import trio

from mcpx.errors import UpstreamGone, UpstreamStartError, UpstreamUnanswered
from mcpx.upstream.legacy import LegacyForm
from mcpx.upstream.links import Builtins, NoSseServer, Surroundings, is_http, open_link, open_surroundings
from mcpx.upstream.probe import NO_VERDICT, Agreement, DiedOnProbe, NotStreamable, Opener, plan
from mcpx.upstream.questions import Questions
from mcpx.upstream.session import Session

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from msgspec import Raw

    from mcpx.settings import ServerSettings
    from mcpx.upstream.call import Asker, News, Unasked
    from mcpx.upstream.eras import Memory

__all__ = ["Builtins", "Surroundings", "open_session", "open_surroundings"]

log = logging.getLogger("mcpx.upstream")

# How long a probe over HTTP is alone before ``initialize`` follows it. Every server of HTTP answers a request that it
# does not know, at once but for a cold start and what lies between; silence is a fault, and the patience for it short.
HTTP_SILENCE = 10.0

NO_SSE_HERE = (
    'The configuration says "type": "sse", which is HTTP+SSE and mostly at /sse; for Streamable HTTP leave it out.'
)


@asynccontextmanager
async def open_session(
    server: ServerSettings,
    surroundings: Surroundings,
    memory: Memory,
    *,
    asker: Asker,
    tell: Callable[[Asker], Mapping[str, Raw]],
    roots: Callable[[Asker], Raw | None],
    client_info: Raw,
    heard: Callable[[News], None],
    unasked: Callable[[Unasked], bool],
    failing: Callable[[UpstreamStartError], None],
) -> AsyncGenerator[Session]:
    """Start a server, agree on an era with it, and keep the session until left; then end the server by the ladder.

    A server at an HTTP URL that takes no such requests is tried once more as one of HTTP+SSE, unless the configuration
    says which of the two it is (LV-30).

    ``tell`` says what of an asker's capabilities this server is told: a legacy one once, at its handshake, about
    ``asker``; a modern one on every request about whoever makes it. ``unasked`` takes what a legacy one asks while no
    call is under way, if it can be asked at once. ``roots`` gives the answer to ``roots/list`` where that is not the
    asker's to give.

    Raises ``UpstreamStartError`` where that fails, within ``startTimeout``. A server that dies on the probe is started
    a second time and opened with ``initialize`` (LV-27). ``failing`` is called before a server that opened no session
    is ended, with the error that is raised when it has.
    """
    limits = server.limits
    deadline = trio.current_time() + limits.start_timeout
    over_http = is_http(server)
    delay = limits.probe_delay
    if over_http:  # and never so long that nothing is left for the handshake
        delay = min(max(delay, HTTP_SILENCE), limits.start_timeout / 2)
    opening_plan = plan(server.protocol, memory.value, delay)
    either = over_http and server.transport is None
    sse = over_http and (server.transport == "sse" or (either and memory.value.sse))
    refused: UpstreamStartError | None = None  # why it is no server of Streamable HTTP, once that has been tried
    async with AsyncExitStack() as stack:
        while True:
            if sse:
                if not opening_plan.legacy:
                    reason = f'HTTP+SSE is of the legacy era, which "protocol": "{server.protocol}" rules out.'
                    raise UpstreamStartError(server.name, reason)
                opening_plan = opening_plan.beginning_with("initialize")
            try:
                link = await stack.enter_async_context(open_link(server, surroundings, deadline, sse=sse))
            except NoSseServer as error:
                nothing_there = error.status is not None and error.status not in NO_VERDICT
                if refused is not None:
                    also = "" if nothing_there else f" Tried as one of HTTP+SSE: {error.reason}"
                    raise UpstreamStartError(server.name, f"{refused.reason}{also}") from None
                if not either:
                    hint = f" {NO_SSE_HERE}" if nothing_there else ""
                    raise UpstreamStartError(server.name, f"{error.reason}{hint}") from None
                memory.forget()  # it was one
                sse = False
                opening_plan = plan(server.protocol, memory.value, delay)
                continue
            opener = Opener(
                link.connection,
                opening_plan,
                asker=asker,
                tell=tell,
                client_info=client_info,
                passthrough=server.passthrough,
                late=memory.remember,
            )
            failure: UpstreamStartError | None = None
            try:
                agreement = await _open_in_time(server, opener, deadline)
                break
            except DiedOnProbe:
                log.info("[%s] ended on being probed; started again and opened with initialize", server.name)
                opening_plan = opening_plan.beginning_with("initialize")
            except NotStreamable as error:
                refused = error.error
                if sse or not either:
                    failure = refused
                sse = True
            except UpstreamStartError as error:
                failure = error
            if failure is not None:
                memory.forget()
                failing(failure)  # now, and not after the seconds that ending the server may take
            # Out of the nurseries first: raised through them, the error would arrive in a group.
            await stack.aclose()
            if failure is not None:
                raise failure
        memory.remember(msgspec.structs.replace(agreement.remember, sse=sse))
        form = agreement.form
        questions: Questions | None = None
        if isinstance(form, LegacyForm):
            questions = Questions(
                link.connection, form.revision, form.told, asker.host, limits.question_timeout, unasked, roots(asker)
            )
        yield Session(link.connection, form, agreement.identity, limits, heard, roots, link.mirrored, questions)


async def _open_in_time(server: ServerSettings, opener: Opener, deadline: float) -> Agreement:
    with trio.move_on_at(deadline):
        try:
            return await opener.open()
        except (UpstreamGone, UpstreamUnanswered) as error:
            raise UpstreamStartError(server.name, error.reason) from None
    raise UpstreamStartError(
        server.name,
        f"The server did not open a session within {server.limits.start_timeout:g} s. Raise startTimeout if it needs "
        f"longer{_hint(server)}.",
    )


def _hint(server: ServerSettings) -> str:
    """Why a process may need longer, and the other cause of one that hangs: it misses what a shell would give it."""
    if server.command is None:
        return ""
    download = ", for example to be downloaded first"
    if server.inherit_env is True:
        return download
    return download + '; if it hangs on a proxy or a certificate, let it have their variables with "inheritEnv"'
