"""EventChannel: the asynchronous calls of one Store in one event loop. The loop watches a
descriptor of libsimm, and nothing runs while nothing is pending.

One call never holds the loop up for long: a long list is taken up in parts, one in a turn of the
loop, and libsimm copies about 8 MiB in a turn. A page that is longer than that can not be copied in
parts: a thread of the channel carries such a call out."""

import asyncio
import collections
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Deque, Dict, List, Optional

from simm import _native

# What is looked at in one turn.
KEYS_PER_TURN = 4096
# The longest page that the loop's own thread copies: what libsimm copies at a time.
PAGE_BYTES_MAX = 8 << 20
# Parts of one list that are under way.
_PARTS_MAX = 4
# Calls with longer pages that are carried out at a time; others wait for their turn.
_THREADS_MAX = 4


OnPage = Callable[[int, Any], None]


class ToldPages:
    """Whom to tell of the pages of a call, or of a part of it."""

    def __init__(self, on_page: OnPage, first: int = 0,
                 whole: "Optional[ToldPages]" = None) -> None:
        self._on_page = on_page
        self._first = first
        self._whole = self if whole is None else whole
        self._error: Optional[Exception] = None

    def behind(self, first: int) -> "ToldPages":
        return ToldPages(self._on_page, first, self._whole)

    def tell(self, index: int, result: Any) -> None:
        try:
            self._on_page(self._first + index, result)
        except Exception as error:
            if self._whole._error is None:
                self._whole._error = error

    def tell_all(self, results: List[Any]) -> List[Any]:
        for index, result in enumerate(results):
            self.tell(index, result)
        return results

    def ended(self, results: List[Any]) -> List[Any]:
        if self._error is not None:
            raise self._error
        return results


