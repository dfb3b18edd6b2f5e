"""What mcpx may never do on a wire, whatever the test is about: held against every frame that it sent.

``upstream_problems`` goes through what the processes of a scripted upstream saw. ``HostAudit`` is fed by a scripted
host as frames arrive.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from mcpx.host.listen import LISTEN
from mcpx.spec.lists import CHANGE_FILTERS, RESOURCE_FILTER
from mcpx.spec.meta import PROTOCOL_VERSION, REQUEST_KEYS, SUBSCRIPTION_ID
from mcpx.spec.methods import METHODS
from mcpx.spec.revisions import LATEST_MODERN, REVISIONS, V2024_11_05, V2025_11_25, is_legacy, is_modern
from tests.support.schemas import SchemaFault, validate

if TYPE_CHECKING:
    from tests.support.fake_down import Asked
    from tests.support.scripted import Scripted

OPENING = frozenset({"server/discover", "initialize"})
# The capability that a server must have declared before it is asked for something, and before it says something.
ASKED_OF = {"tools": "tools", "prompts": "prompts", "resources": "resources"} | {
    "completion": "completions",
    "logging": "logging",
}
PROMISED = {
    "notifications/tools/list_changed": ("tools", "listChanged"),
    "notifications/prompts/list_changed": ("prompts", "listChanged"),
    "notifications/resources/list_changed": ("resources", "listChanged"),
    "notifications/resources/updated": ("resources", "subscribe"),
    "notifications/message": ("logging", None),
}


def invalid(
    frame: dict[str, Any], revision: str, sender: Literal["client", "server"], method: str | None = None
) -> list[str]:
    """The schema's objections to one frame, at most one.

    A request or notification that no revision defines is nobody's to judge: where one may go is for a test to say.
    """
    if "method" in frame and frame["method"] not in METHODS:
        return []
    try:
        validate(frame, revision, sender=sender, method=method)
    except SchemaFault as error:
        return [f"{json.dumps(frame)[:2000]} is not valid in {revision}: {error}"]
    return []


def upstream_problems(upstream: Scripted) -> list[str]:
    """Everything that mcpx did wrong towards the processes of one scripted upstream."""
    problems: list[str] = []
    for pid in dict.fromkeys(event.pid for event in upstream.events):
        audit = _ProcessAudit(upstream.name)
        for event in upstream.events:
            if event.pid != pid or event.kind not in ("in", "out", "raw"):
                continue
            text = event.value["text"]
            if len(text.encode("utf-8", "surrogateescape")) < event.value["size"]:
                continue  # too big to be recorded whole
            if event.kind == "in":
                audit.received(text)
            else:
                for line in text.split("\n"):
                    audit.sent(line)
        problems += audit.problems
    return problems


class _ProcessAudit:
    """One process of an upstream, from its first line to its last."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.problems: list[str] = []
        self.revision: str | None = None  # of the handshake
        self.modern = False  # discover was answered, or a modern error seen
        self.initialized = False
        self.capabilities: dict[str, Any] | None = None  # as the server declared them
        self.ids: dict[str, str] = {}  # id -> method, of everything that mcpx asked
        self.asked: dict[str, str] = {}  # id -> method, of what the server asked

    def _wrong(self, what: str) -> None:
        self.problems.append(f"to {self.server}: {what}")

    def received(self, text: str) -> None:
        frame = json.loads(text)
        if not isinstance(frame, dict):
            self._wrong(f"no frame: {text[:200]}")
        elif "method" not in frame:
            self._answered(frame)
        elif "id" in frame:
            self._asked_for(frame)
        else:
            self._notified(frame)

    def _asked_for(self, frame: dict[str, Any]) -> None:
        method, key = frame["method"], json.dumps(frame["id"])
        if key in self.ids:
            self._wrong(f"the id {key} of {self.ids[key]} is used again for {method}")
        self.ids[key] = method
        meta = frame.get("params", {}).get("_meta", {})
        if method == "initialize":
            revision = frame["params"]["protocolVersion"]
            if not is_legacy(revision):
                self._wrong(f"initialize offers {revision}")
        elif PROTOCOL_VERSION in meta:
            revision = meta[PROTOCOL_VERSION]
            if method not in OPENING and self.revision is not None:
                self._wrong(f"a modern {method} after a handshake")
            elif method not in OPENING and not self.modern:
                self._wrong(f"{method} before the era was decided")
        else:
            revision = self.revision
            if revision is None:
                self._wrong(f"{method} before the handshake")
            elif not self.initialized and method != "ping":
                self._wrong(f"{method} before notifications/initialized")
            if REQUEST_KEYS & meta.keys():
                self._wrong(f"reserved keys in a legacy {method}")
        capability = ASKED_OF.get(method.partition("/")[0])
        assumed = capability == "completions" and self.revision == V2024_11_05  # which has no such capability
        if capability and self.capabilities is not None and capability not in self.capabilities and not assumed:
            self._wrong(f"{method} though {capability} was not declared")
        self._listened(method, frame.get("params", {}).get("notifications", {}))
        if revision in REVISIONS:
            self.problems += invalid(frame, revision, "client")

    def _listened(self, method: str, filter: dict[str, Any]) -> None:
        """A subscription is only asked for where the server declares that it can keep it."""
        promised = {name for name, value in filter.items() if value}
        if method in ("resources/subscribe", "resources/unsubscribe"):
            promised.add(RESOURCE_FILTER)
        for name in promised if self.capabilities is not None else ():
            capability = CHANGE_FILTERS.get(name, "resources")
            member = "listChanged" if name in CHANGE_FILTERS else "subscribe"
            if self.capabilities.get(capability, {}).get(member) is not True:
                self._wrong(f"{method} for {name} though {capability} {member} was not declared")

    def _notified(self, frame: dict[str, Any]) -> None:
        method = frame["method"]
        if self.revision is None and not self.modern:
            self._wrong(f"{method} before the era was decided")
        if self.revision is None and self.modern and not set(self.ids.values()) - OPENING:
            self._wrong(f"{method} before the first request")
        if method == "notifications/initialized":
            self.initialized = True
        if method == "notifications/cancelled":
            asked = self.ids.get(json.dumps(frame["params"].get("requestId")))
            if asked is None or asked in OPENING:
                self._wrong(f"cancels {asked or 'what was never asked'}")
        self.problems += invalid(frame, self.revision or LATEST_MODERN, "client")

    def _answered(self, frame: dict[str, Any]) -> None:
        key = json.dumps(frame.get("id"))
        method = self.asked.pop(key, None)
        if method is None:
            self._wrong(f"answers what was never asked: {json.dumps(frame)[:200]}")
        elif self.revision is not None:
            self.problems += invalid(frame, self.revision, "client", method)

    def sent(self, text: str) -> None:
        """What the server wrote, which may be anything."""
        try:
            frame = json.loads(text)
        except ValueError:
            return
        if not isinstance(frame, dict):
            return
        if "method" in frame and "id" in frame:
            self.asked[json.dumps(frame["id"])] = frame["method"]
            return
        method = self.ids.get(_plain_id(frame.get("id")))
        result = frame.get("result")
        if method == "initialize" and isinstance(result, dict) and is_legacy(result.get("protocolVersion", "")):
            self.revision = result["protocolVersion"]
        if method in OPENING and isinstance(result, dict):
            self.capabilities = result.get("capabilities")
        if method == "server/discover" and "method" not in frame:
            code = frame.get("error", {}).get("code")
            self.modern = self.modern or result is not None or code in (-32020, -32021, -32022)
        if method == "initialize" and "error" in frame:
            supported = (frame["error"].get("data") or {}).get("supported", [])
            self.modern = self.modern or any(is_modern(revision) for revision in supported)


