"""Rounds: every chunk that was told as stored is asked for once in a while. So routers hear also of
chunks that have left a part of the pool of which the daemon tells this engine nothing.

A question is no use of its chunk, and leases it for a millisecond: chunks leave the pool as if
nobody had asked. No answer says nothing of a chunk; the next round asks again."""

import time
from typing import Callable, Iterable, List, Sequence

from simm import _native
from simm.results import NOT_FOUND
from simm.vllm.batches import Batches
from simm.vllm.figures import Figures
from simm.vllm.news import News
from simm.vllm.options import Options

KEYS_PER_STEP = 32
_LEASE_MS = 1


class Rounds:
    """Thread: one at a time. Nothing raises, nothing waits."""

    def __init__(self, batches: Batches, news: News,
                 texts_of: Callable[[Iterable[bytes]], List[str]], row_bytes: int,
                 options: Options, figures: Figures) -> None:
        self._batches = batches
        self._news = news
        self._texts_of = texts_of
        self._row_bytes = row_bytes
        self._options = options
        self._figures = figures
        self._left: List[bytes] = []  # of this round, the next one last
        self._next_s = 0.0            # when another round may begin
        self._is_asking = False

    def poll(self) -> None:
        """Once in a step, behind what has ended."""
        if not self._options.recheck_s or not self._news.is_wanted:
            self._left = []
            return
        if self._is_asking:
            return
        if not self._left:
            now_s = time.monotonic()
            if now_s < self._next_s:
                return
            self._next_s = now_s + self._options.recheck_s
            self._left = self._news.known()
            self._left.reverse()
        asked = self._news.doubt(reversed(self._left[-KEYS_PER_STEP:]))
        del self._left[-KEYS_PER_STEP:]
        if asked:
            self._ask(asked)

    def _ask(self, asked: List[bytes]) -> None:
        def done(results: Sequence[int]) -> None:
            self._is_asking = False
            absent = [key for key, result in zip(asked, results) if self._is_absent(result)]
            self._figures.asked_again += len(asked)
            self._figures.found_gone += len(absent)
            self._news.settle(absent)

        self._is_asking = True
        self._batches.start(_native.Operation.length, self._texts_of(asked), None,
                            done, lease_ms=_LEASE_MS, timeout_ms=self._options.lookup_ms)

    def _is_absent(self, result: int) -> bool:
        return result == NOT_FOUND or (result >= 0 and result != self._row_bytes)
