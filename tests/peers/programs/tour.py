"""What the Python clients share: their arguments, the tour itself, and the one line they report."""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from mcp.types import (
    CreateMessageResult,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    PromptReference,
    ResourceTemplateReference,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PATIENCE = 20.0  # seconds; a client that waits longer for a server's record has failed


class Plan:
    """The first argument, ``{"mode": …, "tool": prefix, "uri": prefix, "visit": [[kind, …], …]}``.

    The command of the server follows it; with ``url`` the server is there instead, by way of ``"over": "http"`` or
    ``"sse"``, and ``headers`` are sent to it. With ``visit`` a client lists everything and makes these calls, instead
    of the tour. With ``servers`` it makes the tour of each of these, by the names that mcpx gives them, with lists of
    what is its own, and cancels nothing at those in ``deaf``. With ``"do": "list"`` it lists the tools, with
    ``"wait"`` it makes a call that is never answered, and says how it ended, with ``"call"`` it calls the tools in
    ``calls``. What it is asked meanwhile it answers by ``answers``, by method a list of results that it takes in turn,
    with ``{"error": …}`` for an error; it declares what is in there.
    """

    def __init__(self, arguments: list[str]) -> None:
        plan = json.loads(arguments[0])
        self.mode: str = plan["mode"]
        self.visit: list[Any] | None = plan.get("visit")
        self.servers: list[str] | None = plan.get("servers")
        self.deaf: list[str] = plan.get("deaf", [])
        self.do: str = plan.get("do", "tour")
        self.calls: list[list[Any]] = plan.get("calls", [])
        self.answers: dict[str, list[Any]] = plan.get("answers", {})
        self.asked: list[list[Any]] = []  # method and params of what this client was asked
        self.url: str | None = plan.get("url")
        self.over: str = plan.get("over", "http")
        self.headers: dict[str, str] = plan.get("headers", {})
        self.command, *self.args = arguments[1:] or [""]
        self.tool: str = plan.get("tool", "")
        self._uri: str = plan.get("uri", "")
        self.env = dict(os.environ)  # the SDK itself would hand on a few variables only

    def callbacks(self) -> dict[str, Any]:
        """What answers questions, as both SDKs' clients take it: none for what is not to be declared."""

        def answering(method: str, result: type[Any]) -> Callable[..., Awaitable[Any]]:
            turns = itertools.cycle(self.answers[method])

            async def answer(_: Any, params: Any = None) -> Any:
                self.asked.append([method, None if params is None else wire(params)])
                said = next(turns)
                return ErrorData(**said["error"]) if "error" in said else result.model_validate(said)

            return answer

        known = {
            "elicitation/create": ("elicitation_callback", ElicitResult),
            "sampling/createMessage": ("sampling_callback", CreateMessageResult),
            "roots/list": ("list_roots_callback", ListRootsResult),
        }
        return {known[method][0]: answering(method, known[method][1]) for method in self.answers}

    def within(self, server: str) -> None:
        """From now on the names and URIs are those of a server behind mcpx."""
        self.tool, self._uri = f"{server}__", f"mcpx://{server}/"

    def named(self, name: str) -> str:
        """A tool or prompt as this client must name it."""
        return self.tool + name

    def uri(self, uri: str) -> str:
        """A resource or template as this client must name it."""
        return self._uri + uri


def times(word: str) -> int:
    """How often servers have written ``word`` into the file that ``PEER_RECORD`` names."""
    lines = Path(os.environ["PEER_RECORD"]).read_text().splitlines()
    return sum(line.startswith(word) for line in lines)


async def recorded(word: str, before: int = 0) -> None:
    """Return once that is more often than before."""
    with anyio.fail_after(PATIENCE):
        while times(word) <= before:  # noqa: ASYNC110 a file of another process has nothing to wait on
            await anyio.sleep(0.01)


def wire(result: Any) -> dict[str, Any]:
    """A result as it is on the wire, whatever its SDK calls the fields."""
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


def block_text(result: dict[str, Any]) -> str:
    """The text of a result whose content is one text block."""
    (block,) = result["content"]
    return block["text"]


async def refusal(call: Awaitable[Any], error: type[Any]) -> dict[str, Any]:
    """What a call that names nothing gets: the error's code and message, or the tool error's text."""
    try:
        result = wire(await call)
    except error as refused:
        return {"code": refused.error.code, "message": refused.error.message}
    return {"isError": result["isError"], "message": block_text(result)}


async def tours(client: Any, plan: Plan, **how: Any) -> dict[str, Any]:
    """What the plan says to do; most often a tour, or one of each server: see ``tour``."""
    if plan.do == "list":
        return {"tools": [tool["name"] for tool in wire(await client.list_tools())["tools"]]}
    if plan.do == "wait":
        return {"left": await refusal(client.call_tool(plan.named("never"), {}), how["error"])}
    if plan.do == "call":
        said = [await refusal(client.call_tool(name, arguments), how["error"]) for name, arguments in plan.calls]
        return {"said": said, "asked": plan.asked}
    if plan.servers is None:
        return await tour(client, plan, **how)
    found: dict[str, Any] = {}
    for server in plan.servers:
        plan.within(server)
        seen = await tour(client, plan, cancels=server not in plan.deaf, **how)
        for kind in ("tools", "prompts", "resources", "templates"):
            seen[kind] = [name for name in seen[kind] if name.startswith((plan.named(""), plan.uri("")))]
        found[server] = seen
    return {"tours": found}


async def tour(
    client: Any,
    plan: Plan,
    *,
    error: type[Exception],
    cancelled_call: Callable[[str], Awaitable[None]],
    as_uri: Callable[[str], Any] = str,
    cancels: bool = True,
) -> dict[str, Any]:
    """List and use everything. The keywords are what the SDKs differ in: what they raise, how a call of a tool is
    cancelled, what a URI is.
    """
    tools = wire(await client.list_tools())["tools"]
    prompts = wire(await client.list_prompts())["prompts"]
    resources = wire(await client.list_resources())["resources"]
    templates = wire(await client.list_resource_templates())["resourceTemplates"]
    echo = wire(await client.call_tool(plan.named("echo"), {"text": "grüße, 世界 \u2028 end"}))
    add = wire(await client.call_tool(plan.named("add"), {"a": 2**40, "b": 2}))
    progress: list[Any] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append([done, total, message])

    steps = {"steps": 3, "pause": 0.05}
    slow = wire(await client.call_tool(plan.named("slow"), steps, progress_callback=on_progress))
    fail = wire(await client.call_tool(plan.named("fail"), {}))
    unknown = await refusal(client.call_tool(plan.named("nothing"), {}), error)
    motto = wire(await client.read_resource(as_uri(plan.uri("peer://motto"))))
    notes = wire(await client.read_resource(as_uri(plan.uri("peer://notes/probes"))))
    prompt = wire(await client.get_prompt(plan.named("greet"), {"name": "Ada"}))
    names = wire(
        await client.complete(
            PromptReference(type="ref/prompt", name=plan.named("greet")), {"name": "name", "value": "A"}
        )
    )
    topics = wire(
        await client.complete(
            ResourceTemplateReference(type="ref/resource", uri=plan.uri("peer://notes/{topic}")),
            {"name": "topic", "value": "pro"},
        )
    )
    if cancels:
        await cancelled_call(plan.named("never"))
    again = wire(await client.call_tool(plan.named("echo"), {"text": "still here"}))
    return {
        "tools": [tool["name"] for tool in tools],
        "add_schema": next((tool.get("outputSchema") for tool in tools if tool["name"] == plan.named("add")), None),
        "prompts": [prompt["name"] for prompt in prompts],
        "resources": [resource["uri"] for resource in resources],
        "templates": [template["uriTemplate"] for template in templates],
        "echo": block_text(echo),
        "add": add.get("structuredContent"),
        "add_text": block_text(add),
        "slow": block_text(slow),
        "progress": progress,
        "fail": {"isError": fail["isError"], "message": block_text(fail)},
        "unknown": unknown,
        "motto": [[content["uri"], content["text"]] for content in motto["contents"]],
        "notes": [[content["uri"], content["text"]] for content in notes["contents"]],
        "prompt": [message["content"]["text"] for message in prompt["messages"]],
        "names": names["completion"]["values"],
        "topics": topics["completion"]["values"],
        "again": block_text(again),
    }


class Stopwatch:
    """Measures the closing of a connection, which the host's own patience bounds."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def read(self) -> float:
        return round(time.monotonic() - self._start, 3)


def report(**findings: Any) -> None:
    """Print the one line."""
    print(json.dumps(findings), flush=True)


def plan() -> Plan:
    """The plan of this run."""
    return Plan(sys.argv[1:])
