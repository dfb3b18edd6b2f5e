"""Writing a server in Python functions."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from mcpx.app.function import Function
from mcpx.app.items import Hints, Prompt, Resource, Template, Tool
from mcpx.app.serve import run_app
from mcpx.transports.crew import open_crew
from mcpx.transports.memory import memory_channel_pair
from mcpx.wire.frames import to_raw

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from mcpx.app.items import Completions
    from mcpx.transports.channel import Channel

F = TypeVar("F", bound="Callable[..., Any]")


class App:
    """A server made of functions, each given to it by a decorator, which returns the function as it was.

    Functions are plain or asynchronous; a plain one runs in Trio's thread, so it must not block. Their parameters
    need type annotations, from which the JSON schemas are made, and their docstrings are the descriptions. A
    parameter annotated with ``Context`` is given the request. Mistakes are raised where the function is decorated.

    The app speaks the newest revision of the protocol only. Hosts of every other one use it through the gateway, as
    they use any server.
    """

    def __init__(
        self,
        name: str,
        version: str,
        *,
        title: str | None = None,
        description: str | None = None,
        instructions: str | None = None,
    ) -> None:
        self.name = name
        self.instructions = instructions
        self.tools: dict[str, Tool] = {}
        self.prompts: dict[str, Prompt] = {}
        self.resources: dict[str, Resource] = {}
        self.templates: dict[str, Template] = {}
        info = {"name": name, "version": version, "title": title, "description": description}
        self.server_info = to_raw({key: value for key, value in info.items() if value is not None})

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        hints: Hints | None = None,
    ) -> Callable[[F], F]: ...
    def tool(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        hints: Hints | None = None,
    ) -> Any:
        """Offer a function as a tool, named after it unless ``name`` says otherwise.

        It returns text (``str``), content (``Image``, ``Audio``, ``ResourceLink``, ``EmbeddedResource``), a list of
        these, ``None``, or any other value with a form in JSON, which becomes structured content with the
        annotation's schema. It raises ``ToolError`` to tell the model what went wrong.
        """

        def add(function: F) -> F:
            tool = Tool(_name(name, function), function, title, description, hints)
            _add(self.tools, tool.name, tool, "tool")
            return function

        return add if function is None else add(function)

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
    ) -> Callable[[F], F]: ...
    def prompt(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
    ) -> Any:
        """Offer a function as a prompt. It returns text, content, a ``Message``, or a list of these.

        The protocol carries a prompt's arguments as text; numbers and booleans are read out of it.
        """

        def add(function: F) -> F:
            prompt = Prompt(_name(name, function), function, title, description)
            _add(self.prompts, prompt.name, prompt, "prompt")
            return function

        return add if function is None else add(function)

    def resource(
        self,
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
    ) -> Callable[[F], F]:
        """Offer what a function returns as a resource: ``str``, ``bytes``, or ``None`` when there is none just now."""

        def add(function: F) -> F:
            made = Resource(uri, function, _name(name, function), title, description, mime_type)
            _add(self.resources, uri, made, "resource")
            return function

        return add

    def template(
        self,
        uri_template: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
    ) -> Callable[[F], F]:
        """Offer a family of resources: the function's parameters are the template's ``{name}`` and ``{+name}``.

        It returns what a resource's function does.
        """

        def add(function: F) -> F:
            made = Template(uri_template, function, _name(name, function), title, description, mime_type)
            _add(self.templates, uri_template, made, "resource template")
            return function

        return add

    @overload
    def completion(self, *, prompt: str, argument: str) -> Callable[[F], F]: ...
    @overload
    def completion(self, *, template: str, argument: str) -> Callable[[F], F]: ...
    def completion(self, *, argument: str, prompt: str = "", template: str = "") -> Callable[[F], F]:
        """Complete an argument of a prompt or template that the app has.

        The function's ``value: str`` is what was typed so far; a parameter ``arguments: dict[str, str]``, if it has
        one, is given the other arguments. It returns the suggestions, the best first.
        """
        completions = self._completions(prompt, template)

        def add(function: F) -> F:
            completer = Function(f"completion of {argument} for {prompt or template}", function)
            if not {"value"} <= set(completer.parameters.names) <= {"value", "arguments"}:
                raise TypeError(f"{completer.what}: its parameters are 'value' and, if it wants them, 'arguments'")
            completions.add(argument, completer)
            return function

        return add

    def _completions(self, prompt: str, template: str) -> Completions:
        try:
            return self.prompts[prompt].completions if prompt else self.templates[template].completions
        except KeyError:
            raise ValueError(f"there is no {prompt or template!r} to complete; decorate its function first") from None

    @asynccontextmanager
    async def open_channel(self) -> AsyncGenerator[Channel]:
        """Serve the app to whoever holds the channel, until left. What is in flight then is cancelled."""
        near, far = memory_channel_pair()
        async with open_crew() as crew:
            with near, far:
                crew.start_soon(run_app, self, far)
                yield near


def _name(name: str | None, function: Callable[..., Any]) -> str:
    return function.__name__ if name is None else name


def _add(table: dict[str, Any], key: str, item: object, what: str) -> None:
    if key in table:
        raise ValueError(f"there is a {what} {key!r} already")
    table[key] = item
