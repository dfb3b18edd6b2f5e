"""The built-in demo server: something real to talk to, and an example of writing a server with ``mcpx.app``.

It is reached as any other upstream is; ``mcpx serve`` without a configuration serves it. A program that embeds the
gateway gets it with ``open_gateway(settings, builtins=BUILTINS)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcpx.app import App
    from mcpx.upstream.target import Builtins

__all__ = ["BUILTINS", "demo_app"]


def demo_app() -> App:
    """The demo server, made anew."""
    from mcpx.demo.server import make_app  # late: whoever has servers of their own never loads it

    return make_app()


# What is built in, by the names that ``ServerSettings.builtin`` gives.
BUILTINS: Builtins = {"demo": lambda: demo_app().open_channel()}
