"""The table of lists says nothing that the tables of methods and fields do not."""

from __future__ import annotations

import pytest

from mcpx.spec.lists import LIST_CHANGED, LISTINGS, Listing
from mcpx.spec.methods import METHODS
from mcpx.spec.tables import RECORDS


@pytest.mark.parametrize("listing", LISTINGS.values(), ids=LISTINGS)
def test_a_list_is_what_its_method_answers_with(listing: Listing) -> None:
    result = METHODS[listing.method].result
    assert result is not None
    member = RECORDS[result].fields[listing.member]
    assert (member.of, member.shape) == (listing.type, "list")
    assert RECORDS[listing.type].fields[listing.key].needed


@pytest.mark.parametrize("listing", LISTINGS.values(), ids=LISTINGS)
def test_the_capability_of_a_list_promises_its_changes(listing: Listing) -> None:
    capability = RECORDS["ServerCapabilities"].fields[listing.capability].of
    assert capability is not None
    assert "listChanged" in RECORDS[capability].fields
    assert METHODS[LIST_CHANGED[listing.capability]].kind == "notification"


def test_every_list_of_a_server_is_in_the_table() -> None:
    methods = {name for name, row in METHODS.items() if name.endswith("/list") and row.upstream is None}
    assert methods == {listing.method for listing in LISTINGS.values()}
    assert LIST_CHANGED.keys() == {listing.capability for listing in LISTINGS.values()}
