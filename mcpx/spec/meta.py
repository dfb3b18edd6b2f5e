"""The ``_meta`` keys that the specification reserves (2026-07-28 basic/index, General fields)."""

from __future__ import annotations

PREFIX = "io.modelcontextprotocol/"
PROTOCOL_VERSION = PREFIX + "protocolVersion"
CLIENT_CAPABILITIES = PREFIX + "clientCapabilities"
CLIENT_INFO = PREFIX + "clientInfo"
LOG_LEVEL = PREFIX + "logLevel"
SERVER_INFO = PREFIX + "serverInfo"
SUBSCRIPTION_ID = PREFIX + "subscriptionId"
PROGRESS_TOKEN = "progressToken"

REQUEST_KEYS = frozenset(
    {PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL}
)  # one of them makes a request modern
# Owned by mcpx on each hop: taken off what comes in and written anew on what goes out.
PER_HOP_KEYS = REQUEST_KEYS | {SERVER_INFO, SUBSCRIPTION_ID, PROGRESS_TOKEN}

# Reserved for requests and for the notifications of a listen stream; in a result they are a mistake.
NOT_IN_RESULTS = REQUEST_KEYS | {SUBSCRIPTION_ID}

# What bytes must hold for a request to be looked at as modern at all. Without the slash: JSON may escape it.
MARK = b"io.modelcontextprotocol"
