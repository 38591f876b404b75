"""HiCacheSimm: SiMM as the storage of SGLang's hierarchical cache, by its `dynamic` backend:

    --hicache-storage-backend dynamic --hicache-storage-backend-extra-config
      '{"backend_name": "simm", "module_path": "simm.sglang", "class_name": "HiCacheSimm",
        "interface_v1": 1, "allocator": "shm"}'

SGLANG.md of the package is the guide. Nothing here raises from a storage thread: such an exception
would end the thread for good, and hang the other ranks. What fails is a miss, and is logged.
"""

import collections
import collections.abc
import functools
import time
from typing import Any, Callable, Deque, Dict, List, Optional, Sequence, Tuple, TypeVar

from sglang.srt.mem_cache import hicache_storage
from sglang.srt.mem_cache.hicache_storage import HiCacheStorage

from simm import _native
from simm.hints import NAMES as HINTS
from simm.log import logger, report_failure
from simm.results import INVALID_STATE
from simm.sglang.hits import common, leading, legal_lengths, longest
from simm.sglang.keys import KeyMaker
from simm.sglang.link import QUESTION_MAX, Link
from simm.sglang.pages import FlatPages
from simm.sglang.pools import KV, HostPool

# Between exists and get SGLang synchronises its ranks and makes room: 30 s is its own longest wait.
LEASE_MS = 30_000
OPTIONS = ("manager_address", "socket", "namespace", "immutable", *HINTS)
_MARKERS = 64  # generations looked for at once
_MARK_PAUSE_S = 1.0
_BATCHES_KEPT = 1024

Call = TypeVar("Call", bound=Callable[..., Any])
Part = Tuple[HostPool, Sequence[str], Any]


def _misses(miss: Callable[..., Any]) -> Callable[[Call], Call]:
    """What is answered instead of an exception: miss(self, *the call's arguments)."""
    def decorate(call: Call) -> Call:
        @functools.wraps(call)
        def guarded(self: Any, *arguments: Any, **options: Any) -> Any:
            try:
                return call(self, *arguments, **options)
            except Exception as error:
                report_failure(f"HiCacheSimm.{call.__name__}", INVALID_STATE, 1, repr(error))
                return miss(self, *arguments, **options)
        return guarded  # type: ignore[return-value]
    return decorate


# The arguments may be anything: they may be why the call failed.
def _count(keys: Any) -> int:
    return len(keys) if isinstance(keys, collections.abc.Sized) else 0


def _no_pages(self: Any, keys: Any = None, *_: Any, **__: Any) -> List[bool]:
    return [False] * _count(keys)


def _no_tensors(self: Any, keys: Any = None, *_: Any, **__: Any) -> List[None]:
    return [None] * _count(keys)


def _no_transfers(self: Any, transfers: Any = None, *_: Any,
                  **__: Any) -> Dict[Any, List[bool]]:
    if not isinstance(transfers, collections.abc.Iterable):
        return {}
    return {transfer.name: [False] * _count(getattr(transfer, "keys", None))
            for transfer in transfers
            if isinstance(getattr(transfer, "name", []), collections.abc.Hashable)}


