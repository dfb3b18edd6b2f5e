"""Every host revision × every upstream revision, over pipes: each of the 25 cells opens, lists, calls, reads, gets,
completes, fails.

Beside what is asserted in a cell, the scripted peers hold every frame of both sides against its revision's strict
schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mcpx.spec.revisions import REVISIONS
from tests.matrix import content
from tests.matrix.cell import check_arrived, use_everything

if TYPE_CHECKING:
    from tests.support.stage import Stage


@pytest.mark.parametrize("upstream", REVISIONS)
@pytest.mark.parametrize("host", REVISIONS)
async def test_cell(stage: Stage, host: str, upstream: str) -> None:
    """A host of one revision uses everything that an upstream of another offers."""
    one = stage.upstream("one", upstream, **content.script(upstream))
    async with stage.mcpx(one) as peer:
        await use_everything(peer, host, upstream)
    check_arrived(one, host, upstream)
