"""The URIs that hosts see for the resources of many servers, and the names and URIs inside what upstreams send.

A public URI is ``mcpx://<server part>/`` followed by the upstream's URI or template as it is, so that templates still
expand and stripping the prefix is the way back. ``ui://`` URIs are left alone: hosts tell an app's page by that
scheme, and tools name it in their ``_meta``, which is never rewritten.

Edits are shallow: members that are not named here stay the raw JSON that the upstream wrote, so key order, number
spelling and unknown fields survive, and a payload in which nothing changes comes back as the very same object. Values
that are not what the schema says are left as they are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Raw

from mcpx.names import DEFAULT_LIMIT, public_name, server_part
from mcpx.spec.lists import LISTINGS
from mcpx.wire.frames import to_raw
from mcpx.wire.raws import elements_of, members_of, string_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mcpx.spec.lists import ListKind

    Edit = Callable[[Raw, bytes], Raw]  # (value, prefix) -> value; the very same object where nothing changes

SCHEME = "mcpx://"
_APP_SCHEME = "ui://"

_SEPARATORS = frozenset("/?#")

# A member named "uri", however it is spelled: JSON may escape any letter.
_HOLDS_URI = re.compile(rb'"(?:u|\\u0075)(?:r|\\u0072)(?:i|\\u0069)"')


def public_uri(server_name: str, uri: str) -> str:
    """The URI, or URI template, under which hosts see one of a server's."""
    return uri if _is_left_alone(uri) else _prefix(server_name) + uri


def split_uri(public: str, servers: Iterable[str]) -> tuple[str, str] | None:
    """The server that a public URI belongs to, and the server's own URI; ``None`` for one that no server's prefix
    begins."""
    for server in servers:
        prefix = _prefix(server)
        if public.startswith(prefix):
            return server, public[len(prefix) :]
    return None


def ancestors(uri: str) -> Iterator[str]:
    """The URIs of what a resource may be inside of, the innermost first: ``a:/b`` and ``a:/b/`` of ``a:/b/c``, and so
    on.

    That is how far a subscription reaches: an update may be of a sub-resource of what was subscribed to (2026-07-28
    schema, ``ResourceUpdatedNotificationParams``).
    """
    for end in range(len(uri) - 1, 0, -1):
        if uri[end] in _SEPARATORS:
            yield uri[: end + 1]
            yield uri[:end]


def own_name(kind: ListKind, item: Raw) -> str | None:
    """The name, URI or template by which a server itself calls an item of one of its lists; ``None`` where it has no
    usable one."""
    return string_of((members_of(item) or {}).get(LISTINGS[kind].key)) or None


def public_item(kind: ListKind, item: Raw, server_name: str, limit: int = DEFAULT_LIMIT) -> tuple[str, str, Raw] | None:
    """An item of an upstream's list, as hosts see it: its public name or URI, its own, and the item with the public
    one in it.

    ``None`` where the item has no usable name or URI.
    """
    key, members = LISTINGS[kind].key, members_of(item) or {}
    own = string_of(members.get(key))
    if not own:
        return None
    public = public_name(server_name, own, limit) if key == "name" else public_uri(server_name, own)
    if public == own:
        return public, own, item
    return public, own, to_raw({**members, key: to_raw(public)})


def rewrite_result_uris(method: str, payload: Raw, server_name: str) -> Raw:
    """Put a server's prefix before the URIs in a result of ``method``: resource links, embedded resources, contents.

    ``_meta``, ``structuredContent`` and texts are not touched.
    """
    edit = _RESULTS.get(method)
    if edit is None or not _HOLDS_URI.search(memoryview(payload)):
        return payload
    return edit(payload, _prefix(server_name).encode())


def _prefix(server_name: str) -> str:
    return f"{SCHEME}{server_part(server_name)}/"


def _is_left_alone(uri: str) -> bool:
    return uri[: len(_APP_SCHEME)].lower() == _APP_SCHEME


def _edit_uri(value: Raw, prefix: bytes) -> Raw:
    uri = string_of(value)
    if not uri or _is_left_alone(uri):
        return value
    return Raw(b'"' + prefix + bytes(value)[1:])  # the prefix needs no escapes; the rest keeps its own


def _in_member(key: str, edit: Edit) -> Edit:
    """Edit one member of an object."""

    def edit_member(value: Raw, prefix: bytes) -> Raw:
        members = members_of(value)
        if members is None or key not in members:
            return value
        after = edit(members[key], prefix)
        return value if after is members[key] else to_raw({**members, key: after})

    return edit_member


def _in_each(edit: Edit) -> Edit:
    """Edit the elements of an array."""

    def edit_each(value: Raw, prefix: bytes) -> Raw:
        elements = elements_of(value)
        if elements is None:
            return value
        edited = [edit(element, prefix) for element in elements]
        return value if all(a is b for a, b in zip(edited, elements, strict=True)) else to_raw(edited)

    return edit_each


def _edit_block(value: Raw, prefix: bytes) -> Raw:
    """Edit a content block, by its type."""
    edit = _BLOCKS.get(string_of((members_of(value) or {}).get("type")) or "")
    return value if edit is None else edit(value, prefix)


_in_uri = _in_member("uri", _edit_uri)
_BLOCKS: dict[str, Edit] = {
    "resource_link": _in_uri,
    "resource": _in_member("resource", _in_uri),
}
_RESULTS: dict[str, Edit] = {
    "tools/call": _in_member("content", _in_each(_edit_block)),
    "prompts/get": _in_member("messages", _in_each(_in_member("content", _edit_block))),
    "resources/read": _in_member("contents", _in_each(_in_uri)),
}
