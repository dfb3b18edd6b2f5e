"""``${VAR}`` and ``${VAR:-default}``."""

from __future__ import annotations

import pytest

from mcpx.config.expand import ExpansionError, expand

ENVIRON = {"A": "one", "_b2": "two", "EMPTY": "", "TRICKY": "${A} $${A} }"}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("", ""),
        ("plain", "plain"),
        ("${A}", "one"),
        ("x${A}y${_b2}z", "xoneytwoz"),
        ("${A}${A}", "oneone"),
        ("${EMPTY}", ""),
        ("${A:-other}", "one"),
        ("${NO:-other}", "other"),
        ("${EMPTY:-other}", "other"),
        ("${NO:-}", ""),
        ("${NO:-a:-b}", "a:-b"),
        ("${NO:-${A}}", "one"),
        ("${NO:-x${NO:-${A}}y}z", "xoneyz"),
        ("${A:-${NO}}", "one"),  # a default that is not needed is not expanded
        ("${NO:-two\nlines}", "two\nlines"),
        ("${TRICKY}", "${A} $${A} }"),  # what a variable holds is not looked at again
        ("$A $$ $ } {A}", "$A $$ $ } {A}"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("cost: $${A} and ${A}", "cost: ${A} and one"),
    ],
)
def test_expand(text: str, expanded: str) -> None:
    assert expand(text, ENVIRON) == expanded


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${NO}", "the environment variable NO is not set, and no default is given (${NO:-...})"),
        ("${NO:-${NOR}}", "the environment variable NOR is not set, and no default is given (${NOR:-...})"),
        ("${A", '"${A" has no closing brace'),
        ("a ${A-b", '"${A-b" has no closing brace'),
        ("${NO:-secret", '"${NO:-..." has no closing brace'),
        ("${}", '"${}" is neither ${VAR} nor ${VAR:-default}; write $${ where ${ itself is meant'),
        ("${1A}", '"${1A}" is neither ${VAR} nor ${VAR:-default}; write $${ where ${ itself is meant'),
        ("${env:A}", '"${env:A}" is neither ${VAR} nor ${VAR:-default}; write $${ where ${ itself is meant'),
        ("${A-secret}", '"${A-secret}" is neither ${VAR} nor ${VAR:-default}; write $${ where ${ itself is meant'),
        ("${ A }", '"${ A }" is neither ${VAR} nor ${VAR:-default}; write $${ where ${ itself is meant'),
    ],
)
def test_what_cannot_be_expanded(text: str, message: str) -> None:
    with pytest.raises(ExpansionError) as caught:
        expand(text, ENVIRON)
    assert str(caught.value) == message
