"""EventChannel: the asynchronous calls of one Store in one event loop. The loop watches a
descriptor of libsimm: no thread is involved, and nothing runs while nothing is pending."""

import asyncio
from typing import Any, Callable, Dict, List

from simm import _native


class EventChannel:
    """Thread: the loop's, except close()."""

    def __init__(self, connection: _native.Connection, loop: asyncio.AbstractEventLoop) -> None:
        self._channel = connection.open_channel()
        self._pending: Dict[int, "asyncio.Future[List[Any]]"] = {}
        loop.add_reader(self._channel.fileno(), self._on_readable)

    async def call(self, operation: _native.Operation, *arguments: Any,
                   **options: Any) -> List[Any]:
        """One batch; the results as the synchronous call returns them.

        Cancelling waits for the batch's end, at most its deadline plus 100 ms: before, the daemon
        might still read or write the pages, and the caller could not use them again.
        """
        started = self._channel.start(operation, *arguments, **options)
        if isinstance(started, list):
            return started
        loop = asyncio.get_running_loop()
        cancelled = None
        while True:
            future = loop.create_future()
            self._pending[started] = future
            try:
                results = await future
                break
            except asyncio.CancelledError as error:
                cancelled = error
                if started not in self._pending:  # it has completed at the same time
                    raise
        if cancelled is not None:
            raise cancelled
        return results

    def _on_readable(self) -> None:
        self._deliver_what(self._channel.drain)

    def _deliver_what(self, get: Callable[[], List[Any]]) -> None:
        try:
            self._deliver(get())
        except BaseException:  # of a signal's handler: whoever waits for a batch still gets it
            self._deliver(self._channel.take_completed())
            raise

    def _deliver(self, completed: List[Any]) -> None:
        for ticket, results in completed:
            future = self._pending.pop(ticket, None)
            if future is not None and not future.done():
                future.set_result(results)

    def close(self, loop: asyncio.AbstractEventLoop) -> None:
        """Waits for what is pending, and hands its results to the loop."""
        descriptor = self._channel.fileno()
        if loop.is_closed():
            self._channel.close()
            return
        if _is_running_here(loop):
            self._deliver_what(self._channel.finish)
            loop.remove_reader(descriptor)
            self._channel.close()
        else:
            loop.call_soon_threadsafe(self.close, loop)


def _is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return not loop.is_running()
