"""Transfers: vLLM's jobs, each one batch between its rows and the pool. The daemon moves the bytes
itself; nothing is copied here."""

import time
from typing import Any, Callable, Iterable, List, NamedTuple, Sequence

from simm import _native
from simm.log import report_failure
from simm.results import INVALID_ARGUMENT
from simm.vllm.batches import Batches
from simm.vllm.figures import Figures, Flow
from simm.vllm.lookups import Lookups
from simm.vllm.options import Options
from simm.vllm.rows import Rows


class Ended(NamedTuple):
    """A job's end: which of its keys it moved. `seconds` since it was begun."""

    number: int
    is_whole: bool
    good: List[bytes]
    seconds: float


class Transfers:
    """Thread: one at a time. Nothing raises: what can not be moved is a job that has failed."""

    def __init__(self, batches: Batches, rows: Rows, lookups: Lookups, options: Options,
                 figures: Figures) -> None:
        self._batches = batches
        self._rows = rows
        self._lookups = lookups
        self._timeout_ms = options.timeout_ms
        self._figures = figures
        self._ended: List[Ended] = []

    def store(self, number: int, keys: Iterable[bytes], rows: Iterable[Any]) -> None:
        """Put them, but for those that are there: a key names its bytes."""
        self._begin(number, list(keys), rows, _native.Operation.put, self._figures.stores,
                    lambda code: code == 0, self._lookups.note_stored, self._ignore,
                    if_absent=True)

    def load(self, number: int, keys: Iterable[bytes], rows: Iterable[Any]) -> None:
        """Get them. A value of another size is a miss."""
        self._begin(number, list(keys), rows, _native.Operation.get, self._figures.loads,
                    lambda length: length == self._rows.row_bytes, self._ignore,
                    self._lookups.note_failed)

    @staticmethod
    def _ignore(keys: Sequence[bytes]) -> None:
        """Nobody wants to know of these."""

    def _begin(self, number: int, keys: List[bytes], rows: Iterable[Any],
               operation: _native.Operation, flow: Flow, is_good: Callable[[int], bool],
               on_good: Callable[[List[bytes]], None], on_bad: Callable[[List[bytes]], None],
               **options: Any) -> None:
        began_s = time.monotonic()
        flow.begin()

        def done(results: Sequence[int]) -> None:
            good = [key for key, result in zip(keys, results) if is_good(result)]
            is_whole = len(good) == len(keys)
            flow.end(len(good), len(keys) - len(good), self._rows.row_bytes)
            on_good(good)
            if not is_whole:
                on_bad([key for key, result in zip(keys, results) if not is_good(result)])
            self._ended.append(Ended(number, is_whole, good, time.monotonic() - began_s))

        try:
            pages = self._rows.pages(rows)
            if len(pages) != len(keys):
                raise ValueError(f"{len(keys)} keys for {len(pages)} rows")
            texts = self._lookups.texts_of(keys)
        except Exception as error:  # a job that does not end would hold its rows for ever
            report_failure("SimmTier", INVALID_ARGUMENT, len(keys), f"job {number}: {error}")
            return done([INVALID_ARGUMENT] * len(keys))
        if not keys:
            return done([])
        self._batches.start(operation, texts, pages, done, timeout_ms=self._timeout_ms, **options)

    def take_ended(self) -> List[Ended]:
        """Those that have ended since the last call."""
        ended, self._ended = self._ended, []
        return ended
