"""FastMCP's proxy, as its documentation has it made; run with an interpreter that has FastMCP.

    python fastmcp_proxy.py TARGET MODE [PORT]

``TARGET`` is a configuration as JSON. ``MODE`` is what it speaks to the upstream, or ``-`` for what it does by itself:
the era of whoever asks. It serves its own pipes, or HTTP at a port.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
import sys

from fastmcp.server import create_proxy


def main(target: str, mode: str, port: str = "") -> None:
    proxy = create_proxy(json.loads(target), mode=None if mode == "-" else mode)
    quiet = {"show_banner": False, "log_level": "CRITICAL"}
    if port:
        proxy.run(transport="http", host="127.0.0.1", port=int(port), **quiet)
    else:
        proxy.run(transport="stdio", **quiet)


if __name__ == "__main__":
    main(*sys.argv[1:])
