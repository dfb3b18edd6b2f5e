"""The requests that an app answers, and how: 2026-07-28 as a server speaks it, without its envelope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from mcpx.app.content import BlobContents, Text, TextContents, blocks, messages
from mcpx.app.errors import FunctionBug, ToolError
from mcpx.app.function import guard
from mcpx.errors import RpcError
from mcpx.spec.revisions import MODERN
from mcpx.wire.frames import INVALID_PARAMS, to_raw
from mcpx.wire.raws import is_object

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpx.app.app import App
    from mcpx.app.context import Context
    from mcpx.app.items import Completions, Prompt, Resource, Template, Tool

    Respond = Callable[[App, Raw, Context], Awaitable[dict[str, Any]]]

MAX_COMPLETIONS = 100  # 2026-07-28 server/utilities/completion, Completion Results

# Lists stay as they are while an app runs, and are the same for everyone. What a function reads may change at any
# moment.
_LASTING = {"ttlMs": 300_000, "cacheScope": "public"}
_FLEETING = {"ttlMs": 0, "cacheScope": "private"}


class _ListParams(msgspec.Struct):
    cursor: str | UnsetType = UNSET


class _CallParams(msgspec.Struct):
    name: str
    arguments: Raw | UnsetType = UNSET


class _GetParams(msgspec.Struct):
    name: str
    arguments: dict[str, str] = {}


class _ReadParams(msgspec.Struct):
    uri: str


class _PromptReference(msgspec.Struct, tag_field="type", tag="ref/prompt"):
    name: str


class _ResourceReference(msgspec.Struct, tag_field="type", tag="ref/resource"):
    uri: str


class _Argument(msgspec.Struct):
    name: str
    value: str


class _CompletionContext(msgspec.Struct, frozen=True):
    arguments: dict[str, str] = {}


class _CompleteParams(msgspec.Struct):
    ref: _PromptReference | _ResourceReference
    argument: _Argument
    context: _CompletionContext = _CompletionContext()


T = TypeVar("T")


def _read(kind: type[T], params: Raw) -> T:
    try:
        return msgspec.json.decode(params, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None


def _offers(app: App) -> list[Prompt | Template]:
    return [*app.prompts.values(), *app.templates.values()]


def _takes_context(app: App) -> bool:
    items = (*app.tools.values(), *app.resources.values(), *_offers(app))
    return any(item.function.parameters.context is not None for item in items)


# What an app can do, by what it has. Its lists do not change, so nothing announces that they did.
CAPABILITIES: dict[str, Callable[[App], bool]] = {
    "tools": lambda app: bool(app.tools),
    "prompts": lambda app: bool(app.prompts),
    "resources": lambda app: bool(app.resources or app.templates),
    "completions": lambda app: any(offer.completions.functions for offer in _offers(app)),
    "logging": _takes_context,
}


async def _discover(app: App, params: Raw, context: Context) -> dict[str, Any]:
    found: dict[str, Any] = {
        "supportedVersions": MODERN,
        "capabilities": {name: {} for name, has in CAPABILITIES.items() if has(app)},
    }
    if app.instructions is not None:
        found["instructions"] = app.instructions
    return {**found, **_LASTING}


def _list(key: str, items: Callable[[App], dict[str, Any]]) -> Respond:
    async def respond(app: App, params: Raw, context: Context) -> dict[str, Any]:
        if _read(_ListParams, params).cursor is not UNSET:
            raise RpcError(INVALID_PARAMS, "Invalid cursor: the list has one page")
        return {key: [item.entry for item in items(app).values()], **_LASTING}

    return respond


async def _call_tool(app: App, params: Raw, context: Context) -> dict[str, Any]:
    """Arguments that do not fit are the tool's result, so that the model can mend them (server/tools, Error
    Handling)."""
    call = _read(_CallParams, params)
    tool = app.tools.get(call.name)
    if tool is None:
        raise RpcError(INVALID_PARAMS, f"Unknown tool: {call.name}")
    given = Raw(b"{}") if isinstance(call.arguments, UnsetType) else call.arguments
    if not is_object(given):
        raise RpcError(INVALID_PARAMS, "Invalid params: arguments must be an object")
    try:
        arguments = tool.function.parameters.decode(given)
    except (msgspec.MsgspecError, RecursionError) as error:
        return _failed(f"Invalid arguments for tool {tool.name}: {error}")
    try:
        value = await tool.function.call(arguments, context)
        with guard(tool.function.what):
            return _tool_result(tool, value)
    except (ToolError, FunctionBug) as error:
        return _failed(str(error))


def _tool_result(tool: Tool, value: Any) -> dict[str, Any]:
    structured = tool.returns.structured(value)
    if structured is None:
        return {"content": to_raw(blocks(value))}
    # The same as text, for hosts that do not know structured content (server/tools, Structured Content).
    return {"content": [Text(structured.decode())], "structuredContent": Raw(structured)}


def _failed(message: str) -> dict[str, Any]:
    return {"content": [Text(message)], "isError": True}


async def _get_prompt(app: App, params: Raw, context: Context) -> dict[str, Any]:
    get = _read(_GetParams, params)
    prompt = app.prompts.get(get.name)
    if prompt is None:
        raise RpcError(INVALID_PARAMS, f"Unknown prompt: {get.name}")
    try:
        arguments = prompt.function.parameters.convert(get.arguments)
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_PARAMS, f"Invalid arguments for prompt {prompt.name}: {error}") from None
    value = await prompt.function.call(arguments, context)
    with guard(prompt.function.what):
        made = to_raw(messages(value))
    described = {} if prompt.description is None else {"description": prompt.description}
    return {**described, "messages": made}


async def _read_resource(app: App, params: Raw, context: Context) -> dict[str, Any]:
    uri = _read(_ReadParams, params).uri
    resource, arguments = _find(app, uri)
    value = await resource.function.call(arguments, context)
    with guard(resource.function.what):
        return {"contents": to_raw([_contents(resource, uri, value)]), **_FLEETING}


def _contents(resource: Resource | Template, uri: str, value: Any) -> TextContents | BlobContents:
    mime_type = UNSET if resource.mime_type is None else resource.mime_type
    if isinstance(value, str):
        return TextContents(uri, value, mime_type)
    if isinstance(value, bytes):
        return BlobContents(uri, value, mime_type)
    if value is None:
        raise _no_resource(uri)
    raise TypeError(f"a resource is str or bytes, not {type(value).__name__}")


def _find(app: App, uri: str) -> tuple[Resource | Template, dict[str, Any]]:
    """The resource that a URI names, else the first template that it fits, and the arguments of its function."""
    if uri in app.resources:
        return app.resources[uri], {}
    for template in app.templates.values():
        values = template.template.match(uri)
        if values is not None:
            try:
                return template, template.function.parameters.convert(values)
            except msgspec.ValidationError:
                continue
    raise _no_resource(uri)


def _no_resource(uri: str) -> RpcError:
    return RpcError(INVALID_PARAMS, "Resource not found", {"uri": uri})


async def _complete(app: App, params: Raw, context: Context) -> dict[str, Any]:
    asked = _read(_CompleteParams, params)
    completions = _referred(app, asked.ref)
    if asked.argument.name not in completions.names:
        raise RpcError(INVALID_PARAMS, f"Unknown argument: {asked.argument.name}")
    function = completions.functions.get(asked.argument.name)
    found: list[str] = []
    values = Raw(b"[]")
    if function is not None:
        given = {"value": asked.argument.value, "arguments": asked.context.arguments}
        value = await function.call({name: given[name] for name in function.parameters.names}, context)
        with guard(function.what):
            found = msgspec.convert(value, list[str])
            values = to_raw(found[:MAX_COMPLETIONS])
    return {"completion": {"values": values, "total": len(found), "hasMore": len(found) > MAX_COMPLETIONS}}


def _referred(app: App, ref: _PromptReference | _ResourceReference) -> Completions:
    if isinstance(ref, _PromptReference):
        if ref.name in app.prompts:
            return app.prompts[ref.name].completions
        raise RpcError(INVALID_PARAMS, f"Unknown prompt: {ref.name}")
    if ref.uri in app.templates:
        return app.templates[ref.uri].completions
    raise RpcError(INVALID_PARAMS, f"Unknown resource template: {ref.uri}")


class Method(NamedTuple):
    """A request: the capability that an app must have for it to exist, and what answers it."""

    needs: str | None
    respond: Respond

    def is_served(self, app: App) -> bool:
        return self.needs is None or CAPABILITIES[self.needs](app)


METHODS: dict[str, Method] = {
    "server/discover": Method(None, _discover),
    "tools/list": Method("tools", _list("tools", lambda app: app.tools)),
    "tools/call": Method("tools", _call_tool),
    "prompts/list": Method("prompts", _list("prompts", lambda app: app.prompts)),
    "prompts/get": Method("prompts", _get_prompt),
    "resources/list": Method("resources", _list("resources", lambda app: app.resources)),
    "resources/templates/list": Method("resources", _list("resourceTemplates", lambda app: app.templates)),
    "resources/read": Method("resources", _read_resource),
    "completion/complete": Method("completions", _complete),
}
