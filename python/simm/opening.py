"""Opening: where the first asynchronous calls of an event loop wait until their Store has a channel
for that loop. A thread opens the channel, and the loop goes on: beside a daemon that was just
stopped a session takes 5 s to be refused."""

import asyncio
import functools
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, List, Optional

from simm import _native
from simm.events import EventChannel, OnPage, ToldPages, end_of, in_thread

# One opens the channel. The others carry out calls whose time ends before there is one.
_THREADS_MAX = 4
_TIME_MS_MAX = 1 << 32


class Opening:
    """Thread: the loop's. A thread of its own runs `open_channel`, whose result is None where there
    is no daemon at the moment. `take` gets the result in the loop, and makes the EventChannel.

    A call waits for its own time, or without one for `patience_ms`. Then it gets the answer that a
    synchronous call gets, by a thread as well."""

    def __init__(self, connection: _native.Connection, loop: asyncio.AbstractEventLoop,
                 patience_ms: int, open_channel: Callable[[], Optional[_native.Channel]],
                 take: Callable[[Optional[_native.Channel]], Optional[EventChannel]]) -> None:
        self._connection = connection
        self._loop = loop
        self._patience_ms = patience_ms
        self._take = take
        self._threads = ThreadPoolExecutor(_THREADS_MAX, "simm-event-loop")
        self._opened = in_thread(self._threads, loop, open_channel)
        self._opened.add_done_callback(self._on_opened)
        self._channel: Optional[EventChannel] = None

    async def call(self, operation: _native.Operation, *arguments: Any,
                   on_page: Optional[OnPage] = None, timeout_ms: int = 0,
                   **options: Any) -> List[Any]:
        # What is wrong with a time is said where the call is carried out.
        has_time = isinstance(timeout_ms, int) and 0 < timeout_ms < _TIME_MS_MAX
        ends_s = time.monotonic() + (timeout_ms if has_time else self._patience_ms) / 1000
        await asyncio.wait({self._opened}, timeout=ends_s - time.monotonic())
        if has_time:
            timeout_ms = max(1, int((ends_s - time.monotonic()) * 1000))
        if self._channel is not None:
            return await self._channel.call(operation, *arguments, on_page=on_page,
                                            timeout_ms=timeout_ms, **options)
        run = functools.partial(self._connection.run, operation, *arguments,
                                timeout_ms=timeout_ms, **options)
        answered = in_thread(self._threads, self._loop, run)
        await end_of([answered])
        results: List[Any] = answered.result()
        if on_page is None:
            return results
        pages = ToldPages(on_page)
        return pages.ended(pages.tell_all(results))

    def _on_opened(self, opened: "asyncio.Future[Any]") -> None:
        self._channel = self._take(None if opened.exception() is not None else opened.result())
