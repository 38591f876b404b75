"""`python3 -m simm.replay --trace FILE`: replays a conversation trace through simm.kv.

Every process is a tensor-parallel rank and does for each request what an engine's cache does with
its storage: it probes the prefix with mexists, fetches what is there with mget, compares every
byte with what the key demands, and stores the rest with mput. Ranks go through the requests
together; the prefix is the shortest of all ranks. The last line printed is one JSON object; exit
status 1 when bytes_wrong is not 0, nothing was fetched or a rank fails.

The trace is JSON lines, sorted by time, with input_length (tokens) and hash_ids (one id per block
of 512 tokens); `simm-bench trace-stats --write FILE` makes one. Settings: see simm/settings.py.
"""

import argparse
import dataclasses
import hashlib
import json
import multiprocessing
import os
import sys
import time
from typing import Any, Dict, List, Tuple, cast

from simm.kv import BlockView, Store, register_mr, set_flag

BLOCK_PAGES = 8
PAGE_TOKENS = 64
CALL_PAGES = 128
UNIQUE_TO_POOL_MAX = 8
SCALE_MIN = 256

Request = Tuple[int, List[int]]  # pages looked up, block ids


@dataclasses.dataclass(frozen=True)
class Model:
    """How an engine cuts a page of 64 tokens into objects."""

    name: str
    object_bytes: int
    parts: Tuple[str, ...]  # objects of a page and rank
    shared: bool  # every rank has the same objects (MLA): rank 0 stores them

    def keys(self, block: int, page: int, rank: int) -> List[str]:
        digest = hashlib.sha256(f"{block}/{page}".encode()).hexdigest()
        owner = "" if self.shared else str(rank)
        return [f"{digest}_{owner}_{part}" for part in self.parts]


MODELS = (Model("deepseek-r1", 4_497_408, ("k",), True),
          Model("llama-70b", 1_310_720, ("k", "v"), False))


