"""The demo server itself, function by function."""

# No `from __future__ import annotations` in here: schemas are made from the annotations.

import struct
import zlib
from typing import Annotated, Literal

import msgspec
import trio
from msgspec import Meta

from mcpx import __version__
from mcpx.app import App, Context, Hints, Image, Message, ToolError

_READ_ONLY = Hints(read_only=True, open_world=False)

Colour = Literal["red", "green", "blue"]
_COLOURS: dict[Colour, tuple[int, int, int]] = {
    "red": (200, 40, 40),
    "green": (40, 160, 70),
    "blue": (40, 80, 200),
}
_STYLES = ("formal", "friendly", "pirate")
_SKIES = ("clear", "cloudy", "rain", "snow", "fog")
_PEOPLE = ("Ada", "Alan", "Barbara", "Grace", "Katherine")

README = """# The mcpx demo server

Tools to try: echo, add, slow (with progress), fail, image, weather.
There is a prompt, greet, two resources, and the template demo://greeting/{name}.
"""


class Sum(msgspec.Struct):
    """What ``add`` returns."""

    sum: float


class Weather(msgspec.Struct):
    """What ``weather`` returns."""

    city: str
    sky: Annotated[str, Meta(description="What one would see")]
    celsius: Annotated[float, Meta(description="Temperature")]


def make_app() -> App:
    """The demo server."""
    app = App(
        "mcpx-demo",
        __version__,
        title="mcpx demo",
        description="A small server to try mcpx with.",
        instructions="A server for trying things out. Its weather is made up.",
    )
    _add_tools(app)
    _add_prompts(app)
    _add_resources(app)
    return app


def _add_tools(app: App) -> None:
    @app.tool(title="Echo", hints=_READ_ONLY)
    def echo(text: Annotated[str, Meta(description="What to say back")]) -> str:
        """Say back what was said."""
        return text

    @app.tool(title="Add", hints=_READ_ONLY)
    def add(a: float, b: float) -> Sum:
        """Add two numbers."""
        return Sum(a + b)

    @app.tool(title="Slow", hints=_READ_ONLY)
    async def slow(
        context: Context,
        seconds: Annotated[float, Meta(description="How long in all", ge=0, le=3600)] = 3,
        steps: Annotated[int, Meta(description="How many times to report progress", ge=1, le=1000)] = 3,
    ) -> str:
        """Take a while, and report progress meanwhile."""
        await context.log("info", f"waiting {seconds:g} s", "demo")
        for step in range(1, steps + 1):
            await trio.sleep(seconds / steps)
            await context.progress(step, steps, f"step {step} of {steps}")
        return f"Done after {seconds:g} s."

    @app.tool(title="Fail", hints=_READ_ONLY)
    def fail(message: Annotated[str, Meta(description="What to fail with")] = "This tool always fails.") -> str:
        """Fail, as a tool does whose work went wrong."""
        raise ToolError(message)

    @app.tool(title="Image", hints=_READ_ONLY)
    def image(
        colour: Colour = "blue", size: Annotated[int, Meta(description="Width and height", ge=1, le=256)] = 32
    ) -> Image:
        """Draw a small square, brighter towards one corner."""
        return Image(_png(_COLOURS[colour], size))

    @app.tool(title="Weather", hints=_READ_ONLY)
    def weather(city: Annotated[str, Meta(description="The name of a city", min_length=1)]) -> Weather:
        """The weather in a city. It is made up, and always the same for one city."""
        chance = zlib.crc32(city.strip().casefold().encode())
        return Weather(city, _SKIES[chance % len(_SKIES)], round(chance // 7 % 450 / 10 - 10, 1))


def _add_prompts(app: App) -> None:
    @app.prompt(title="Greet someone")
    def greet(
        name: Annotated[str, Meta(description="Whom to greet")],
        style: Annotated[str, Meta(description="How")] = "friendly",
    ) -> Message:
        """Ask for a greeting."""
        return Message(f"Write one {style} sentence that greets {name}.")

    @app.completion(prompt="greet", argument="style")
    def styles(value: str) -> list[str]:
        return [style for style in _STYLES if style.startswith(value.lower())]


def _add_resources(app: App) -> None:
    @app.resource("demo://readme", name="readme", title="About this server", mime_type="text/markdown")
    def readme() -> str:
        """What there is to try."""
        return README

    @app.resource("demo://square.png", name="square", title="A blue square", mime_type="image/png")
    def square() -> bytes:
        """An image, as bytes."""
        return _png(_COLOURS["blue"], 16)

    @app.template("demo://greeting/{name}", name="greeting", title="A greeting", mime_type="text/plain")
    def greeting(name: str) -> str:
        """A greeting for anyone."""
        return f"Hello, {name}!"

    @app.completion(template="demo://greeting/{name}", argument="name")
    def people(value: str) -> list[str]:
        return [person for person in _PEOPLE if person.lower().startswith(value.lower())]


def _png(colour: tuple[int, int, int], size: int) -> bytes:
    """A square image as a PNG file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)  # 8 bits each of red, green and blue
    rows = bytearray()
    for y in range(size):
        rows.append(0)  # no filter
        for x in range(size):
            light = (x + y) / (2 * size)
            rows += bytes(round(part + (255 - part) * light) for part in colour)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(rows))) + chunk(b"IEND", b"")
    )
