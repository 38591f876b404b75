"""SimmL2Client: what LMCache's multi-process server drives SiMM through (`native_plugin`): batches
are submitted from any of its threads, one thread polls a descriptor and takes completions. Nothing
waits, except close(); nothing raises but for wrong types.
"""

import os
import select
import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple

from simm import _native
from simm.kv import BlockView
from simm.link import Link
from simm.lmcache.keys import bounded
from simm.lmcache.options import settings_of
from simm.lmcache.pools import Pools
from simm.log import logger, report_failure
from simm.results import INVALID_STATE, NOT_FOUND, UNREACHABLE

_PUT = _native.Operation.put
_GET = _native.Operation.get
_EXISTS = _native.Operation.exists
_DELETE = _native.Operation.delete

# (batch, did all of it work, what did not, for each key whether it did)
Completion = Tuple[int, bool, str, Optional[List[bool]]]


class _Batch:
    """What has been submitted, with the registrations that it needs until its end."""

    def __init__(self, number: int, operation: _native.Operation, keys: List[str]) -> None:
        self.number = number
        self.operation = operation
        self.keys = keys
        self.views: Optional[List[BlockView]] = None
        self.own: List[_native.MrExt] = []


class SimmL2Client:
    """manager_address, socket, namespace: as in simm/settings.py, which says what they are without.
    lease_ms: how long what a lookup has found stays (0: the daemon's default); timeout_ms: of a
    batch (0: 3 s and its bytes at 0.4 GB/s without progress). A daemon that is not there is no
    error: it may come. The first buffer of a pool, and one that is in no pool, are registered:
    beside a daemon that was just stopped that takes 5 s, once.

    ValueError, RuntimeError: a parameter or setting, and the remedy. Thread: any, concurrently.
    """

    def __init__(self, manager_address: str = "", socket: str = "", namespace: str = "",
                 lease_ms: int = 0, timeout_ms: int = 0) -> None:
        settings = settings_of({"manager_address": manager_address, "socket": socket,
                                "namespace": namespace}, exact_size=True)
        for name, value in (("lease_ms", lease_ms), ("timeout_ms", timeout_ms)):
            if not isinstance(value, int) or not 0 <= value < 2**32:
                raise ValueError(f"{name} = {value!r}: a number of milliseconds, 0 or more")
        self._lease_ms = lease_ms
        self._timeout_ms = timeout_ms
        self._lock = threading.Lock()  # of all below; held for no wait
        self._next = 1
        self._channel: Optional[_native.Channel] = None
        self._batches: Dict[int, _Batch] = {}
        self._done: List[Completion] = []
        self._pools = Pools()
        self._closed = False
        # What the server polls: the channel, which a daemon that starts later brings, and what has
        # completed without one.
        self._events = select.epoll()
        self._awake, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._events.register(self._awake, select.EPOLLIN)
        self._link = Link("LMCache L2 adapter", settings, with_channel=True)

    def event_fd(self) -> int:
        """Readable when drain_completions() has something to do. The same for its life."""
        return self._events.fileno()

    # --- batches: the answer is a number, which its completion bears ------------------------------

    def submit_batch_set(self, keys: Sequence[str], buffers: Sequence[Any]) -> int:
        """Store the buffers' bytes, which must stay as they are until it has completed. A key that
        is there already is left alone: keys name contents."""
        return self._submit(_PUT, keys, buffers)

    def submit_batch_get(self, keys: Sequence[str], buffers: Sequence[Any]) -> int:
        """Fetch into the buffers. A value of another size than its buffer is a miss."""
        return self._submit(_GET, keys, buffers)

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        return self._submit(_EXISTS, keys, None)

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        """For each key: is it not there any more?"""
        return self._submit(_DELETE, keys, None)

    def _submit(self, operation: _native.Operation, keys: Sequence[str],
                buffers: Optional[Sequence[Any]]) -> int:
        texts = [bounded(key) for key in keys]
        store = self._link.store()
        with self._lock:
            batch = _Batch(self._next, operation, texts)
            self._next += 1
            code = UNREACHABLE if store is None else INVALID_STATE
            try:
                if store is not None and not self._closed:
                    code = self._start(batch, buffers)
            except Exception as error:  # not memory, no memory, the daemon away just now
                reason = f"{type(error).__name__}: {error}"
                report_failure("LMCache L2", code, len(texts), reason)
                self._link.judge_missing([])
            if code != 0:
                self._complete(batch, [code] * len(texts), _reason(code))
            return batch.number

    def _start(self, batch: _Batch, buffers: Optional[Sequence[Any]]) -> int:
        """0, or why it was completed at once."""
        if self._channel is None:
            self._channel = self._link.channel  # there is one where there is a Store
            assert self._channel is not None
            self._events.register(self._channel.fileno(), select.EPOLLIN)
        if buffers is not None:
            batch.views = [self._view_of(buffer, batch) for buffer in buffers]
        started = self._channel.start(
            batch.operation, batch.keys, batch.views, timeout_ms=self._timeout_ms,
            lease_ms=self._lease_ms if batch.operation in (_GET, _EXISTS) else 0,
            if_absent=batch.operation == _PUT)
        if isinstance(started, int):
            self._batches[started] = batch
        else:
            self._finish(batch, started)
        return 0

    def _view_of(self, buffer: Any, batch: _Batch) -> BlockView:
        view = BlockView.from_tensor(buffer)
        if self._pools.of(view.ptr, view.size) is None:
            batch.own.append(_native.MrExt(buffer, wait_if_stopped=True))
        return view

    # --- completions ------------------------------------------------------------------------------

    def drain_completions(self) -> List[Completion]:
        """What has completed since the last call. By the thread that polls event_fd()."""
        with self._lock:
            if self._closed:
                return []
            if self._channel is not None:
                for ticket, results in self._channel.drain():
                    batch = self._batches.pop(ticket, None)
                    if batch is not None:
                        self._finish(batch, results)
            try:
                os.read(self._awake, 4096)
            except BlockingIOError:
                pass
            done, self._done = self._done, []
            return done

    def _finish(self, batch: _Batch, results: List[Any]) -> None:
        for own in batch.own:
            own.deregister()
        if batch.operation == _EXISTS:
            self._link.judge_missing(results)
            self._complete(batch, [1 if found else NOT_FOUND for found in results], "")
            return
        self._link.judge(results)
        worst = min((int(code) for code in results if code != NOT_FOUND), default=0)
        self._complete(batch, results, _reason(worst))

    def _complete(self, batch: _Batch, results: Sequence[int], reason: str) -> None:
        if self._closed:
            return  # its descriptors may be another's by now
        if batch.operation == _PUT:
            good = [code == 0 for code in results]
        elif batch.operation == _DELETE:
            good = [code in (0, NOT_FOUND) for code in results]
        else:
            good = [code > 0 for code in results]
        # A lookup that was answered has worked, whatever it has found.
        worked = reason == "" if batch.operation == _EXISTS else all(good)
        self._done.append((batch.number, worked, reason, good))
        try:
            os.write(self._wake, b"1")
        except BlockingIOError:
            pass  # it is readable as it is

    # --- about ------------------------------------------------------------------------------------

    def stats(self) -> Dict[str, Any]:
        """Store.stats(), with those of the circuit breaker. Never waits."""
        return self._link.stats()

    def close(self) -> None:
        """Waits for what is under way, at most its deadline plus 100 ms, beside a stopped daemon
        until it goes on or dies: then nothing touches the buffers any more. Safe twice; what is
        submitted later completes never."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._channel is not None:
                self._channel.close()  # waits for its batches
            for batch in self._batches.values():
                for own in batch.own:
                    own.deregister()
            self._batches.clear()
        self._link.close()
        self._pools.close()
        self._events.close()
        os.close(self._awake)
        os.close(self._wake)
        logger.info("LMCache L2 adapter: closed")


def _reason(code: int) -> str:
    """Empty when nothing is wrong."""
    return "" if code >= 0 else f"{_native.status_name(code)} ({code})"
