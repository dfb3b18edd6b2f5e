"""Correlation of request ids, in both directions, by tables and against an oracle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import Raw

from mcpx.errors import LocalProtocolError, RemoteProtocolError
from mcpx.wire.frames import INTERNAL_ERROR, INVALID_REQUEST, encode, id_key
from mcpx.wire.peer import Incoming, Outgoing
from tests.unit.wire.cuts import STEADY


class TestOutgoing:
    def test_ids_count_from_one_and_are_never_used_again(self) -> None:
        ours = Outgoing[str]()
        assert [ours.issue("a"), ours.issue("b")] == [1, 2]
        assert ours.settle(Raw(b"1")) == "a"
        assert ours.abandon(2)
        assert ours.issue("c") == 3
        assert ours.drain() == ["c"]
        assert ours.issue("d") == 4

    @pytest.mark.parametrize("spelling", [b"7", b'"7"', b"7.0", b"7e0", b"70e-1", b'"\\u0037"'])
    def test_spellings_that_mean_our_id(self, spelling: bytes) -> None:
        ours = Outgoing[int]()
        for number in range(1, 10):
            ours.issue(number)
        assert ours.find(Raw(spelling)) == 7
        assert ours.settle(Raw(spelling)) == 7
        assert ours.settle(Raw(spelling)) is None
        assert len(ours) == 8

    @pytest.mark.parametrize(
        "spelling",
        [
            b"0", b"-7", b"10", b"7.5", b"null", b"true", b'""', b'" 7"', b'"+7"', b'"07"', b'"7.0"', b'"0_7"',
            b'"-7"', b'"\xd9\xa7"', b'"seven"', b"[7]", b'{"id":7}', b'"' + b"7" * 5000 + b'"', b"7" * 5000, b"",
        ],
    )  # fmt: skip
    def test_spellings_that_mean_none_of_ours(self, spelling: bytes) -> None:
        ours = Outgoing[int]()
        for number in range(1, 10):
            ours.issue(number)
        assert ours.find(Raw(spelling)) is None
        assert ours.settle(Raw(spelling)) is None
        assert len(ours) == 9

    def test_an_abandoned_request_is_abandoned_once_and_its_late_answer_dropped(self) -> None:
        ours = Outgoing[str]()
        number = ours.issue("a")
        assert ours.abandon(number)
        assert not ours.abandon(number)
        assert ours.find(Raw(b"1")) is None
        assert ours.settle(Raw(b"1")) is None

    def test_an_answered_request_cannot_be_abandoned(self) -> None:
        ours = Outgoing[str]()
        number = ours.issue("a")
        assert ours.settle(Raw(b"1")) == "a"
        assert not ours.abandon(number)

    def test_draining_gives_what_is_awaited_in_the_order_of_issue(self) -> None:
        ours = Outgoing[str]()
        for slot in "abcd":
            ours.issue(slot)
        ours.settle(Raw(b"2"))
        assert ours.drain() == ["a", "c", "d"]
        assert (len(ours), ours.drain(), ours.settle(Raw(b"1"))) == (0, [], None)


def key(id: Raw) -> Any:
    return id_key(id)


class TestIncoming:
    @pytest.mark.parametrize(
        "ids",
        [
            (b"1", b'"1"'),
            (b"0", b'"0"', b"-1", b'""', b'"-1"'),
            (b"9007199254740993", b"9007199254740992", b'"9007199254740993"'),
            (b'"\xc3\xa9"', b'"e\xcc\x81"', b'"E"', b'"e"'),
            (b'"1"', b'"1.0"', b'" 1"', b'"01"'),
        ],
    )
    def test_ids_that_differ_in_type_or_value_are_in_flight_together(self, ids: tuple[bytes, ...]) -> None:
        theirs = Incoming[bytes](10)
        for id in ids:
            theirs.begin(Raw(id), id)
        assert len(theirs) == len(ids)
        assert [theirs.find(Raw(id)) for id in ids] == [*ids]
        assert [theirs.end(key(Raw(id))) for id in ids] == [True] * len(ids)
        assert len(theirs) == 0

    @pytest.mark.parametrize(
        "id", [b"null", b"1.5", b"true", b"[]", b"{}", b"1e400", b'"\\ud800"', b"9007199254740993.0"]
    )
    def test_an_invalid_id_is_refused_and_not_echoed(self, id: bytes) -> None:
        theirs = Incoming[str](10)
        with pytest.raises(RemoteProtocolError) as caught:
            theirs.begin(Raw(id), "a")
        assert (caught.value.code, caught.value.id) == (INVALID_REQUEST, None)
        assert (len(theirs), theirs.find(Raw(id)), theirs.cancel(Raw(id))) == (0, None, None)

    @pytest.mark.parametrize(
        ("first", "second"), [(b"1", b"1"), (b"1", b"1.0"), (b'"a"', b'"\\u0061"'), (b"100", b"1e2")]
    )
    def test_an_id_in_flight_is_refused_and_the_first_request_goes_on(self, first: bytes, second: bytes) -> None:
        theirs = Incoming[str](10)
        theirs.begin(Raw(first), "first")
        with pytest.raises(RemoteProtocolError, match="in flight") as caught:
            theirs.begin(Raw(second), "second")
        assert caught.value.code == INVALID_REQUEST
        assert caught.value.id is not None
        assert bytes(caught.value.id) == second
        assert theirs.find(Raw(second)) == "first"
        assert theirs.end(key(Raw(first)))
        theirs.begin(Raw(second), "third")  # done with, so that the id is free again

    def test_over_the_limit_there_is_an_error_at_once_and_cancellations_still_get_through(self) -> None:
        theirs = Incoming[str](2)
        theirs.begin(Raw(b"1"), "a")
        theirs.begin(Raw(b"2"), "b")
        with pytest.raises(RemoteProtocolError, match="limit is 2") as caught:
            theirs.begin(Raw(b'"x"'), "c")
        assert caught.value.code == INTERNAL_ERROR
        assert caught.value.id is not None
        assert bytes(caught.value.id) == b'"x"'
        assert not theirs.makes_room
        assert theirs.cancel(Raw(b"1")) == "a"
        with pytest.raises(RemoteProtocolError, match="limit is 2"):
            theirs.begin(Raw(b"3"), "c")  # a cancelled request takes its place until its work has ended
        assert theirs.makes_room
        theirs.end(key(Raw(b"1")))
        assert not theirs.makes_room
        theirs.begin(Raw(b"3"), "c")
        assert len(theirs) == 2

    def test_a_cancelled_request_may_not_be_answered(self) -> None:
        theirs = Incoming[str](10)
        theirs.begin(Raw(b"1"), "a")
        theirs.begin(Raw(b'"1"'), "b")
        assert theirs.cancel(Raw(b"1")) == "a"
        assert theirs.cancel(Raw(b"1")) is None
        assert not theirs.end(key(Raw(b"1")))
        assert theirs.end(key(Raw(b'"1"')))
        theirs.begin(Raw(b"1"), "c")
        assert theirs.end(key(Raw(b"1")))  # the cancellation was the earlier request's

    def test_cancelling_what_is_unknown_or_done_with_does_nothing(self) -> None:
        theirs = Incoming[str](10)
        theirs.begin(Raw(b"1"), "a")
        assert theirs.cancel(Raw(b"2")) is None
        assert theirs.end(key(Raw(b"1")))
        assert theirs.cancel(Raw(b"1")) is None

    @pytest.mark.parametrize("id", [b"2", b'"1"'])
    def test_ending_what_never_began_is_our_own_fault(self, id: bytes) -> None:
        theirs = Incoming[str](10)
        theirs.begin(Raw(b"1"), "a")
        with pytest.raises(LocalProtocolError):
            theirs.end(key(Raw(id)))


class OutgoingMachine(RuleBasedStateMachine):
    """Any order of issuing, answering (in any spelling), giving up and ending, against a plain dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.ours = Outgoing[str]()
        self.awaited: dict[int, str] = {}
        self.issued = 0

    numbers = st.integers(1, 12) | st.integers()

    @rule()
    def issue(self) -> None:
        number = self.ours.issue(f"slot {self.issued}")
        assert number == self.issued + 1
        self.awaited[number] = f"slot {self.issued}"
        self.issued = number

    @rule(number=numbers, spelling=st.sampled_from(["{}", '"{}"', "{}.0", "{}e0"]))
    def settle(self, number: int, spelling: str) -> None:
        id = Raw(spelling.format(number).encode())
        expected = self.awaited.pop(number, None)
        assert self.ours.find(id) == expected
        assert self.ours.settle(id) == expected
        assert self.ours.find(id) is None

    @rule(id=st.sampled_from([b"null", b"1.5", b'"1.0"', b'"01"', b'"x"', b"[1]"]))
    def settle_nonsense(self, id: bytes) -> None:
        assert self.ours.settle(Raw(id)) is None

    @rule(number=numbers)
    def abandon(self, number: int) -> None:
        assert self.ours.abandon(number) is (self.awaited.pop(number, None) is not None)

    @rule()
    def drain(self) -> None:
        assert self.ours.drain() == list(self.awaited.values())
        self.awaited.clear()

    @invariant()
    def only_what_is_awaited_is_kept(self) -> None:
        assert len(self.ours) == len(self.awaited)