@dataclasses.dataclass
class Plan:
    model: Model
    ranks: int
    object_bytes: int = 0
    scale: int = 0
    pages: int = 0
    best_pages_hit: int = 0  # with a cache that forgets nothing

    @staticmethod
    def make(requests: List[Request], model: Model, ranks: int, pool_bytes: int) -> "Plan":
        """Pages are scaled down so that the pool holds an eighth of what the trace stores."""
        plan = Plan(model, ranks)
        cached: Dict[int, int] = {}
        for pages, blocks in requests:
            plan.pages += pages
            prefix = True
            for first in range(0, pages, BLOCK_PAGES):
                block, here = blocks[first // BLOCK_PAGES], min(BLOCK_PAGES, pages - first)
                known = cached.get(block, 0)
                plan.best_pages_hit += min(known, here) if prefix else 0
                prefix = prefix and known >= here
                cached[block] = max(known, here)
        objects = sum(cached.values()) * len(model.parts) * (1 if model.shared else ranks)
        plan.scale = SCALE_MIN
        while (objects * (model.object_bytes // plan.scale) > UNIQUE_TO_POOL_MAX * pool_bytes
               and model.object_bytes // plan.scale >= 1024):
            plan.scale *= 2
        plan.object_bytes = model.object_bytes // plan.scale
        return plan


class Rank:
    """One process of a replay."""

    def __init__(self, plan: Plan, number: int, barrier: Any, prefixes: Any) -> None:
        self._plan, self._number, self._barrier, self._prefixes = plan, number, barrier, prefixes
        self._size = plan.object_bytes
        self._parts = len(plan.model.parts)
        self._store = Store()
        self._pool = self._store.allocate(CALL_PAGES * self._parts * self._size)
        self._bytes = memoryview(cast(Any, self._pool))  # not all type checkers know that it may
        self._mr = register_mr(self._pool)
        self.fetch_us: List[float] = []
        self.tally = dict.fromkeys(("pages_hit", "pages_vanished", "put_failures", "bytes_stored",
                                    "bytes_fetched", "bytes_verified", "bytes_wrong"), 0)

    def replay(self, request: Request) -> None:
        pages, blocks = request
        self._prefixes[self._number] = self._probe(pages, blocks)
        self._barrier.wait()
        common = min(self._prefixes)
        self._fetch(common, blocks)
        if not self._plan.model.shared or self._number == 0:
            self._put(common, pages, blocks)
        self._barrier.wait()

    def close(self) -> None:
        self._store.close()

    def _names(self, first: int, end: int, blocks: List[int]) -> List[str]:
        return [key for page in range(first, end)
                for key in self._plan.model.keys(blocks[page // BLOCK_PAGES], page % BLOCK_PAGES,
                                                 self._number)]

    def _views(self, count: int) -> List[BlockView]:
        """Made for every call, as engines do."""
        return [BlockView.from_buffer(self._pool.ptr + i * self._size, self._size, self._mr)
                for i in range(count)]

    def _content(self, key: str) -> bytes:
        return hashlib.shake_128(key.encode()).digest(self._size)

    def _leading_pages(self, results: List[Any]) -> int:
        missing = next((i for i, result in enumerate(results) if not result), len(results))
        return missing // self._parts

    def _probe(self, pages: int, blocks: List[int]) -> int:
        for first in range(0, pages, CALL_PAGES):
            end = min(pages, first + CALL_PAGES)
            present = self._leading_pages(self._store.mexists(self._names(first, end, blocks)))
            if present < end - first:
                return first + present
        return pages

    def _fetch(self, pages: int, blocks: List[int]) -> None:
        for first in range(0, pages, CALL_PAGES):
            end = min(pages, first + CALL_PAGES)
            keys = self._names(first, end, blocks)
            views = self._views(len(keys))
            before = time.perf_counter()
            results = self._store.mget(keys, views)
            self.fetch_us.append((time.perf_counter() - before) * 1e6)
            self._verify(keys, results)
            present = self._leading_pages(results)
            self.tally["pages_hit"] += present
            if present < end - first:
                self.tally["pages_vanished"] += end - first - present
                return

    def _verify(self, keys: List[str], results: List[Any]) -> None:
        size = self._size
        for i, (key, result) in enumerate(zip(keys, results)):
            if result:
                self.tally["bytes_fetched"] += result
                self.tally["bytes_verified"] += size
                got, wanted = self._bytes[i * size:(i + 1) * size], self._content(key)
                if result != size or got != wanted:
                    self.tally["bytes_wrong"] += max(1, sum(a != b for a, b in zip(got, wanted)))
        # What is not written by the next get must not look right.
        self._bytes[:len(keys) * size] = b"\xdb" * (len(keys) * size)

    def _put(self, first: int, pages: int, blocks: List[int]) -> None:
        for start in range(first, pages, CALL_PAGES):
            keys = self._names(start, min(pages, start + CALL_PAGES), blocks)
            self._bytes[:len(keys) * self._size] = b"".join(map(self._content, keys))
            stored = sum(map(bool, self._store.mput(keys, self._views(len(keys)), if_absent=True)))
            self.tally["bytes_stored"] += stored * self._size
            self.tally["put_failures"] += len(keys) - stored


def run_rank(plan: Plan, number: int, requests: List[Request], barrier: Any, prefixes: Any,
             answers: Any) -> None:
    try:
        # A replay asks for correctness and throughput; a shared machine may stall for seconds.
        set_flag("clnt_sync_req_timeout_ms", "30000")
        rank = Rank(plan, number, barrier, prefixes)
        for request in requests:
            rank.replay(request)
        rank.close()
        answers.put((rank.tally, rank.fetch_us))
    except BaseException:
        barrier.abort()  # the others wait for this one
        raise


def replay_model(requests: List[Request], plan: Plan) -> Dict[str, Any]:
    # A namespace of its own: what an earlier replay left behind must not count as a hit.
    os.environ["SIMM_NAMESPACE"] = f"replay-{plan.model.name}-{os.getpid()}-{int(time.time())}"
    os.environ["SIMM_EXACT_SIZE"] = "1"
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(plan.ranks), context.SimpleQueue()
    prefixes = context.Array("q", plan.ranks, lock=False)
    started = time.monotonic()
    ranks = [context.Process(target=run_rank, args=(plan, number, requests, barrier, prefixes,
                                                    answers)) for number in range(plan.ranks)]
    for process in ranks:
        process.start()
    gathered: List[Any] = []
    while len(gathered) < plan.ranks and (not answers.empty() or
                                          any(process.is_alive() for process in ranks)):
        if answers.empty():
            time.sleep(0.02)
        else:
            gathered.append(answers.get())
    for process in ranks:
        process.join()
    if len(gathered) < plan.ranks:
        raise RuntimeError("a rank failed: see above")
    seconds = time.monotonic() - started
    total = {name: sum(tally[name] for tally, _ in gathered) for name in gathered[0][0]}
    total["pages_hit"] = min(tally["pages_hit"] for tally, _ in gathered)
    fetch_us = sorted(sample for _, samples in gathered for sample in samples) or [0.0]
    return {"model": plan.model.name, "scale": plan.scale, "object_bytes": plan.object_bytes,
            "requests": len(requests), "pages": plan.pages,
            "hit_rate": total["pages_hit"] / max(1, plan.pages),
            "best_hit_rate": plan.best_pages_hit / max(1, plan.pages), **total,
            "fetch_p50_us": round(fetch_us[len(fetch_us) // 2], 1),
            "fetch_p99_us": round(fetch_us[len(fetch_us) * 99 // 100], 1),
            "seconds": round(seconds, 1)}


def read_trace(path: str) -> List[Request]:
    requests = []
    with open(path, encoding="utf-8") as trace:
        for number, line in enumerate(trace, 1):
            try:
                row = json.loads(line)
                blocks = row["hash_ids"]
                pages = min(row["input_length"] // PAGE_TOKENS, len(blocks) * BLOCK_PAGES)
            except (ValueError, KeyError, TypeError) as error:
                raise SystemExit(f"{path}:{number}: {error!r}: give one request a line") from None
            requests.append((pages, blocks))
    return requests


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m simm.replay", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", required=True, metavar="FILE", help="the trace")
    parser.add_argument("--processes", type=int, default=4, help="ranks (%(default)s)")
    parser.add_argument("--pool-bytes", type=int, default=1 << 30, help="what the pool holds")
    options = parser.parse_args()
    if not 1 <= options.processes <= 64:
        parser.error(f"--processes {options.processes}: use 1 to 64")
    requests = read_trace(options.trace)
    models = []
    for model in MODELS:
        plan = Plan.make(requests, model, options.processes, options.pool_bytes)
        models.append(replay_model(requests, plan))
        for name, value in models[-1].items():
            print(f"{name:<16}{value if isinstance(value, (int, str)) else f'{value:.4g}':>18}")
        print()
    total: Dict[str, Any] = {"client": "simm.kv", "processes": options.processes}
    for name in ("requests", "pages", "pages_hit", "pages_vanished", "put_failures",
                 "bytes_stored", "bytes_fetched", "bytes_verified", "bytes_wrong"):
        total[name] = sum(model[name] for model in models)
    total["hit_rate"] = total["pages_hit"] / max(1, total["pages"])
    total["models"] = models
    print(json.dumps(total))
    return 0 if total["bytes_wrong"] == 0 and total["bytes_verified"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
