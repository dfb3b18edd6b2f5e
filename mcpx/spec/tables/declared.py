"""What hosts and servers declare, and what errors carry."""

from __future__ import annotations

from mcpx.spec.fields import may, need, record
from mcpx.spec.revisions import LATEST_LEGACY, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28

_ONLY = (V2025_11_25, V2025_11_25)  # tasks and elicitation ids were in the protocol in this revision alone

RECORDS = (
    record(
        "ClientCapabilities",
        may("experimental"),
        may("extensions", V2026_07_28),
        may("roots", of="ClientCapabilities.roots"),
        may("sampling", of="ClientCapabilities.sampling"),
        may("elicitation", V2025_06_18, of="ClientCapabilities.elicitation"),
        may("tasks", *_ONLY, of="ClientCapabilities.tasks"),
    ),
    record("ClientCapabilities.roots", may("listChanged", until=LATEST_LEGACY)),
    record("ClientCapabilities.sampling", may("context", V2025_11_25), may("tools", V2025_11_25)),
    record("ClientCapabilities.elicitation", may("form", V2025_11_25), may("url", V2025_11_25)),
    record(
        "ClientCapabilities.tasks",
        may("list", *_ONLY),
        may("cancel", *_ONLY),
        may("requests", *_ONLY, of="ClientCapabilities.tasks.requests"),
    ),
    record(
        "ClientCapabilities.tasks.requests",
        may("sampling", *_ONLY, of="ClientCapabilities.tasks.requests.sampling"),
        may("elicitation", *_ONLY, of="ClientCapabilities.tasks.requests.elicitation"),
    ),
    record("ClientCapabilities.tasks.requests.sampling", may("createMessage", *_ONLY)),
    record("ClientCapabilities.tasks.requests.elicitation", may("create", *_ONLY)),
    record(
        "ServerCapabilities",
        may("experimental"),
        may("extensions", V2026_07_28),
        may("logging"),
        may("completions", V2025_03_26),
        may("prompts", of="ServerCapabilities.prompts"),
        may("resources", of="ServerCapabilities.resources"),
        may("tools", of="ServerCapabilities.tools"),
        may("tasks", *_ONLY, of="ServerCapabilities.tasks"),
    ),
    record("ServerCapabilities.prompts", may("listChanged")),
    record("ServerCapabilities.resources", may("subscribe"), may("listChanged")),
    record("ServerCapabilities.tools", may("listChanged")),
    record(
        "ServerCapabilities.tasks",
        may("list", *_ONLY),
        may("cancel", *_ONLY),
        may("requests", *_ONLY, of="ServerCapabilities.tasks.requests"),
    ),
    record("ServerCapabilities.tasks.requests", may("tools", *_ONLY, of="ServerCapabilities.tasks.requests.tools")),
    record("ServerCapabilities.tasks.requests.tools", may("call", *_ONLY)),
    record("Error", need("code"), need("message"), may("data")),
    record(
        "UnsupportedProtocolVersionError.data",
        need("supported", V2026_07_28),
        need("requested", V2026_07_28),
    ),
    record(
        "MissingRequiredClientCapabilityError.data",
        need("requiredCapabilities", V2026_07_28, of="ClientCapabilities"),
    ),
    record(
        "URLElicitationRequiredError.data",
        need("elicitations", *_ONLY, of="ElicitRequestURLParams", shape="list"),
    ),
)
