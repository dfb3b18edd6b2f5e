"""Texts of many megabytes."""

from __future__ import annotations

import json

import pytest
from rig.upstreams.filling import filling


@pytest.mark.parametrize("size", [0, 1, 37, 38, 39, 1024, 1024 * 1024])
def test_a_filling_takes_as_many_bytes_as_asked_for(size: int) -> None:
    assert len(json.dumps(filling(size))) == size + len('""')
