"""``python -m mcpx`` is ``mcpx``."""

from __future__ import annotations

from mcpx.cli.entry import main

if __name__ == "__main__":
    main()
