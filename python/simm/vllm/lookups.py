"""Lookups: which chunks the pool has. vLLM asks for one chunk at a time and must not wait, so the
questions of a step go out as one batch at its end, and its next step has the answers.

The first chunk of a request is asked for at once, within the step's budget: where the pool lacks
that, the request costs no step, and where the pool has it, the others are worth one.

A chunk that was found is leased, so that it is still there when it is loaded."""

import time
from collections import OrderedDict
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from simm import _native
from simm.vllm.batches import Batches
from simm.vllm.figures import Figures
from simm.vllm.identity import keys_of
from simm.vllm.news import News
from simm.vllm.options import Options

KEYS_MAX = 1 << 17  # in the table; what is asked for beyond is a miss
_FAILED_MAX = 1 << 12
# How long a miss is believed: another engine may store the chunk meanwhile.
_MISS_S = 1.0
# How long a chunk is a miss that was found, and could not be loaded: else vLLM would try for ever.
_FAILED_S = 10.0
# A request whose lookups are out of date for so long has ended, and nobody has said so.
_STALE_S = 60.0
# Of a lease: the load that a hit leads to has the rest of its time.
_LEASE_BELIEVED = 0.5


class _Entry:
    """What is known of a chunk, until a time. found: None: it was asked for."""

    __slots__ = ("found", "until_s")

    def __init__(self, found: Optional[bool], until_s: float) -> None:
        self.found = found
        self.until_s = until_s


class Lookups:
    """Thread: one at a time. Nothing raises."""

    def __init__(self, batches: Batches, prefix: str, row_bytes: int, options: Options,
                 figures: Figures, news: News) -> None:
        self._batches = batches
        self._prefix = prefix
        self._row_bytes = row_bytes
        self._options = options
        self._figures = figures
        self._news = news
        self._hit_s = options.lease_ms / 1000 * _LEASE_BELIEVED
        self._late_s = options.lookup_ms / 1000
        self._budget_s = options.step_budget_us / 1e6
        self._left_s = self._budget_s  # of this step
        self._entries: Dict[bytes, _Entry] = {}
        self._unsent: List[Tuple[bytes, _Entry]] = []
        # The one that was looked at longest ago is the first.
        self._of_request: "OrderedDict[str, List[bytes]]" = OrderedDict()
        self._failed: Dict[bytes, float] = {}  # until when

    def look(self, key: bytes, request: str) -> Optional[bool]:
        """True, False, or None: ask again in the next step."""
        now_s = time.monotonic()
        if self._failed and now_s < self._failed.get(key, 0):
            return self._count(False)
        entry = self._entries.get(key)
        if entry is not None:
            if now_s < entry.until_s:
                return self._count(entry.found)
            if entry.found is None:  # too late: the request does not wait any longer
                self._figures.late += 1
                self._entries[key] = _Entry(False, now_s + _MISS_S)
                return self._count(False)
        elif len(self._entries) >= KEYS_MAX and not self._find_room(now_s):
            self._figures.refused += 1
            return self._count(False)
        entry = _Entry(None, now_s + self._late_s)
        self._entries[key] = entry
        self._unsent.append((key, entry))
        known = self._of_request.get(request)
        if known is not None:
            known.append(key)
            return None
        self._of_request[request] = [key]
        return self._count(self._ask_now(entry, now_s))

    def _find_room(self, now_s: float) -> bool:
        """Forgets one request, if that has been left behind; else another one is looked at the next
        time."""
        request, keys = next(iter(self._of_request.items()))
        last = self._entries.get(keys[-1])
        if last is not None and now_s < last.until_s + _STALE_S:
            self._of_request.move_to_end(request)
        else:
            self.forget(request)
        return len(self._entries) < KEYS_MAX

    def _count(self, found: Optional[bool]) -> Optional[bool]:
        if found is not None:
            if found:
                self._figures.hits += 1
            else:
                self._figures.misses += 1
        return found

    def _ask_now(self, entry: _Entry, now_s: float) -> Optional[bool]:
        if self._left_s <= 0:
            return None
        ends_s = now_s + self._left_s
        self.send()
        while entry.found is None and now_s < ends_s:
            self._batches.poll()
            now_s = time.monotonic()
        self._left_s = ends_s - now_s
        return entry.found

    def send(self) -> None:
        """What was asked for since goes out as one batch."""
        asked, self._unsent = self._unsent, []
        if not asked:
            return
        keys = self.texts_of([key for key, _ in asked])

        def done(results: Sequence[int]) -> None:
            now_s = time.monotonic()
            for (_, entry), length in zip(asked, results):
                entry.found = length == self._row_bytes
                entry.until_s = now_s + (self._hit_s if entry.found else _MISS_S)
            self._news.there(key for key, entry in asked if entry.found)
            self._news.gone(key for key, entry in asked if not entry.found)

        self._batches.start(_native.Operation.length, keys, None, done,
                            lease_ms=self._options.lease_ms,
                            timeout_ms=self._options.lookup_ms)

    def end_step(self) -> None:
        """The next step has its own budget."""
        self.send()
        self._left_s = self._budget_s

    def texts_of(self, keys: Iterable[bytes]) -> List[str]:
        """The chunks' keys in the pool."""
        return keys_of(self._prefix, keys)

    def note_failed(self, keys: Sequence[bytes]) -> None:
        """They could not be loaded."""
        self._news.gone(keys)
        now_s = time.monotonic()
        if len(self._failed) + len(keys) > _FAILED_MAX:
            self._failed = {key: until_s for key, until_s in self._failed.items()
                            if now_s < until_s}
        for key in keys[:_FAILED_MAX - len(self._failed)]:
            self._failed[key] = now_s + _FAILED_S

    def note_stored(self, keys: Sequence[bytes]) -> None:
        """They are there now."""
        self._news.there(keys)
        for key in keys:
            self._failed.pop(key, None)
            entry = self._entries.get(key)
            if entry is not None and entry.found is False:
                del self._entries[key]

    def forget(self, request: str) -> None:
        """The request has ended. What another one asked for, too, is asked for anew."""
        for key in self._of_request.pop(request, ()):
            self._entries.pop(key, None)
