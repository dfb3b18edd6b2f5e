"""Tasks that serve a context manager's body, and stay at work while that body is being cancelled."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


@asynccontextmanager
async def open_crew() -> AsyncGenerator[trio.Nursery]:
    """Open a nursery for the tasks that a resource needs as long as it is open: its writer, its watchers.

    A cancellation from outside reaches the body but not the crew, so that farewells and shutdown ladders still have
    their writer and their readers; the crew is cancelled when the body has ended, however it did. The body must
    therefore bound what it does while it is being cancelled.

    What the body raises comes out as itself, not in a group. A crash of a crew member cancels the body and comes out
    in a group.
    """
    raised: BaseException | None = None
    try:
        async with trio.open_nursery() as outer:
            # Not `start`: cancelled, that would wait for a task which is already shielded.
            opened = trio.Event()
            nurseries: list[trio.Nursery] = []
            outer.start_soon(_hold, nurseries, opened)
            with trio.CancelScope(shield=True):
                await opened.wait()
            (crew,) = nurseries
            try:
                yield crew
            except BaseException as error:
                raised = error
                raise
            finally:
                crew.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if raised is None or group.exceptions != (raised,):
            raise
    if raised is not None:  # raised out here, so that the group does not become its context
        raise raised


async def _hold(nurseries: list[trio.Nursery], opened: trio.Event) -> None:
    """Keep a shielded nursery open until cancelled; it has to be a task's own, or it would shield the body as well."""
    async with trio.open_nursery() as crew:
        crew.cancel_scope.shield = True
        nurseries.append(crew)
        opened.set()
        await trio.sleep_forever()
