"""Where the program begins."""

from __future__ import annotations

import gc


def main() -> None:
    """The program ``mcpx``.

    What is loaded is there for good: the garbage collector would only look at it, which is a tenth of the start. It
    comes to work with the event loop: see ``mcpx.cli.run``.
    """
    gc.disable()
    from mcpx.cli.main import main as run

    run()
