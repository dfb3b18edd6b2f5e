"""What mcpx may never say to a server over HTTP, held against every request."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcpx.spec.headers import MCP_METHOD, MCP_NAME, MCP_PROTOCOL_VERSION, MCP_SESSION_ID, NAMED
from mcpx.spec.meta import PROTOCOL_VERSION
from mcpx.spec.revisions import VERSION_HEADER, is_legacy, is_modern
from mcpx.wire.headers import decode_value
from tests.support.audit import invalid

if TYPE_CHECKING:
    from tests.support.http_up import Asked

Frame = dict[str, Any]


class HttpAudit:
    """What mcpx may never say over HTTP, held against every request."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.revisions: dict[str | None, str] = {}  # of each session
        self._ids: set[tuple[str | None, str]] = set()

    def asked(self, asked: Asked) -> None:
        session = asked.headers.get(MCP_SESSION_ID)
        if asked.headers.get("accept-encoding") != "identity":
            self._wrong(asked, "may be packed")
        if asked.method != "POST":
            if asked.headers.get(MCP_PROTOCOL_VERSION) and self._revision(session) not in VERSION_HEADER:
                self._wrong(asked, "names a version that its revision has no header for")
            return
        if asked.headers.get("content-type") != "application/json":
            self._wrong(asked, f"has the content type {asked.headers.get('content-type')}")
        accept = asked.headers.get("accept", "")
        if "text/event-stream" not in accept and "*/*" not in accept:
            self._wrong(asked, f"accepts {accept}")
        frame = asked.frame
        version = frame.get("params", {}).get("_meta", {}).get(PROTOCOL_VERSION)
        if version is not None:
            self._modern(asked, frame, version)
        elif "id" not in frame and is_modern(asked.headers.get(MCP_PROTOCOL_VERSION, "")):
            if asked.headers.get(MCP_METHOD) != frame["method"] or session is not None:
                self._wrong(asked, "has headers that do not match")
            if frame["method"] == "notifications/cancelled":
                self._wrong(asked, "is said by closing the stream")
        elif "method" in frame:
            self._legacy(asked, frame, session)

    def _modern(self, asked: Asked, frame: Frame, version: str) -> None:
        method, params = frame["method"], frame["params"]
        if not is_modern(version):
            self._wrong(asked, f"names the version {version} in its metadata")
        if MCP_SESSION_ID in asked.headers:
            self._wrong(asked, "names a session")
        if asked.headers.get(MCP_PROTOCOL_VERSION) != version or asked.headers.get(MCP_METHOD) != method:
            self._wrong(asked, "has headers that do not match")
        name = asked.headers.get(MCP_NAME)
        if (None if name is None else decode_value(name)) != params.get(NAMED.get(method, "")):
            self._wrong(asked, f"has the name {name}")
        if method.startswith("notifications/"):
            self._wrong(asked, "is a notification")
        self.problems += invalid(frame, version, "client")

    def _legacy(self, asked: Asked, frame: Frame, session: str | None) -> None:
        if frame["method"] == "initialize":
            revision = frame["params"]["protocolVersion"]
            if session is not None or MCP_PROTOCOL_VERSION in asked.headers:
                self._wrong(asked, "belongs to a session, or names a version")
        else:
            revision = self._revision(session)
            if revision is None:
                self._wrong(asked, f"is in the session {session}, which there is not")
                return
            expected = revision if revision in VERSION_HEADER else None
            if asked.headers.get(MCP_PROTOCOL_VERSION) != expected:
                self._wrong(asked, f"names the version {asked.headers.get(MCP_PROTOCOL_VERSION)} on {revision}")
        for header in (MCP_METHOD, MCP_NAME):
            if header in asked.headers:
                self._wrong(asked, f"has the header {header}")
        if "id" in frame and frame["method"] != "initialize":
            key = (session, json.dumps(frame["id"]))
            if session is not None and key in self._ids:
                self._wrong(asked, f"uses the id {frame['id']} again")
            self._ids.add(key)
        self.problems += invalid(frame, revision, "client")

    def _revision(self, session: str | None) -> str | None:
        return self.revisions.get(session)

    def answered(self, asked: Asked, frame: Frame, headers: dict[str, str]) -> None:
        """What the server answers, which may open a session."""
        result = frame.get("result")
        if isinstance(result, dict) and is_legacy(result.get("protocolVersion", "")):
            session = next((value for name, value in headers.items() if name.lower() == MCP_SESSION_ID), None)
            self.revisions[session] = result["protocolVersion"]

    def _wrong(self, asked: Asked, what: str) -> None:
        self.problems.append(f"{asked.kind} {what}: {asked.headers} {asked.body[:500]!r}")
