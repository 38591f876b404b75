"""Matches: the scheduler's half of a connector: which blocks of a request the pool has, which of
them a step loads, and which blocks it saves. Nothing waits beyond the step's budget.

A block is there when `end` of each rank is (moves.py). A question leases what it finds, so that it
is still there when it is loaded.

Where a load fails, all that the model computes behind it is wrong. The scheduler hears of that when
the step has ended, and has begun with the next one by then. So nothing that has to do with a block
is saved in the step that loads it, nor in the next one: by then the failure is known, and vLLM has
taken back what was computed."""

import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from simm import _native
from simm.vllm.batches import Batches
from simm.vllm.moves import END, key_of
from simm.vllm.options import ConnectorOptions

BLOCKS_MAX = 1 << 14  # of one question; what is behind them is computed
_FAILED_MAX = 1 << 12
_UNSURE_STEPS = 2  # a step with its load, and one that may have begun before its end
_MISS_S = 1.0
_FAILED_S = 10.0  # how long a block is a miss that could not be loaded
_LEASE_BELIEVED = 0.5


class _Asked:
    """What is known of a request. found: blocks from `first` on; None: nothing yet."""

    __slots__ = ("first", "count", "found", "until_s")

    def __init__(self, first: int, count: int, until_s: float) -> None:
        self.first = first
        self.count = count
        self.found: Optional[int] = None
        self.until_s = until_s


class _Running:
    """A request with blocks: how many of them are saved, or were there."""

    __slots__ = ("request", "blocks", "saved")

    def __init__(self, request: Any) -> None:
        self.request = request
        self.blocks: List[int] = []
        self.saved = 0


