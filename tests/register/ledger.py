"""The rows of the register that are settled here: what each asks of mcpx, and the page of the protocol it comes from.

A row has tests named after it (``test_lv_05_...`` for LV-05); ``test_ledger.py`` holds the two lists together.
``later`` says which part of a row is not tested here, and why.
"""

from __future__ import annotations

from typing import NamedTuple

_SITE = "https://modelcontextprotocol.io/specification/"
_HANDSHAKE = _SITE + "2025-11-25/basic/lifecycle"
_BASICS = _SITE + "2026-07-28/basic/index"
_VERSIONS = _SITE + "2026-07-28/basic/versioning"
_DISCOVER = _SITE + "2026-07-28/server/discover"
_STDIO = _SITE + "2026-07-28/basic/transports/stdio"
_HTTP = _SITE + "2026-07-28/basic/transports/streamable-http"
_CHANGES = _SITE + "2026-07-28/basic/patterns/subscriptions"
_OVER_HTTP = "what the row says of HTTP is tested with the HTTP transports"


class Row(NamedTuple):
    """One row: what it asks for in a sentence, its page, and what of it is tested elsewhere."""

    says: str
    page: str
    later: str = ""


LEDGER: dict[str, Row] = {
    "LV-01": Row("The handshake is spoken in both directions, and so is the era without one.", _HANDSHAKE),
    "LV-02": Row("initialize carries three params; what is missing or malformed is read liberally.", _HANDSHAKE),
    "LV-03": Row("2024-11-05 is served, to hosts and from upstreams.", _HANDSHAKE, _OVER_HTTP),
    "LV-04": Row("A legacy revision that mcpx speaks is echoed.", _HANDSHAKE),
    "LV-05": Row("An older or undated version is answered with the latest legacy revision.", _HANDSHAKE, _OVER_HTTP),
    "LV-06": Row("A newer version is answered with the latest legacy revision.", _HANDSHAKE),
    "LV-07": Row("initialize that asks for a modern revision selects the latest legacy one.", _VERSIONS),
    "LV-08": Row("An upstream that answers with a revision mcpx does not speak is disconnected.", _HANDSHAKE),
    "LV-09": Row("The latest legacy revision is offered, or the pinned one.", _HANDSHAKE),
    "LV-10": Row("A request before any handshake is served as the oldest revision.", _HANDSHAKE, _OVER_HTTP),
    "LV-11": Row("Nothing goes to a peer that its revision does not define or it did not declare.", _HANDSHAKE),
    "LV-12": Row(
        "Batches are taken from peers on the one revision that has them; none is sent.", _HANDSHAKE, _OVER_HTTP
    ),
    "LV-13": Row("notifications/initialized is taken silently in any era.", _BASICS, _OVER_HTTP),
    "LV-14": Row("Instructions go out in both handshakes.", _DISCOVER),
    "LV-15": Row("Implementation.title from 2025-06-18.", _HANDSHAKE),
    "LV-16": Row("Implementation.description from 2025-11-25.", _HANDSHAKE),
    "LV-17": Row("Implementation.icons from 2025-11-25, with safe schemes only.", _BASICS),
    "LV-18": Row("Implementation.websiteUrl from 2025-11-25.", _HANDSHAKE),
    "LV-19": Row("The version of each modern request is honoured by itself.", _VERSIONS),
    "LV-20": Row("The capabilities of each modern request are honoured by themselves.", _BASICS),
    "LV-21": Row("clientInfo upstream is mcpx's own, or the host's in pass-through.", _BASICS),
    "LV-22": Row("serverInfo is in the metadata of every modern result.", _BASICS),
    "LV-23": Row("serverInfo is never at top level of a modern result, and read from the metadata.", _DISCOVER),
    "LV-24": Row("A modern request with incomplete metadata is refused.", _BASICS, _OVER_HTTP),
    "LV-25": Row("server/discover always answers.", _DISCOVER),
    "LV-26": Row("supportedVersions is the list that an unsupported version is answered with.", _DISCOVER),
    "LV-27": Row("An upstream is probed with server/discover, and loses no start by being slow.", _STDIO),
    "LV-28": Row("Modern errors are told by their code, and the list in them decides.", _STDIO),
    "LV-29": Row("A refused initialize falls forward to server/discover.", _VERSIONS),
    "LV-30": Row("The era of an HTTP upstream is read from its first answer.", _HTTP),
    "LV-31": Row("The era of a server is remembered, and forgotten when it proves wrong.", _VERSIONS),
    "LV-32": Row("The era can be set per server; anything else is refused at load.", _VERSIONS),
    "LV-33": Row("The era is chosen per request.", _VERSIONS, _OVER_HTTP),
    "LV-34": Row("ping is answered to legacy peers only.", _HANDSHAKE),
    "LV-35": Row("Neither modern nor idle upstreams are pinged.", _HANDSHAKE),
    "LV-36": Row("resultType is on every modern result and on no legacy one.", _BASICS),
    "LV-37": Row("Ids are unique, echoed exactly, and refused while in flight.", _BASICS, _OVER_HTTP),
    "LV-38": Row("mcpx ends soon after its stdin does.", _STDIO, "listen streams are ended in the rows on them"),
    "LV-39": Row("An upstream is stopped step by step, with its whole group.", _STDIO),
    "LV-40": Row("An upstream that exits is started again.", _STDIO),
    "SUB-01": Row("A listen stream is served in every way that hosts come.", _CHANGES),
    "SUB-02": Row("Its filter has four fields; unknown ones are ignored and not acknowledged.", _CHANGES),
    "SUB-03": Row("The acknowledgement is the first frame of a stream.", _CHANGES),
    "SUB-04": Row("It carries what will be delivered, and nothing else.", _CHANGES),
    "SUB-05": Row("Every frame of a stream, and its result, bears the stream's id.", _CHANGES),
    "SUB-06": Row("Modern hosts hear on streams what they asked for; legacy ones unasked what was declared.", _CHANGES),
    "SUB-07": Row("Progress and log messages go to the request that caused them.", _CHANGES),
    "SUB-08": Row("Any number of streams at once, each with its own filter and id.", _CHANGES),
    "SUB-09": Row("A stream that its host has ended says nothing more.", _CHANGES),
    "SUB-10": Row("A graceful end is the tagged result, and on a shared way a cancellation behind it.", _CHANGES),
    "SUB-11": Row("Over HTTP the stream closes after the result.", _CHANGES),
    "SUB-12": Row("Over HTTP a stream opens at once and is kept alive.", _HTTP),
    "SUB-13": Row("A legacy host may listen as well.", _CHANGES),
    "SUB-14": Row("No state outlives a connection; mcpx listens again after every restart.", _CHANGES),
    "SUB-15": Row(
        "Upstreams are listened to for the union of what hosts want, and again whenever that ends.", _CHANGES
    ),
    "SUB-16": Row("The catalogue follows changes; a storm of them becomes few.", _CHANGES),
    "SUB-17": Row("Only initialized, cancelled and what a legacy revision defines go upstream.", _CHANGES),
    "SUB-18": Row("A notification never gets a response.", _BASICS, _OVER_HTTP),
}