def _plain_id(value: Any) -> str:
    """The id that an oddly spelt one stands for."""
    if isinstance(value, float):
        return json.dumps(int(value))
    return value if isinstance(value, str) and value.lstrip("-").isdigit() else json.dumps(value)


class HostAudit:
    """What one scripted host received, in order."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.revision: str | None = None  # of the last handshake
        self.era_known = False  # there was a handshake or a modern request
        self._ended: set[str] = set()  # listen streams that mcpx has ended, by their ids as JSON
        self.capabilities: dict[str, Any] = {}  # as mcpx declared them in that handshake

    def _wrong(self, what: str) -> None:
        self.problems.append(f"to the host: {what}")

    def response(self, frame: dict[str, Any], asked: Asked | None) -> None:
        """A result or an error, and the request that it answers, where there is one."""
        if asked is None:
            self._unknown(frame)
            return
        method, revision = asked.method, asked.revision
        self.era_known = self.era_known or is_modern(str(revision))
        if method == "initialize" and "result" in frame:
            self.revision = revision = frame["result"].get("protocolVersion")
            if not is_legacy(str(revision)):
                self._wrong(f"initialize was answered with {revision}")
                return
            self.capabilities = frame["result"].get("capabilities", {})
        if method == LISTEN and "result" in frame:
            self._ended.add(json.dumps(frame["id"]))
            revision = LATEST_MODERN
            if not is_modern(str(asked.revision)):  # which has no streams: it is one that the modern revision has
                frame = {**frame, "result": {"resultType": "complete", **frame["result"]}}
        self.problems += invalid(frame, revision or V2024_11_05, "server", method)

    def _unknown(self, frame: dict[str, Any]) -> None:
        """An answer to nothing that is in flight: only an error without a usable id may be that."""
        if "error" not in frame or frame.get("id") is not None:
            self._wrong(f"an answer to nothing that is asked: {json.dumps(frame)[:500]}")
            return
        bare = self.revision == V2025_11_25 or (self.revision is None and self.era_known)
        if bare != ("id" not in frame):
            self._wrong(f"{'an' if 'id' in frame else 'no'} id in an error for an unknown request: {json.dumps(frame)}")
        if bare:
            self.problems += invalid(frame, V2025_11_25, "server")

    def notification(self, frame: dict[str, Any], revision: str | None) -> None:
        """A notification; ``revision`` is that of the request it belongs to, where it belongs to one."""
        meta = frame.get("params", {}).get("_meta", {})
        ends = frame["method"] == "notifications/cancelled" and json.dumps(frame["params"]["requestId"]) in self._ended
        revision = LATEST_MODERN if SUBSCRIPTION_ID in meta or ends else revision or self.revision
        if revision is None:
            self._wrong(f"{frame['method']} though nobody shook hands")
            return
        capability, member = PROMISED.get(frame["method"], (None, None))
        if capability is not None and not is_modern(revision):
            declared = self.capabilities.get(capability)
            if declared is None or (member is not None and declared.get(member) is not True):
                self._wrong(f"{frame['method']} though {capability} {member or ''} was not declared")
        self.problems += invalid(frame, revision, "server")

    def request(self, frame: dict[str, Any]) -> None:
        """A request of mcpx to its host."""
        if self.revision is None:
            self._wrong(f"{frame['method']} though nobody shook hands")
        else:
            self.problems += invalid(frame, self.revision, "server")