class Matches:
    """Thread: one at a time. block_tokens: of a block; hashes_per_block: of the request's."""

    def __init__(self, batches: Batches, options: ConnectorOptions, block_tokens: int,
                 hashes_per_block: int) -> None:
        self._batches = batches
        self._options = options
        self._tokens = block_tokens
        self._per_block = hashes_per_block
        self._left_s = options.step_budget_us / 1e6
        self._asked: Dict[str, _Asked] = {}
        self._running: Dict[str, _Running] = {}
        self._loads: List[Tuple[bytes, int]] = []
        self._loaded: Dict[int, bytes] = {}  # what was loaded last into a block
        self._step = 0
        self._unsure: Dict[int, int] = {}  # blocks that were loaded just now, with the step
        self._failed: Dict[bytes, float] = {}  # until when
        self.prefixes: Tuple[str, ...] = ()  # of the keys of each rank; none: nothing is known
        self.counts = {"asked": 0, "found": 0, "late": 0}

    def _hash(self, request: Any, block: int) -> bytes:
        return bytes(request.block_hashes[(block + 1) * self._per_block - 1])

    def _hashed(self, request: Any) -> int:
        return len(request.block_hashes) // self._per_block

    # --- what is there ----------------------------------------------------------------------------

    def match(self, request: Any, computed: int) -> Optional[int]:
        """Tokens behind the first `computed` ones that the pool has; None: ask in the next step.
        The last token is always left, because the model has to say what comes behind it."""
        first = computed // self._tokens
        count = min((request.num_tokens - 1) // self._tokens, self._hashed(request)) - first
        if not self.prefixes or computed % self._tokens or count <= 0:
            return 0
        count = min(count, BLOCKS_MAX)
        now_s = time.monotonic()
        asked = self._asked.get(request.request_id)
        if asked is not None and asked.found is None:
            self._batches.poll()
            if asked.found is None and now_s >= asked.until_s:  # it does not wait any longer
                self.counts["late"] += 1
                asked.found, asked.until_s = 0, now_s + _MISS_S
        if asked is None or (asked.first, asked.count) != (first, count) or (
                asked.found is not None and now_s >= asked.until_s):
            asked = self._ask(request, first, count, now_s)
        return None if asked.found is None else asked.found * self._tokens

    def _ask(self, request: Any, first: int, count: int, now_s: float) -> _Asked:
        asked = _Asked(first, count, now_s + self._options.lookup_ms / 1000)
        self._asked[request.request_id] = asked
        hashes = [self._hash(request, block) for block in range(first, first + count)]
        keys = [key_of(prefix, block_hash, END) for block_hash in hashes
                for prefix in self.prefixes]

        def done(results: Sequence[int]) -> None:
            told_s = time.monotonic()
            ranks = len(self.prefixes)
            found = 0
            while found < count and all(
                    length > 0 for length in results[found * ranks:(found + 1) * ranks]) and (
                    self._failed.get(hashes[found], 0) <= told_s):
                found += 1
            asked.found = found
            asked.until_s = told_s + (self._options.lease_ms / 1000 * _LEASE_BELIEVED if found
                                      else _MISS_S)
            self.counts["asked"] += count
            self.counts["found"] += found

        self._batches.start(_native.Operation.length, keys, None, done,
                            lease_ms=self._options.lease_ms, timeout_ms=self._options.lookup_ms)
        ends_s = now_s + self._left_s
        while asked.found is None and now_s < ends_s:
            self._batches.poll()
            now_s = time.monotonic()
        self._left_s = max(0.0, ends_s - now_s)
        return asked

    def note_failed(self, blocks: Sequence[int]) -> None:
        """These could not be loaded: what was to be in them is a miss for a while, and what was
        found is asked for anew."""
        now_s = time.monotonic()
        self._asked.clear()
        for block in blocks:
            block_hash = self._loaded.get(block)
            if block_hash is not None and len(self._failed) < _FAILED_MAX:
                self._failed[block_hash] = now_s + _FAILED_S
        if len(self._failed) >= _FAILED_MAX:
            self._failed = {key: until_s for key, until_s in self._failed.items()
                            if now_s < until_s}

    # --- what a step does -------------------------------------------------------------------------

    def allocated(self, request: Any, blocks: Any, tokens: int) -> None:
        """The request has blocks; `tokens` are to be loaded into some. Raises where it does not
        know which: the engine takes them for loaded from now on."""
        self._running.setdefault(request.request_id, _Running(request)).request = request
        asked = self._asked.pop(request.request_id, None)
        if tokens <= 0:
            return
        if asked is None or tokens % self._tokens or tokens > (asked.found or 0) * self._tokens:
            raise RuntimeError(f"{tokens} tokens are to be loaded that nobody has found")
        [places] = blocks.get_block_ids()
        for block in range(asked.first, asked.first + tokens // self._tokens):
            block_hash = self._hash(request, block)
            self._loads.append((block_hash, places[block]))
            self._loaded[places[block]] = block_hash

    def take_loads(self) -> List[Tuple[bytes, int]]:
        """What this step loads: a new step begins."""
        self._step += 1
        self._left_s = self._options.step_budget_us / 1e6
        self._unsure = {block: step for block, step in self._unsure.items()
                        if step > self._step - _UNSURE_STEPS}
        self._unsure.update((block, self._step) for _, block in self._loads)
        loads, self._loads = self._loads, []
        return loads

    def saves(self, output: Any) -> List[Tuple[bytes, int]]:
        """What this step saves: full blocks whose tokens are known."""
        saves: Dict[bytes, int] = {}
        for new in output.scheduled_new_reqs:
            running = self._running.get(new.req_id)
            if running is not None:
                self._begin(running, new.block_ids, new.num_computed_tokens)
                self._save(running, new.num_computed_tokens
                           + output.num_scheduled_tokens[new.req_id], saves)
        cached = output.scheduled_cached_reqs
        for i, name in enumerate(cached.req_ids):
            running = self._running.get(name)
            if running is None:
                continue
            computed, places = cached.num_computed_tokens[i], cached.new_block_ids[i]
            if _is_resumed(cached, i, name):
                self._begin(running, places, computed)
            else:
                running.blocks.extend(places[0] if places else ())
                running.saved = min(running.saved, computed // self._tokens)
            self._save(running, computed + output.num_scheduled_tokens[name], saves)
        return list(saves.items())

    def _begin(self, running: _Running, places: Any, computed: int) -> None:
        running.blocks = list(places[0])
        running.saved = computed // self._tokens

    def _save(self, running: _Running, tokens: int, saves: Dict[bytes, int]) -> None:
        if not self._options.saves:
            return
        known = min(tokens, running.request.num_tokens) // self._tokens
        known = min(known, self._hashed(running.request), len(running.blocks))
        if known <= running.saved or (
                self._unsure and not self._unsure.keys().isdisjoint(running.blocks[:known])):
            return
        for block in range(running.saved, known):
            saves.setdefault(self._hash(running.request, block), running.blocks[block])
        running.saved = known

    def finished(self, name: str) -> None:
        """The request has ended."""
        self._asked.pop(name, None)
        self._running.pop(name, None)


def _is_resumed(cached: Any, i: int, name: str) -> bool:
    """Did it lose its blocks, and begins anew? Earlier versions of vLLM have a flag of each."""
    resumed = getattr(cached, "resumed_req_ids", None)
    return bool(cached.resumed_from_preemption[i]) if resumed is None else name in resumed
