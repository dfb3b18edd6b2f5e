"""Parameters of tools that a modern server wants repeated in headers, as its lists say.

(2026-07-28 basic/transports/streamable-http, Custom Headers from Tool Parameters; server/tools, x-mcp-header.)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from mcpx.spec.headers import ANNOTATION, BadAnnotation, ParamHeader, declared_params, param_headers
from mcpx.wire import frames
from mcpx.wire.raws import elements_of, members_of, string_of

if TYPE_CHECKING:
    from msgspec import Raw

log = logging.getLogger("mcpx.upstream")

_MARK = ANNOTATION.encode()
MAX_TOOLS = 10_000  # of which it is remembered that they have such parameters
MAX_COMPLAINTS = 1_000  # tools of which it was said that they are left out


class Mirrored:
    """What is known of one server's tools. What an unknown one needs the server says with an error."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._declared: dict[str, tuple[ParamHeader, ...]] = {}
        self._complained: set[tuple[str, str]] = set()

    def headers(self, tool: str | None, arguments: Raw | None) -> dict[str, str]:
        """The headers of a call."""
        declared = self._declared.get(tool or "", ())
        return param_headers(declared, arguments) if declared else {}

    def learn(self, page: Raw) -> Raw:
        """Take a result of ``tools/list``; what hosts may see of it: without tools whose annotations break a rule.

        Of each tool that is left out one warning is logged. The very same object where there is none.
        """
        if _MARK not in bytes(page) and not self._declared:  # the case of nearly every server
            return page
        members = members_of(page) or {}
        tools = elements_of(members.get("tools"))
        if tools is None:
            return page
        kept = [tool for tool in tools if self._learn_tool(tool)]
        return page if len(kept) == len(tools) else frames.to_raw({**members, "tools": kept})

    def _learn_tool(self, tool: Raw) -> bool:
        """Whether the tool is to be shown."""
        members = members_of(tool) or {}
        name, schema = string_of(members.get("name")), members.get("inputSchema")
        if name is None or schema is None:
            return True
        try:
            declared = declared_params(schema)
        except BadAnnotation as error:
            self._declared.pop(name, None)
            if (name, error.reason) not in self._complained and len(self._complained) < MAX_COMPLAINTS:
                self._complained.add((name, error.reason))
                log.warning("[%s] its tool %r is left out: %s", self._server, name, error.reason)
            return False
        if declared and (name in self._declared or len(self._declared) < MAX_TOOLS):
            self._declared[name] = declared
        elif not declared:
            self._declared.pop(name, None)
        return True