class IncomingMachine(RuleBasedStateMachine):
    """Any order of requests, cancellations and ends, under ids of either type, against plain dictionaries."""

    LIMIT = 4

    def __init__(self) -> None:
        super().__init__()
        self.theirs = Incoming[str](self.LIMIT)
        self.in_flight: dict[tuple[type, Any], str] = {}
        self.cancelled: set[tuple[type, Any]] = set()
        self.begun = 0

    ids = st.integers(-1, 3) | st.sampled_from(["", "0", "1", "-1", "é"])

    @rule(id=ids)
    def begin(self, id: Any) -> None:
        key, written, slot = (type(id), id), Raw(encode(id)), f"slot {self.begun}"
        if key in self.in_flight:
            with pytest.raises(RemoteProtocolError, match="in flight"):
                self.theirs.begin(written, slot)
        elif len(self.in_flight) == self.LIMIT:
            with pytest.raises(RemoteProtocolError, match="Too many"):
                self.theirs.begin(written, slot)
        else:
            self.theirs.begin(written, slot)
            self.in_flight[key] = slot
            self.begun += 1

    @rule(id=st.sampled_from([b"null", b"0.5", b"false", b"{}"]))
    def begin_without_an_id(self, id: bytes) -> None:
        with pytest.raises(RemoteProtocolError, match="must be a string or an integer"):
            self.theirs.begin(Raw(id), "slot")

    @rule(id=ids)
    def cancel(self, id: Any) -> None:
        key = (type(id), id)
        expected = None if key in self.cancelled else self.in_flight.get(key)
        assert self.theirs.cancel(Raw(encode(id))) == expected
        if key in self.in_flight:
            self.cancelled.add(key)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.in_flight, key=repr)))
        del self.in_flight[key]
        assert self.theirs.end(key[1]) is (key not in self.cancelled)
        self.cancelled.discard(key)

    @rule(id=ids)
    def find(self, id: Any) -> None:
        assert self.theirs.find(Raw(encode(id))) == self.in_flight.get((type(id), id))

    @invariant()
    def only_what_is_in_flight_is_kept(self) -> None:
        assert len(self.theirs) == len(self.in_flight)
        assert len(self.theirs._cancelled) == len(self.cancelled)


OutgoingMachine.TestCase.settings = STEADY
IncomingMachine.TestCase.settings = STEADY
TestOutgoingAgainstAnOracle = OutgoingMachine.TestCase
TestIncomingAgainstAnOracle = IncomingMachine.TestCase
