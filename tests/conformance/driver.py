"""The client under test: mcpx's upstream side, made to do what a scenario of the suite asks for.

``python -m tests.conformance.driver URL`` opens a gateway with that one server, passed through. Which scenario it is
and what goes with it stands in the environment, where the suite puts it. What was done is printed, for whoever looks.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from mcpx.errors import McpxError, RpcError, leaves
from mcpx.gateway import open_gateway
from mcpx.settings import ServerSettings, Settings
from mcpx.spec.revisions import LATEST_MODERN
from mcpx.upstream.call import Asker, Question, Reply, Request
from mcpx.wire.frames import METHOD_NOT_FOUND, to_raw

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from msgspec import Raw

    from mcpx.gateway.gateway import Gateway
    from mcpx.spec.lists import ListKind

SCENARIO = "MCP_CONFORMANCE_SCENARIO"
CONTEXT = "MCP_CONFORMANCE_CONTEXT"
PATIENCE = 25.0  # seconds; the suite gives a client thirty
# What the host that the driver stands for can be asked.
CAPABILITIES = {"elicitation": to_raw({"form": {}}), "sampling": to_raw({}), "roots": to_raw({})}


class Failed(McpxError):
    """Some of the tools could not be called."""


class Driver:
    """What a scenario's steps are made of."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._asker = Asker(host="driver", capabilities=CAPABILITIES)

    async def list(self, kind: ListKind) -> list[dict[str, Any]]:
        """A list of the server's."""
        page = await self._gateway.list(kind, self._asker, None)
        found = [json.loads(bytes(item)) for part in page.parts for item in part.items]
        print(kind, [item.get("name") for item in found])
        return found

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a request; whatever is asked meanwhile is answered."""
        raw = {name: to_raw(value) for name, value in params.items()}
        with self._gateway.exchange(Request(method, raw, LATEST_MODERN, self._asker)) as exchange:
            while True:
                event = await exchange.next()
                if isinstance(event, Reply):
                    print(method, params, bytes(event.payload).decode())
                    return json.loads(bytes(event.payload))
                print(method, params, event)
                if isinstance(event, Question):
                    exchange.answer(event.key, _answer(event), event.revision)

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The result of a tool."""
        return await self.ask("tools/call", name=name, arguments=arguments)

    async def call_all(self) -> None:
        """Call every tool that there is, with arguments that fit its schema; one that fails keeps none from its turn.

        Raises ``Failed`` at the end where one did.
        """
        failures: list[str] = []
        for tool in await self.list("tools"):
            schema = tool["inputSchema"].get("properties", {})
            try:
                await self.call(tool["name"], **{name: _value(of.get("type")) for name, of in schema.items()})
            except McpxError as error:
                failures.append(f"{tool['name']}: {error}")
        if failures:
            raise Failed("\n".join(failures))


def _answer(question: Question) -> Raw | RpcError:
    """What a person answers who agrees to everything as it stands: a form has its defaults, where there are any."""
    if question.method != "elicitation/create":
        return RpcError(METHOD_NOT_FOUND, f"no scenario asks for {question.method}")
    fields = json.loads(bytes(question.params["requestedSchema"]))["properties"]
    content = {name: field.get("default", _value(field.get("type"))) for name, field in fields.items()}
    return to_raw({"action": "accept", "content": content})


def _value(kind: Any) -> Any:
    """A value of a JSON schema's type."""
    values = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}, "null": None}
    return values.get(kind, "value") if isinstance(kind, str) else "value"


async def _list_tools(driver: Driver) -> None:
    await driver.list("tools")


async def _add(driver: Driver) -> None:
    await driver.list("tools")
    await driver.call("add_numbers", a=5, b=3)


async def _all_tools(driver: Driver) -> None:
    await driver.call_all()


async def _everything(driver: Driver) -> None:
    await driver.call_all()
    for resource in await driver.list("resources"):
        await driver.ask("resources/read", uri=resource["uri"])
    for prompt in await driver.list("prompts"):
        await driver.ask("prompts/get", name=prompt["name"])


async def _given_calls(driver: Driver) -> None:
    await driver.list("tools")
    for call in json.loads(os.environ[CONTEXT])["toolCalls"]:
        await driver.call(call["name"], **call["arguments"])


async def _echo_schema(driver: Driver) -> None:
    schemas = {tool["name"]: tool["inputSchema"] for tool in await driver.list("tools")}
    await driver.call("json_schema_echo", schema=schemas["json_schema_2020_12_tool"])


STEPS: dict[str, Callable[[Driver], Awaitable[None]]] = {
    "initialize": _list_tools,
    "tools_call": _add,
    "elicitation-sep1034-client-defaults": _all_tools,
    "sse-retry": _all_tools,
    "request-metadata": _list_tools,
    "sep-2322-client-request-state": _all_tools,
    "http-standard-headers": _everything,
    "http-custom-headers": _given_calls,
    "http-invalid-tool-headers": _all_tools,
    "json-schema-ref-no-deref": _list_tools,
    "json-schema-2020-12-preservation": _echo_schema,
}


async def _drive(url: str, scenario: str) -> None:
    with tempfile.TemporaryDirectory(prefix="mcpx-conformance-") as folder, trio.fail_after(PATIENCE):
        server = ServerSettings(name="suite", url=url, passthrough=True)
        async with open_gateway(Settings(servers=(server,), state_dir=Path(folder))) as gateway:
            await STEPS[scenario](Driver(gateway))


def main() -> int:
    """Do the steps of the scenario, and return the exit status."""
    scenario, url = os.environ.get(SCENARIO, ""), sys.argv[-1]
    if scenario not in STEPS:
        print(f"there are no steps for the scenario {scenario!r}", file=sys.stderr)
        return 2
    failed: list[BaseException] = []
    try:
        trio.run(_drive, url, scenario)
    except* McpxError as group:
        failed += leaves(group)
    print(*failed, sep="\n", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
