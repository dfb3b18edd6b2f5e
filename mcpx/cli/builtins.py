"""The servers that are built in, by the names that ``ServerSettings.builtin`` gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpx.demo import demo_app

if TYPE_CHECKING:
    from mcpx.upstream.target import Builtins

BUILTINS: Builtins = {"demo": lambda: demo_app().open_channel()}
