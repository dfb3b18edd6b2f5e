"""The era probe, rows LV-27 to LV-32: what is sent, when, and what is made of the answers. In virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcpx.errors import UpstreamStartError
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY, V2025_03_26, V2025_06_18
from mcpx.transports import memory_channel_pair
from mcpx.upstream.call import Asker
from mcpx.upstream.connection import open_connection
from mcpx.upstream.eras import Remembered
from mcpx.upstream.probe import Agreement, DiedOnProbe, Opener, plan
from tests.support.running import run_in_virtual_time
from tests.unit.upstream.fakes import CLIENT_INFO, FakeServer, discovered, initialized

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

DELAY = 1.0


class Outcome:
    """What an opening came to."""

    def __init__(self) -> None:
        self.agreement: Agreement | None = None
        self.failure: Exception | None = None
        self.late: list[Remembered] = []
        self.methods: list[str] = []
        self.seen: list[dict[str, Any]] = []

    @property
    def agreed(self) -> tuple[str, str | None]:
        """The revision, and the era that is remembered."""
        assert self.agreement is not None, self.failure
        return self.agreement.form.revision, self.agreement.remember.era


def open_with(
    script: Callable[[FakeServer], Awaitable[None]],
    *,
    preference: str = "auto",
    remembered: Remembered | None = None,
    opening: str | None = None,
) -> Outcome:
    """Open a session against a scripted server and say what came of it."""
    outcome = Outcome()

    async def test() -> None:
        ours, theirs = memory_channel_pair()
        server = FakeServer(theirs)

        async def play() -> None:
            with theirs:
                await script(server)

        async def ended() -> str:
            return "The server exited with status 1."

        async with trio.open_nursery() as nursery:
            nursery.start_soon(play)
            async with open_connection("fake", ours, ended) as connection:
                the_plan = plan(preference, remembered or Remembered(), DELAY)
                opener = Opener(
                    connection,
                    the_plan if opening is None else the_plan.beginning_with("initialize"),
                    asker=Asker("host"),
                    tell=lambda asker: {},
                    client_info=CLIENT_INFO,
                    passthrough=False,
                    late=outcome.late.append,
                )
                try:
                    outcome.agreement = await opener.open()
                except (UpstreamStartError, DiedOnProbe) as error:
                    outcome.failure = error
                await trio.sleep(60)  # whatever else would be sent, or comes late
            ours.close()
        outcome.methods = server.methods
        outcome.seen = server.seen

    run_in_virtual_time(test)
    return outcome


def test_a_discover_result_is_modern_and_nothing_else_is_sent() -> None:
    async def script(server: FakeServer) -> None:
        server.answer(await server.expect("server/discover"), discovered(instructions="Hi."))
        await server.rest()

    outcome = open_with(script)

    assert outcome.agreed == (LATEST_MODERN, "modern")
    assert outcome.methods == ["server/discover"]
    assert outcome.agreement is not None
    assert outcome.agreement.identity.instructions == "Hi."


@pytest.mark.parametrize("code", [-32601, -32602, -32600, -32000, 0])
def test_any_other_error_is_legacy_whatever_its_code(code: int) -> None:
    async def script(server: FakeServer) -> None:
        server.refuse(await server.expect("server/discover"), code)
        request = await server.expect("initialize")
        assert request["params"]["protocolVersion"] == LATEST_LEGACY
        server.answer(request, initialized())
        await server.rest()

    outcome = open_with(script)

    assert outcome.agreed == (LATEST_LEGACY, "legacy")
    assert outcome.methods == ["server/discover", "initialize", "notifications/initialized"]


def test_an_error_text_that_quotes_a_modern_code_is_still_legacy() -> None:
    async def script(server: FakeServer) -> None:
        server.refuse(await server.expect("server/discover"), -32601, "not -32022 but unknown")
        server.answer(await server.expect("initialize"), initialized())
        await server.rest()

    assert open_with(script).agreed == (LATEST_LEGACY, "legacy")


def test_a_result_that_names_no_versions_is_legacy() -> None:
    async def script(server: FakeServer) -> None:
        server.answer(await server.expect("server/discover"), {})
        server.answer(await server.expect("initialize"), initialized())
        await server.rest()

    assert open_with(script).agreed == (LATEST_LEGACY, "legacy")


def test_silence_is_followed_by_initialize_after_the_probe_delay_and_not_remembered() -> None:
    async def script(server: FakeServer) -> None:
        await server.expect("server/discover")
        start = trio.current_time()
        request = await server.expect("initialize")
        assert trio.current_time() - start == DELAY
        server.answer(request, initialized())
        await server.rest()

    outcome = open_with(script)

    assert outcome.agreed == (LATEST_LEGACY, None)
    assert "notifications/cancelled" not in outcome.methods


def test_a_slow_server_that_answers_both_is_legacy_now_and_remembered_as_modern() -> None:
    async def script(server: FakeServer) -> None:
        probe = await server.expect("server/discover")
        request = await server.expect("initialize")
        server.answer(probe, discovered())
        await trio.sleep(5)
        assert server.methods == ["server/discover", "initialize"]  # nothing is sent before the answer that decides
        server.answer(request, initialized())
        await server.rest()

    assert open_with(script).agreed == (LATEST_LEGACY, "modern")


def test_a_slow_server_that_refuses_initialize_is_modern() -> None:
    async def script(server: FakeServer) -> None:
        probe = await server.expect("server/discover")
        request = await server.expect("initialize")
        server.answer(probe, discovered())
        server.refuse(request, -32022, supported=[LATEST_MODERN], requested=LATEST_LEGACY)
        await server.rest()

    outcome = open_with(script)

    assert outcome.agreed == (LATEST_MODERN, "modern")
    assert outcome.methods == ["server/discover", "initialize"]


def test_a_refused_initialize_waits_for_the_probe_that_is_still_unanswered() -> None:
    async def script(server: FakeServer) -> None:
        probe = await server.expect("server/discover")
        server.refuse(await server.expect("initialize"), -32601)
        await trio.sleep(20)
        server.answer(probe, discovered())
        await server.rest()

    assert open_with(script).agreed == (LATEST_MODERN, "modern")


def test_a_probe_answered_late_is_remembered_for_the_next_start() -> None:
    async def script(server: FakeServer) -> None:
        probe = await server.expect("server/discover")
        server.answer(await server.expect("initialize"), initialized())
        await trio.sleep(5)
        server.answer(probe, discovered())
        await server.rest()

    outcome = open_with(script)

    assert outcome.agreed == (LATEST_LEGACY, None)
    assert [one.era for one in outcome.late] == ["modern"]


def test_a_slow_server_that_refuses_both_is_an_error_that_says_so() -> None:
    async def script(server: FakeServer) -> None:
        probe = await server.expect("server/discover")
        request = await server.expect("initialize")
        server.refuse(probe, -32601, "unknown")
        server.refuse(request, -32603, "not today")
        await server.rest()

    failure = open_with(script).failure

    assert isinstance(failure, UpstreamStartError)
    assert "'unknown'" in failure.reason
    assert "'not today'" in failure.reason


def test_a_version_error_that_lists_a_modern_version_is_asked_again_with_it() -> None:
    async def script(server: FakeServer) -> None:
        server.refuse(await server.expect("server/discover"), -32022, supported=[LATEST_MODERN], requested="x")
        server.answer(await server.expect("server/discover"), discovered())
        await server.rest()

    outcome = open_with(script)

    assert outcome.agreed == (LATEST_MODERN, "modern")
    assert outcome.methods == ["server/discover", "server/discover"]


def test_a_version_error_that_lists_only_legacy_versions_opens_the_newest_common_one() -> None:
    async def script(server: FakeServer) -> None:
        server.refuse(
            await server.expect("server/discover"), -32022, supported=[V2025_03_26, V2025_06_18], requested="x"
        )
        request = await server.expect("initialize")
        assert request["params"]["protocolVersion"] == V2025_06_18
        server.answer(request, initialized(V2025_06_18))
        await server.rest()

    assert open_with(script).agreed == (V2025_06_18, "legacy")


def test_a_discover_result_decides_by_its_list_as_well() -> None:
    async def script(server: FakeServer) -> None:
        server.answer(await server.expect("server/discover"), discovered("2031-01-01", V2025_03_26))
        request = await server.expect("initialize")
        assert request["params"]["protocolVersion"] == V2025_03_26
        server.answer(request, initialized(V2025_03_26))
        await server.rest()

    assert open_with(script).agreed == (V2025_03_26, "legacy")


def test_no_version_in_common_is_an_error_that_names_both_lists() -> None:
    async def script(server: FakeServer) -> None:
        server.answer(await server.expect("server/discover"), discovered("2031-01-01"))
        await server.rest()

    failure = open_with(script).failure

    assert isinstance(failure, UpstreamStartError)
    assert "2031-01-01" in failure.reason
    assert all(version in failure.reason for version in (LATEST_MODERN, *LEGACY))


@pytest.mark.parametrize("code", [-32020, -32021])
def test_the_other_modern_codes_never_fall_back_to_initialize(code: int) -> None:
    async def script(server: FakeServer) -> None:
        server.refuse(await server.expect("server/discover"), code)
        await server.rest()

    outcome = open_with(script)

    assert isinstance(outcome.failure, UpstreamStartError)
    assert outcome.methods == ["server/discover"]


def test_a_server_that_dies_on_the_probe_is_to_be_started_again() -> None:
    async def script(server: FakeServer) -> None:
        await server.expect("server/discover")

    assert isinstance(open_with(script).failure, DiedOnProbe)


def test_started_again_it_is_opened_with_initialize_and_remembered_as_legacy() -> None:
    async def script(server: FakeServer) -> None:
        server.answer(await server.expect("initialize"), initialized())
        await server.rest()

    assert open_with(script, opening="initialize").agreed == (LATEST_LEGACY, "legacy")


def test_legacy_first_falls_forward_when_initialize_is_refused_with_any_error() -> None:
    async def script(server: FakeServer) -> None:
        server.refuse(await server.expect("initialize"), -32601)
        server.answer(await server.expect("server/discover"), discovered())
        await server.rest()

    assert open_with(script, preference="legacy").agreed == (LATEST_MODERN, "modern")


def test_legacy_first_that_is_refused_by_both_is_an_error() -> None:
    async def script(server: FakeServer) -> None:
        server.refuse(await server.expect("initialize"), -32000, "a")
        server.refuse(await server.expect("server/discover"), -32601, "b")
        await server.rest()

    outcome = open_with(script, preference="legacy")

    assert isinstance(outcome.failure, UpstreamStartError)
    assert outcome.methods == ["initialize", "server/discover"]


def test_modern_only_never_sends_initialize() -> None:
    async def script(server: FakeServer) -> None:
        server.refuse(await server.expect("server/discover"), -32601)
        await server.rest()

    outcome = open_with(script, preference="modern")

    assert isinstance(outcome.failure, UpstreamStartError)
    assert outcome.methods == ["server/discover"]


@pytest.mark.parametrize("revision", LEGACY)
def test_a_pinned_revision_is_really_offered_and_nothing_else(revision: str) -> None:
    async def script(server: FakeServer) -> None:
        request = await server.expect("initialize")
        assert request["params"]["protocolVersion"] == revision
        server.answer(request, initialized(revision))
        await server.rest()

    assert open_with(script, preference=revision).agreed == (revision, "legacy")


def test_a_counter_offer_to_a_pinned_revision_is_an_error() -> None:
    async def script(server: FakeServer) -> None:
        server.answer(await server.expect("initialize"), initialized(LATEST_LEGACY))
        await server.rest()

    outcome = open_with(script, preference=V2025_06_18)

    assert isinstance(outcome.failure, UpstreamStartError)
    assert V2025_06_18 in outcome.failure.reason
    assert outcome.methods == ["initialize"]  # no notification to a server that nothing was agreed on with


def test_a_pinned_legacy_revision_that_is_refused_is_not_followed_by_a_probe() -> None:
    async def script(server: FakeServer) -> None:
        server.refuse(await server.expect("initialize"), -32601)
        await server.rest()

    outcome = open_with(script, preference=V2025_06_18)

    assert isinstance(outcome.failure, UpstreamStartError)
    assert outcome.methods == ["initialize"]


def test_the_pinned_modern_revision_must_be_listed() -> None:
    async def script(server: FakeServer) -> None:
        server.answer(await server.expect("server/discover"), discovered(V2025_06_18))
        await server.rest()

    outcome = open_with(script, preference=LATEST_MODERN)

    assert isinstance(outcome.failure, UpstreamStartError)
    assert outcome.methods == ["server/discover"]


def test_a_remembered_modern_server_gets_all_the_time_it_needs_for_discover() -> None:
    async def script(server: FakeServer) -> None:
        probe = await server.expect("server/discover")
        await trio.sleep(30 * DELAY)
        assert server.methods == ["server/discover"]
        server.answer(probe, discovered())
        await server.rest()

    assert open_with(script, remembered=Remembered("modern")).agreed == (LATEST_MODERN, "modern")


def test_a_remembered_modern_era_that_proves_wrong_is_corrected() -> None:
    async def script(server: FakeServer) -> None:
        server.refuse(await server.expect("server/discover"), -32601)
        server.answer(await server.expect("initialize"), initialized())
        await server.rest()

    assert open_with(script, remembered=Remembered("modern")).agreed == (LATEST_LEGACY, "legacy")


def test_a_remembered_legacy_server_is_opened_without_a_probe() -> None:
    async def script(server: FakeServer) -> None:
        server.answer(await server.expect("initialize"), initialized())
        await server.rest()

    outcome = open_with(script, remembered=Remembered("legacy"))

    assert outcome.agreed == (LATEST_LEGACY, "legacy")
    assert outcome.methods == ["initialize", "notifications/initialized"]


@pytest.mark.parametrize("version", ["2031-01-01", LATEST_MODERN, "1.0", 5, None])
def test_an_answer_with_a_revision_mcpx_does_not_speak_is_disconnected(version: object) -> None:
    async def script(server: FakeServer) -> None:
        server.refuse(await server.expect("server/discover"), -32601)
        server.answer(await server.expect("initialize"), initialized(version))  # type: ignore[arg-type]
        await server.rest()

    failure = open_with(script).failure

    assert isinstance(failure, UpstreamStartError)
    assert failure.server == "fake"
    assert repr(version) in failure.reason
    assert all(revision in failure.reason for revision in LEGACY)