class HiCacheSimm(HiCacheStorage):
    """SGLang's storage interface: tensors, v1 (pages of the host pool) and v2 (several pools).

    storage_config: SGLang's HiCacheStorageConfig; of its extra_config are read: manager_address,
    socket, namespace, immutable (else flags, JSON file and environment decide: simm/settings.py),
    what simm/hints.py has,
    extra_backend_tag, lease_ms, interface_v1, enable_profile, draft_is_replicated.
    RuntimeError: the configuration makes no sense. No daemon is no error: all is a miss then.
    Thread: any; attach and detach are SGLang's control thread.
    """

    def __init__(self, storage_config: Any = None, kwargs: Any = None) -> None:
        extra = dict(getattr(storage_config, "extra_config", None) or {})
        self._keys = KeyMaker(storage_config, str(extra.get("extra_backend_tag", "")))
        lease_ms = extra.get("lease_ms", LEASE_MS)
        if not isinstance(lease_ms, int) or not 1 <= lease_ms < 2**32:
            raise RuntimeError(f"lease_ms = {lease_ms!r} in the extra config: milliseconds, from 1")
        self._is_v1 = bool(extra.get("interface_v1", 0))
        self._profile = bool(extra.get("enable_profile", False))
        self._draft_is_replicated = bool(extra.get("draft_is_replicated", False))
        self._measures = bool(getattr(storage_config, "enable_storage_metrics", False))
        self._batches: Dict[bool, Deque[Tuple[int, float]]] = {
            is_put: collections.deque(maxlen=_BATCHES_KEPT) for is_put in (False, True)}
        self._counts: Dict[str, int] = collections.Counter()
        self._pools: Dict[str, HostPool] = {}
        self._kv: Optional[HostPool] = None
        self._told_copies = False
        self._knows_generation = False
        self._mark_again_s = 0.0
        self._link = Link({name: extra[name] for name in OPTIONS if name in extra}, lease_ms,
                          self._register_rest)
        self._flat = FlatPages(self._link)

    # --- memory ---------------------------------------------------------------------------------

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        """RuntimeError: the pool can not be used, and what to change."""
        super().register_mem_pool_host(mem_pool_host)
        self._kv = self._replace(KV, mem_pool_host)

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        """A pool that can not be used is logged, and all its pages are misses."""
        name = str(getattr(host_pool_name, "value", host_pool_name))
        if name == KV and self._kv is not None:
            return  # register_mem_pool_host() had it
        try:
            self._replace(name, host_pool)
        except RuntimeError as error:
            logger.error("simm.sglang: %s: its pages are not stored", error)

    def _replace(self, name: str, host_pool: Any) -> HostPool:
        before = self._pools.pop(name, None)
        if before is not None:
            before.close()
        pool = HostPool(name, host_pool, self._keys)
        self._pools[name] = pool  # where _register_rest() finds it
        if not pool.register() and not self._link.is_away() and not pool.register():
            del self._pools[name]
            raise RuntimeError(f"host pool {name}: its memory was refused: see the log")
        self._tell_copies()
        return pool

    def _register_rest(self) -> None:
        """The daemon is back: what was registered while it was away is known to it."""
        for pool in list(self._pools.values()):
            if not pool.is_registered and not pool.register():
                logger.error("simm.sglang: host pool %s: its pages are not stored", pool.name)

    def _tell_copies(self) -> None:
        reasons = {name: pool.copied() for name, pool in self._pools.items()}
        copied = [f"{name} ({reason})" for name, reason in reasons.items() if reason]
        if copied and not self._told_copies:
            self._told_copies = True
            logger.warning("host pools whose pages are copied once more on their way: %s: add "
                           "\"allocator\": \"shm\" to the extra config, or run simmd with its "
                           "adopt helper", ", ".join(copied))

    # --- v1: pages of the KV pool ---------------------------------------------------------------

    @_misses(lambda self, *_, **__: 0)
    def batch_exists(self, keys: Sequence[str], extra_info: Any = None) -> int:
        """Pages of the longest prefix that is there; they are leased."""
        return self._prefix(keys)

    @_misses(_no_pages)
    def batch_get_v1(self, keys: Sequence[str], host_indices: Any,
                     extra_info: Any = None) -> List[bool]:
        return self._move([(self._kv_pool(), keys, host_indices)], False)[0]

    @_misses(_no_pages)
    def batch_set_v1(self, keys: Sequence[str], host_indices: Any,
                     extra_info: Any = None) -> List[bool]:
        return self._move([(self._kv_pool(), keys, host_indices)], True)[0]

    # --- v2: several pools ----------------------------------------------------------------------

    @_misses(lambda self, *_, **__: self._result(0, {}, []))
    def batch_exists_v2(self, keys: Sequence[str], pool_transfers: Optional[Sequence[Any]] = None,
                        extra_info: Any = None) -> Any:
        """The greatest prefix that is legal for every pool at once."""
        pages = self._prefix(keys)
        others = [transfer for transfer in pool_transfers or () if str(transfer.name) != KV]
        hits = {hicache_storage.PoolName.KV: pages} if pages else {}
        if not pages or not others:
            return self._result(pages, hits, list(range(1, pages + 1)))
        pools = [self._pools.get(str(transfer.name)) for transfer in others]
        prefix = self._keys.prefix()
        names = [pool.names(prefix, keys[:pages]) if pool else [] for pool in pools]
        found = self._link.present([name for of_pool in names for name in of_pool])
        legal, start = [], 0
        for transfer, pool, of_pool in zip(others, pools, names):
            there = pool.pages_of(found[start:start + len(of_pool)]) if pool else []
            start += len(of_pool)
            if pool is not None and pool.is_logical:
                there = [True] * pages
            is_window = transfer.hit_policy == hicache_storage.PoolHitPolicy.TRAILING_PAGES
            # The texts of a window's keys are placeholders: only their number counts.
            window = max(1, len(transfer.keys or ())) if is_window else 0
            legal.append(legal_lengths(there or [False] * pages, window))
            if longest(legal[-1]):
                hits[transfer.name] = longest(legal[-1])
        lengths = common(legal, pages)
        return self._result(lengths[-1] if lengths else 0, hits, lengths)

    @staticmethod
    def _result(pages: int, hits: Dict[Any, int], lengths: List[int]) -> Any:
        kind = hicache_storage.PoolTransferResult
        if "restorable_prefix_pages" in kind.__dataclass_fields__:
            return kind(pages, hits, restorable_prefix_pages=lengths)
        return kind(pages, hits)

    @_misses(_no_transfers)
    def batch_get_v2(self, transfers: Sequence[Any], extra_info: Any = None) -> Dict[Any, Any]:
        return self._transfer(transfers, False)

    @_misses(_no_transfers)
    def batch_set_v2(self, transfers: Sequence[Any], extra_info: Any = None) -> Dict[Any, Any]:
        return self._transfer(transfers, True)

    def _transfer(self, transfers: Sequence[Any], is_put: bool) -> Dict[Any, List[bool]]:
        results = _no_transfers(self, transfers)
        known = [transfer for transfer in transfers if str(transfer.name) in self._pools]
        parts = [(self._pools[str(transfer.name)], transfer.keys or (), transfer.host_indices)
                 for transfer in known]
        # One fetch for all ranks is for what all ranks read; the rest would be copied in vain.
        for replicated in (False, True):
            chosen = [i for i, part in enumerate(parts) if part[0].is_replicated is replicated]
            moved = self._move([parts[i] for i in chosen], is_put) if chosen else []
            for i, pages in zip(chosen, moved):
                results[known[i].name] = pages
        return results

    # --- tensors --------------------------------------------------------------------------------

    @_misses(lambda self, *_, **__: None)
    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        """The tensor `target_location`, filled, or None."""
        return self._get_flat([key], [target_location])[0]

    @_misses(_no_tensors)
    def batch_get(self, keys: Sequence[str], target_locations: Any = None,
                  target_sizes: Any = None) -> List[Any]:
        return self._get_flat(keys, target_locations)

    @_misses(lambda self, *_, **__: False)
    def set(self, key: str, value: Any = None, target_location: Any = None,
            target_sizes: Any = None) -> bool:
        return all(self._flat.put([self._flat_name(key)], [value]))

    @_misses(lambda self, *_, **__: False)
    def batch_set(self, keys: Sequence[str], values: Any = None, target_locations: Any = None,
                  target_sizes: Any = None) -> bool:
        return len(keys) == len(values) and (
            not keys or all(self._flat.put([self._flat_name(key) for key in keys], values)))

    @_misses(lambda self, *_, **__: False)
    def exists(self, key: str) -> bool:
        """Of one key, in the form in which it is stored."""
        return self._prefix([key]) == 1

    def _get_flat(self, keys: Sequence[str], tensors: Sequence[Any]) -> List[Any]:
        if not keys or len(keys) != len(tensors):
            return [None] * len(keys)
        got = self._flat.get([self._flat_name(key) for key in keys], tensors)
        return [tensor if ok else None for tensor, ok in zip(tensors, got)]

    def _flat_name(self, key: str) -> str:
        """`<hash>` is a page of the KV pool, `<hash>.draft` one of the draft pool."""
        page, _, pool = key.partition(".")
        kv = self._pools.get(KV)
        replicated = self._keys.is_replicated and (not pool or self._draft_is_replicated)
        suffix, = self._keys.suffixes(f"{pool or KV}.flat", kv.fingerprint if kv else "", 1,
                                      replicated)
        return f"{self._keys.prefix()}{page}{suffix}"

    # --- the work -------------------------------------------------------------------------------

    def _kv_pool(self) -> HostPool:
        if self._kv is None:
            raise RuntimeError("register_mem_pool_host() was not called")
        return self._kv

    def _prefix(self, keys: Sequence[str]) -> int:
        """Pages from the first on that are there."""
        if self._link.store is None:
            return 0
        self._find_generation()
        flat = not self._is_v1 or any("." in key for key in keys[:1])
        pool = None if flat else self._kv_pool()
        if pool is not None and pool.is_logical:
            return 0 if self._present([]) is None else len(keys)
        parts = pool.parts if pool else 1
        step = max(1, QUESTION_MAX // parts)
        hit = 0
        for start in range(0, len(keys), step):
            some = keys[start:start + step]
            names = (pool.names(self._keys.prefix(), some) if pool
                     else [self._flat_name(key) for key in some])
            found = self._present(names)
            if found is None:
                return 0
            here = leading(found) // parts
            hit += here
            if here < len(some):
                break
        self._counts["pages_probed"] += len(keys)
        self._counts["pages_found"] += hit
        return hit

    def _move(self, parts: Sequence[Part], is_put: bool) -> List[List[bool]]:
        """One native call for all pages of all parts, which are all replicated or none is."""
        if self._link.store is None:
            return [[pool.is_logical] * len(keys) for pool, keys, _ in parts]
        prefix = self._keys.prefix()
        names: List[str] = []
        starts: List[int] = []
        sizes: List[int] = []
        counts: List[int] = []
        for pool, keys, indices in parts:
            before = len(names)
            if not pool.is_logical and self._fits(pool, keys, indices):
                places = pool.places(indices)
                names += pool.names(prefix, keys)
                starts += places[0]
                sizes += places[1]
            counts.append(len(names) - before)
        began_s = time.perf_counter()
        codes = self._carry_out(names, starts, sizes, is_put, parts[0][0].is_replicated)
        self._account(len(names), sizes, time.perf_counter() - began_s, is_put)
        results, at = [], 0
        for (pool, keys, _), count in zip(parts, counts):
            if pool.is_logical or count == 0:
                results.append([pool.is_logical] * len(keys))
                continue
            mine = codes[at:at + count]
            at += count
            # min() looks at plain ints: the truth value of each would cost a call of Python's.
            if min(mine) == 0 if is_put else min(mine) > 0:
                results.append([True] * len(keys))
            else:
                results.append(pool.pages_of([code == 0 if is_put else code > 0 for code in mine]))
        return results

    @staticmethod
    def _fits(pool: HostPool, keys: Sequence[str], indices: Any) -> bool:
        fits = indices is not None and len(indices) == len(keys) * pool.page_size
        if not fits:
            report_failure("HiCacheSimm", INVALID_STATE, len(keys),
                           f"pool {pool.name}: {len(keys)} keys, pages of {pool.page_size}, but "
                           f"{0 if indices is None else len(indices)} indices")
        return fits

    def _carry_out(self, names: List[str], starts: List[int], sizes: List[int], is_put: bool,
                   shared: bool) -> List[int]:
        if not names:
            return []
        views = _native.Views(starts, sizes)
        if is_put:
            return self._link.put(names, views)
        return self._link.get(names, views, shared and self._keys.tp_size > 1)

    def _account(self, pages: int, sizes: List[int], took_s: float, is_put: bool) -> None:
        if not (self._measures or self._profile) or not pages or took_s <= 0:
            return
        gbs = sum(sizes) / took_s / 1e9
        if self._measures:
            self._batches[is_put].append((pages, gbs))
        if self._profile:
            logger.info("SiMM %s: %d objects, %.1f MiB, %.0f us, %.2f GB/s",
                        "put" if is_put else "get", pages, sum(sizes) / 2**20, took_s * 1e6, gbs)

    # --- clear, statistics, end -----------------------------------------------------------------

    def _find_generation(self) -> None:
        """Once: what generation is it? Later ones are noticed by _prefix()."""
        if self._knows_generation or self._link.store is None:
            return
        first, found = self._keys.generation, [True]
        while found[-1]:
            found = self._link.present([self._keys.marker(first + i + 1) for i in range(_MARKERS)])
            first += _MARKERS
        if self._link.store is None:
            return
        first -= _MARKERS
        begun = [i + 1 for i, there in enumerate(found) if there]
        self._keys.generation = max(self._keys.generation, first + max(begun, default=0))
        self._knows_generation = True
        if self._keys.generation > 0:  # a daemon that was started again has forgotten its pins
            self._link.pin([self._keys.marker(self._keys.generation)])
        self._tell_copies()  # there is a daemon now

    def _present(self, names: Sequence[str]) -> Optional[List[bool]]:
        """Which objects are there. None: somebody has cleared the storage meanwhile, as the marker
        of the next generation says; that of this one is put again when it has been lost."""
        now = self._keys.generation
        markers = [self._keys.marker(now + 1)] + ([self._keys.marker(now)] if now else [])
        found = self._link.present([*names, *markers])
        if found[len(names)]:
            self._keys.generation = max(self._keys.generation, now + 1)
            self._knows_generation = False  # there may be more of them
            return None
        if now and not found[-1] and time.monotonic() >= self._mark_again_s:
            self._mark(now)
        return found[:len(names)]

    def _mark(self, generation: int) -> bool:
        """Say to all that it has begun. Pinned, since pages of the one before may be there for
        longer than what nobody reads."""
        self._mark_again_s = time.monotonic() + _MARK_PAUSE_S
        block = self._link.allocate(8)
        marker = self._keys.marker(generation)
        if block is None or self._link.put([marker], [block.view()])[0] != 0:
            return False
        self._link.pin([marker])
        return True

    @_misses(lambda self, *_, **__: False)
    def clear(self) -> bool:
        """From now on nothing that was stored under this model and tag is there, on any rank and
        node. Its memory is used again as it is needed. False: the daemon is away: nothing happened.
        """
        self._find_generation()
        following = self._keys.generation + 1
        if not self._mark(following):
            return False
        self._keys.generation = max(self._keys.generation, following)
        if (following - 1) % _MARKERS:  # the last of each run leads _find_generation() on
            self._link.unpin([self._keys.marker(following - 1)])
        return True

    @_misses(lambda self, *_, **__: None)
    def get_stats(self) -> Any:
        """SGLang's StorageMetrics since the last call; None without --enable-metrics."""
        if not self._measures:
            return None
        from sglang.srt.observability.metrics_collector import StorageMetrics
        metrics = StorageMetrics()
        lists = {False: (metrics.prefetch_pgs, metrics.prefetch_bandwidth),
                 True: (metrics.backup_pgs, metrics.backup_bandwidth)}
        for is_put, (pages, bandwidths) in lists.items():
            batches = self._batches[is_put]
            while batches:
                count, gbs = batches.popleft()
                pages.append(count)
                bandwidths.append(gbs)
        return metrics

    def facts(self) -> Dict[str, Any]:
        """Counters of this backend, its breaker and its process's session. Never waits."""
        return {**self._counts, **self._link.stats(), "generation": self._keys.generation}

    def close(self) -> None:
        """Detach: the memory is SGLang's alone when it returns. Then all is a miss. Safe twice."""
        self._flat.close()
        self._link.close()
        pools, self._pools = self._pools, {}
        self._kv = None
        for pool in pools.values():
            pool.close()
