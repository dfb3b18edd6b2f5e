"""Byte streams that do what a test says."""

from __future__ import annotations

import trio


class GatedSend(trio.abc.SendStream):
    """Records what it is given, one entry per write, each of which waits for ``let`` to have allowed it."""

    def __init__(self, allowed: float = float("inf")) -> None:
        self.writes: list[bytes] = []
        self.objects: list[object] = []  # the same, as they were handed over
        self.closed = False
        self.broken = False
        self._allowed = allowed
        self._changed = trio.Event()

    def let(self, writes: float) -> None:
        """Allow so many more writes."""
        self._allowed += writes
        self._tell()

    def break_off(self) -> None:
        """From now on the peer is gone, for a write under way as well."""
        self.broken = True
        self._tell()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        while not self._allowed and not self.closed and not self.broken:
            await self._changed.wait()
        if self.closed:
            raise trio.ClosedResourceError
        if self.broken:
            raise trio.BrokenResourceError
        self._allowed -= 1
        self.writes.append(bytes(data))
        self.objects.append(data)

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self.closed = True
        self._tell()
        await trio.lowlevel.checkpoint()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class ScriptedReceive(trio.abc.ReceiveStream):
    """Hands out the given chunks, as much of each as is asked for, then ends, breaks, or says nothing more."""

    def __init__(self, *chunks: bytes, then: type[Exception] | None = None, silent: bool = False) -> None:
        self.asked: list[int] = []
        self.closed = False
        self._chunks = list(chunks)
        self._then = then
        self._silent = silent

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        assert max_bytes is not None
        self.asked.append(max_bytes)
        if self._chunks:
            chunk, rest = self._chunks[0][:max_bytes], self._chunks[0][max_bytes:]
            self._chunks[:1] = [rest] if rest else []
            return chunk
        if self._silent:
            await trio.sleep_forever()
        if self._then is not None:
            raise self._then
        return b""

    async def aclose(self) -> None:
        self.closed = True
        await trio.lowlevel.checkpoint()