class EventChannel:
    """Thread: the one that made it, which is the loop's; close() any. `open_waiting()` makes the
    Connection whose calls wait, with the time limits of asynchronous ones."""

    def __init__(self, connection: _native.Connection, loop: asyncio.AbstractEventLoop,
                 open_waiting: Callable[[], _native.Connection]) -> None:
        self._connection = connection
        self._channel = connection.open_channel()
        self._pending: Dict[int, "asyncio.Future[List[Any]]"] = {}
        self._pages: Dict[int, ToldPages] = {}
        self._open_waiting = open_waiting
        self._waiting: Optional[_native.Connection] = None
        self._threads: Optional[ThreadPoolExecutor] = None
        self._is_closed = False
        self._is_left = False  # to the loop, which ends it after the last pending call
        self._thread = threading.current_thread()
        loop.add_reader(self._channel.fileno(), self._on_readable)

    async def call(self, operation: _native.Operation, keys: Any, views: Any = None,
                   offsets: Any = None, on_page: Optional[OnPage] = None,
                   **options: Any) -> List[Any]:
        """One batch; the results as the synchronous call returns them.

        on_page: called in the loop's thread for each page as it ends, once, before the call does.
        The first error that it raises is the call's, when all pages have ended.

        Cancelling waits for the batch's end, at most its deadline plus 100 ms, beside a stopped
        daemon plus 200 ms: before, the daemon might still read or write the pages, and the caller
        could not use them again.
        """
        pages = None if on_page is None else ToldPages(on_page)
        if _is_long(keys, views, offsets):
            results = await self._call_in_parts(operation, tuple(keys), views, offsets, pages,
                                                **options)
        else:
            results = await self._call(operation, keys, views, offsets, pages, **options)
        return results if pages is None else pages.ended(results)

    async def _call_in_parts(self, operation: _native.Operation, keys: Any, views: Any,
                             offsets: Any, pages: "Optional[ToldPages]", *, timeout_ms: int = 0,
                             **options: Any) -> List[Any]:
        ends_s = time.monotonic() + timeout_ms / 1000
        views = views if views is None or isinstance(views, _native.Views) else tuple(views)
        offsets = None if offsets is None else tuple(offsets)
        loop = asyncio.get_running_loop()
        parts: List["asyncio.Task[List[Any]]"] = []
        running: Deque["asyncio.Task[List[Any]]"] = collections.deque()
        try:
            for first in range(0, len(keys), KEYS_PER_TURN):
                part = slice(first, first + KEYS_PER_TURN)
                left_ms = max(1, int((ends_s - time.monotonic()) * 1000)) if timeout_ms else 0
                task = loop.create_task(self._call(
                    operation, keys[part], _part_of(views, part),
                    None if offsets is None else offsets[part],
                    None if pages is None else pages.behind(first), timeout_ms=left_ms, **options))
                parts.append(task)
                running.append(task)
                await asyncio.sleep(0)
                if len(running) == _PARTS_MAX:
                    await asyncio.wait({running.popleft()})
            await asyncio.wait(parts)
        except asyncio.CancelledError:
            await _end_of(parts)
            raise
        return [result for task in parts for result in task.result()]

    async def _call(self, operation: _native.Operation, keys: Any, views: Any, offsets: Any,
                    pages: "Optional[ToldPages]" = None, **options: Any) -> List[Any]:
        if views is not None and _native.longest_page(views) > PAGE_BYTES_MAX:
            results = await self._call_in_thread(operation, keys, views, offsets, **options)
            return results if pages is None else pages.tell_all(results)
        started = self._channel.start(operation, keys, views, offsets,
                                      tells_pages=pages is not None, **options)
        if isinstance(started, list):
            return started if pages is None else pages.tell_all(started)
        if pages is not None:
            self._pages[started] = pages
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

    async def _call_in_thread(self, *arguments: Any, **options: Any) -> List[Any]:
        if self._is_closed:
            return self._connection.run(*arguments, **options)  # says that it is closed
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS_MAX, "simm-event-loop")
        loop = asyncio.get_running_loop()
        future: "asyncio.Future[List[Any]]" = loop.create_future()

        def carry_out() -> None:
            try:
                connection = self._waiting_connection()
                result = connection.run(*arguments, **options)
                _call_soon(loop, future.set_result, result)
            except BaseException as error:  # the caller's: nobody looks at the thread
                _call_soon(loop, future.set_exception, error)

        self._threads.submit(carry_out)
        await _end_of([future])
        return future.result()

    def _waiting_connection(self) -> _native.Connection:
        if self._waiting is None:
            try:
                self._waiting = self._open_waiting()
            except RuntimeError:  # the daemon is away: calls of the Store's own say so
                return self._connection
        return self._waiting

    def _on_readable(self) -> None:
        self._deliver_what(self._channel.drain)
        if self._is_left and not self._pending:
            asyncio.get_running_loop().remove_reader(self._channel.fileno())
            self._end()

    def _deliver_what(self, get: Callable[[], List[Any]]) -> None:
        try:
            self._deliver(get())
        except BaseException:  # of a signal's handler: whoever waits for a batch still gets it
            self._deliver(self._channel.take_completed())
            raise

    def _deliver(self, completed: List[Any]) -> None:
        try:
            for ticket, index, result in self._channel.take_pages():
                self._pages[ticket].tell(index, result)
        finally:
            for ticket, results in completed:
                self._pages.pop(ticket, None)
                future = self._pending.pop(ticket, None)
                if future is not None and not future.done():
                    future.set_result(results)

    def close(self, loop: asyncio.AbstractEventLoop) -> None:
        """Waits for what is pending, and hands its results to the loop. A loop of another thread
        does so itself, if it runs or goes on; one that stands keeps its descriptor till then."""
        if loop.is_running() and not _is_running_here(loop):
            if _call_soon(loop, self.close, loop):
                return
        elif not loop.is_closed() and self._belongs_to_another():
            self._is_left = True  # its thread may close the loop at any moment: touch nothing
            return
        if not loop.is_closed():
            self._deliver_what(self._channel.finish)
            loop.remove_reader(self._channel.fileno())
        self._end()

    def _belongs_to_another(self) -> bool:
        return self._thread is not threading.current_thread() and self._thread.is_alive()

    def _end(self) -> None:
        self._is_closed = True
        self._channel.close()
        if self._threads is not None:
            self._threads.shutdown()
        if self._waiting is not None:
            self._waiting.close()


def _is_long(keys: Any, views: Any, offsets: Any) -> bool:
    """Is it a list to be cut? What is wrong with a list is said of the whole of it."""
    count = len(keys) if isinstance(keys, (list, tuple)) else 0
    return (count > KEYS_PER_TURN and set(map(type, keys)) == {str}
            and (views is None or len(views) == count and (
                isinstance(views, _native.Views) or set(map(type, views)) == {_native.BlockView}))
            and (offsets is None or len(offsets) == count and set(map(type, offsets)) == {int}
                 and 0 <= min(offsets) and max(offsets) < 1 << 64))


def _part_of(views: Any, part: slice) -> Any:
    if isinstance(views, _native.Views):
        return views.part(part.start, KEYS_PER_TURN)
    return None if views is None else views[part]


async def _end_of(futures: Any) -> None:
    """Returns, or is cancelled, when all of them are done."""
    cancelled = None
    while not all(future.done() for future in futures):
        try:
            await asyncio.wait(futures)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        for future in futures:
            future.exception()  # looked at: nobody else does
        raise cancelled


def _call_soon(loop: asyncio.AbstractEventLoop, callee: Callable[[Any], None], value: Any) -> bool:
    try:
        loop.call_soon_threadsafe(callee, value)
    except RuntimeError:  # the loop is closed: nobody waits any more
        return False
    return True


def _is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
