"""How the frames of a WebSocket are handed on: all of them, in portions, and not in any number for one message."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpx.transports.websocket_frames import MAX_PIECES, PORTION, FrameFlood, Frames

HEAD = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
TEXT, CONTINUATION, PING, PONG = 1, 0, 9, 10


def frame(payload: bytes = b"", opcode: int = CONTINUATION, *, final: bool = False, masked: bool = False) -> bytes:
    size = len(payload)
    short, length = size, b""
    if size >= 126:
        short, length = (126, struct.pack(">H", size)) if size < 1 << 16 else (127, struct.pack(">Q", size))
    return bytes([opcode | final << 7, short | masked << 7]) + length + (b"mask" if masked else b"") + payload


def opened() -> Frames:
    frames = Frames()
    assert frames.take_head(HEAD) == HEAD
    return frames


def portions(frames: Frames, data: bytes) -> list[bytes]:
    """What is handed on of this."""
    frames.put(data)
    found: list[bytes] = []
    while frames.waiting:
        found.append(frames.take())
    return found


@pytest.mark.parametrize("cut", range(1, len(HEAD) + 1))
def test_the_head_ends_wherever_it_is_cut(cut: int) -> None:
    frames, behind = Frames(), frame(b"hello", TEXT, final=True)
    first, second = HEAD[:cut], HEAD[cut:] + behind
    said = frames.take_head(first)
    if frames.in_head:
        said += frames.take_head(second)
        assert frames.take() == behind
    assert said == HEAD
    assert not frames.in_head


@given(
    st.lists(st.tuples(st.integers(0, 300), st.sampled_from([CONTINUATION, TEXT, PING]), st.booleans(), st.booleans())),
    st.lists(st.integers(1, 500), min_size=1),
)
def test_nothing_is_lost_however_it_comes(shapes: list[tuple[int, int, bool, bool]], cuts: list[int]) -> None:
    data = b"".join(frame(b"x" * size, opcode, final=final, masked=masked) for size, opcode, final, masked in shapes)
    frames, said, at = opened(), b"", 0
    while at < len(data):
        size = cuts[at % len(cuts)]
        said += b"".join(portions(frames, data[at : at + size]))
        at += size
    assert said == data


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("opcode", "final"), [(CONTINUATION, False), (PONG, True), (PING, True), (TEXT, True)])
def test_many_small_frames_are_handed_on_in_portions(opcode: int, final: bool, masked: bool) -> None:
    one = frame(b"", opcode, final=final, masked=masked)
    found = portions(opened(), one * 1000)
    assert {len(portion) for portion in found[:-1]} == {PORTION * len(one)}
    assert len(found) == -(-1000 // PORTION)


@pytest.mark.parametrize("size", [0, 125, 126, 1 << 16])
@pytest.mark.parametrize("masked", [False, True])
def test_a_large_frame_is_handed_on_as_it_came(size: int, masked: bool) -> None:
    data = frame(b"x" * size, TEXT, final=True, masked=masked)
    assert portions(opened(), data) == [data]


def test_a_message_has_an_end_even_where_its_pieces_say_nothing() -> None:
    frames = opened()
    portions(frames, frame(b"{", TEXT) + frame() * (MAX_PIECES - 2) + frame(final=True))
    portions(frames, frame(b"{", TEXT) + (frame() + frame(b"", PING, final=True)) * (MAX_PIECES - 2))
    with pytest.raises(FrameFlood, match="in more than 100000 pieces"):
        portions(frames, frame())
