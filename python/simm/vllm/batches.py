"""Batches: what a tier has asked its daemon and not heard of yet. Only finish() and wait() wait."""

import select
from typing import Any, Callable, Dict, List, Optional, Sequence

from simm import _native
from simm.link import Link
from simm.log import report_failure
from simm.results import UNREACHABLE
from simm.store import Pages

_LOOK_S = 0.1

# Told of each key's result: a code, or a length.
Done = Callable[[Sequence[int]], None]


class Batches:
    """Thread: one at a time. Nothing raises, but for wrong types."""

    def __init__(self, link: Link, name: str = "SimmTier") -> None:
        """link: with a channel; name: of who asks, for the log."""
        self._link = link
        self._name = name
        self._closed = False
        self._done: Dict[int, Done] = {}

    def start(self, operation: _native.Operation, keys: Sequence[str], views: Optional[Pages],
              done: Done, **options: Any) -> None:
        """`done` is called by start() where the answer is there at once, else by poll()."""
        channel = self._channel
        if channel is None or self._link.store() is None:
            return done([UNREACHABLE] * len(keys))
        try:
            started = channel.start(operation, keys, views, **options)
        except RuntimeError as error:  # the daemon is away just now
            report_failure(self._name, UNREACHABLE, len(keys), str(error))
            self._link.judge_missing([])
            return done([UNREACHABLE] * len(keys))
        if isinstance(started, int):
            self._done[started] = done
        else:
            self._end(done, started)

    @property
    def _channel(self) -> Optional[_native.Channel]:
        return None if self._closed else self._link.channel

    def _end(self, done: Done, results: Sequence[int]) -> None:
        self._link.judge(results)
        done(results)

    def poll(self) -> None:
        """Tells of what has ended since."""
        channel = self._channel
        if channel is not None and self._done:
            self._tell(channel.drain())

    def finish(self) -> None:
        """Tells of all; waits for it, at most for its deadlines plus 100 ms. Beside a stopped
        daemon the memory's `wait_if_stopped` decides."""
        channel = self._channel
        if channel is not None:
            self._tell(channel.finish())

    def wait(self, is_over: Callable[[], bool]) -> None:
        """Tells of what ends until `is_over()`; at the latest when nothing is under way, which the
        deadlines see to."""
        channel = self._channel
        while channel is not None and self._done and not is_over():
            select.select([channel.fileno()], [], [], _LOOK_S)
            self.poll()

    def _tell(self, ended: List[Any]) -> None:
        for ticket, results in ended:
            done = self._done.pop(ticket, None)
            if done is not None:
                self._end(done, results)

    def close(self) -> None:
        """Waits like finish(). Safe twice."""
        self.finish()
        channel, self._closed = self._channel, True
        if channel is not None:
            channel.close()
