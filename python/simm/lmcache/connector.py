"""SimmConnector: LMCache's remote storage in SiMM. A chunk is one value; bytes go straight between
the node's daemon and LMCache's pool of host memory, which is registered once.

LMCache calls it in its event loop, except exists_sync, remove_sync and batched_contains. No call
raises: what does not work is a miss, logged once (logger "simm"). Chunks are stored if absent,
since their keys name their contents.
"""

import asyncio
import concurrent.futures
import functools
import inspect
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy
from lmcache.v1.storage_backend.connector.base_connector import RemoteConnector

from simm.lmcache import chunk
from simm.lmcache.keys import key_of
from simm.lmcache.options import Options
from simm.lmcache.staging import Staging
from simm.kv import BlockView, deregister_mr, register_mr
from simm.link import Link
from simm.log import logger, report_failure
from simm.results import INVALID_STATE, UNREACHABLE
from simm.store import Store

# LMCache's allocator would wait in the event loop, which it needs itself to free anything.
_ALLOCATE_PAUSES_S = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064)
_THREADS = 4
_PINNED_LEASE_MS = 60_000


class SimmConnector(RemoteConnector):  # type: ignore[misc]
    """`url`: simm://, plugin:// or external://; without one the config's `remote_url`. `metadata`:
    of the engine; without it the backend's. ValueError, RuntimeError: a setting, and the remedy."""

    def __init__(self, loop: asyncio.AbstractEventLoop, local_cpu_backend: Any, config: Any,
                 metadata: Any = None, url: Optional[str] = None) -> None:
        config = config if config is not None else local_cpu_backend.config
        if RemoteConnector.__init__ is not object.__init__:  # LMCache of 2025 has none
            super().__init__(config, metadata or getattr(local_cpu_backend, "metadata", None))
        self._url = url or getattr(config, "remote_url", None) or ""
        options = Options.read(self._url, getattr(config, "extra_config", None))
        self._loop = loop
        self._backend = local_cpu_backend
        self._threads = concurrent.futures.ThreadPoolExecutor(_THREADS, "simm-lmcache")
        self._use_sync = options.use_sync
        self._described = bool(getattr(self, "save_chunk_meta", True))
        self._header_bytes = chunk.header_bytes(self)
        allocate = getattr(local_cpu_backend, "allocate", None)
        self._allocate_options = (
            {"busy_loop": False}
            if allocate and "busy_loop" in inspect.signature(allocate).parameters else {})
        self._whole_bytes = int(getattr(self, "full_chunk_size_bytes", 0) or 0)
        pool = chunk.pool_of(local_cpu_backend)
        self._pool = None if pool is None else register_mr(pool)
        self._staging: Optional[Staging] = None
        self._link = Link(f"LMCache connector {self._url}", options.settings)

    # --- what is there ----------------------------------------------------------------------------

    async def exists(self, key: Any) -> bool:
        return await self._count_prefix([key], 0) == 1

    def exists_sync(self, key: Any) -> bool:
        return self.batched_contains([key]) == 1

    def support_batched_contains(self) -> bool:
        return True

    def batched_contains(self, keys: Sequence[Any]) -> int:
        """How many of them, from the first on, are there. Blocks its thread, for a round trip."""
        store = self._link.store()
        if store is None:
            return 0
        try:
            found = store.mexists([key_of(key) for key in keys])
        except Exception as error:
            self._failed("exists", len(keys), error)
            return 0
        self._link.judge_missing(found)
        return _prefix(found)

    def support_batched_async_contains(self) -> bool:
        return True

    async def batched_async_contains(self, lookup_id: str, keys: Sequence[Any],
                                     pin: bool = False) -> int:
        """The same in the event loop. pin: they stay for a minute, until they are fetched."""
        return await self._count_prefix(keys, _PINNED_LEASE_MS if pin else 0)

    async def _count_prefix(self, keys: Sequence[Any], lease_ms: int) -> int:
        store = self._link.store()
        if store is None:
            return 0
        try:
            found = await self._call(store, "mexists", [key_of(key) for key in keys],
                                     lease_ms=lease_ms)
        except Exception as error:
            self._failed("exists", len(keys), error)
            return 0
        self._link.judge_missing(found)
        return _prefix(found)

    # --- get --------------------------------------------------------------------------------------

    async def get(self, key: Any) -> Any:
        return (await self.batched_get([key]))[0]

    def support_batched_get(self) -> bool:
        return True

    async def batched_get(self, keys: Sequence[Any]) -> List[Any]:
        """A MemoryObj, which belongs to the caller, or None for each key."""
        store = self._link.store()
        if store is None or not keys:
            return [None] * len(keys)
        try:
            texts = [key_of(key) for key in keys]
            if self._described:
                return await self._get_described(store, texts)
            return await self._get_plain(store, texts)
        except Exception as error:
            self._failed("get", len(keys), error)
            return [None] * len(keys)

    def support_batched_get_non_blocking(self) -> bool:
        return True

    async def batched_get_non_blocking(self, lookup_id: str, keys: Sequence[Any]) -> List[Any]:
        """Those from the first on that could be fetched."""
        found = await self.batched_get(keys)
        count = _prefix([one is not None for one in found])
        _release(found[count:])
        return found[:count]

    async def _get_plain(self, store: Store, texts: List[str]) -> List[Any]:
        """A chunk may be a part of one: its length says how many tokens it has."""
        # 2025's LMCache has one shape, and then always describes its chunks.
        form = (self.meta_shapes, self.meta_dtypes, self.meta_fmt)
        chunks = await self._allocate([form] * len(texts))
        lengths = await self._read(store, texts, chunks, 0)
        whole = self._whole_bytes
        for i, (one, length) in enumerate(zip(chunks, lengths)):
            if one is None or length == whole:
                continue
            try:
                if length > 0:
                    chunks[i] = self.reshape_partial_chunk(one, int(length))
                    continue
            except Exception as error:  # LMCache's own, of whatever kind
                self._failed("get", 1, error)
            chunks[i] = None
            _release([one])
        return chunks

    async def _get_described(self, store: Store, texts: List[str]) -> List[Any]:
        """The headers, then, in memory that fits, what they describe."""
        step = self._header_bytes
        staging = self._staging_of(store)
        block = staging.take(step * len(texts))
        try:
            views = [BlockView.from_buffer(block.ptr + i * step, step) for i in range(len(texts))]
            codes = await self._call(store, "mget_range", texts, views, [0] * len(texts))
            self._link.judge(codes)
            raw = bytes(memoryview(block)[:step * len(texts)])
        finally:
            staging.give([block])
        forms: List[Optional[Tuple[Any, Any, Any]]] = [None] * len(texts)
        sizes = [0] * len(texts)
        for i, code in enumerate(codes):
            if code == step:
                try:
                    sizes[i], forms[i] = chunk.form_of(raw[i * step:(i + 1) * step])
                except Exception as error:  # a value that another program has put there
                    self._failed("get", 1, error)
        chunks = await self._allocate(forms)
        for i, one in enumerate(chunks):
            if one is not None and one.get_size() != sizes[i]:
                chunks[i] = None
                _release([one])
        lengths = await self._read(store, texts, chunks, step)
        short = [i for i, one in enumerate(chunks) if one is not None and lengths[i] != sizes[i]]
        _release([chunks[i] for i in short])
        for i in short:
            chunks[i] = None
        return chunks

    async def _read(self, store: Store, texts: List[str], chunks: List[Any],
                    offset: int) -> List[int]:
        """Fetch what the values hold from `offset` on into the chunks, or release them."""
        wanted = [i for i, one in enumerate(chunks) if one is not None]
        lengths = [0] * len(chunks)
        if not wanted:
            return lengths
        staging = self._staging_of(store)
        blocks: Dict[int, Any] = {}
        try:
            views: Any = chunk.views_of([chunks[i] for i in wanted], self._pool)
            if views is None:
                views = []
                for i in wanted:
                    view = chunk.view_of(chunks[i], self._pool)
                    if view is None:
                        blocks[i] = staging.take(chunks[i].get_size())
                        view = BlockView.from_buffer(blocks[i].ptr, chunks[i].get_size())
                    views.append(view)
            keys = [texts[i] for i in wanted]
            if offset == 0:
                codes = await self._call(store, "mget", keys, views)
            else:
                codes = await self._call(store, "mget_range", keys, views, [offset] * len(keys))
            self._link.judge(codes)
            if len(codes) == len(chunks) and not blocks:
                return list(codes)
            for i, code in zip(wanted, codes):
                lengths[i] = code
                if i in blocks and code > 0:
                    source = numpy.frombuffer(blocks[i], numpy.uint8)
                    chunk.bytes_of(chunks[i])[:code] = source[:code]
        except BaseException:
            _release(chunks)
            raise
        finally:
            staging.give(list(blocks.values()))
        return lengths

    def _allocate_equal(self, form: Tuple[Any, Any, Any], count: int) -> List[Any]:
        """All of them at once. Empty: one by one then. LMCache's batches evict what belongs to a
        batch of layers only, so that they are not to evict anything here."""
        allocate = getattr(self._backend, "batched_allocate", None)
        if count < 2 or allocate is None:
            return []
        shapes, dtypes, fmt = form
        chunks = allocate(shapes, dtypes, count, fmt, eviction=False, **self._allocate_options)
        return list(chunks or ())

    async def _allocate(self, forms: Sequence[Optional[Tuple[Any, Any, Any]]]) -> List[Any]:
        """Chunks of LMCache's pool. None where there is no form, or, after a while, no memory."""
        chunks: List[Any] = [None] * len(forms)
        # All but a last one are whole: have one form.
        first = next((form for form in forms if form is not None), None)
        equal = [i for i, form in enumerate(forms) if first and (form is first or form == first)]
        for i, one in zip(equal, self._allocate_equal(first, len(equal)) if first else ()):
            chunks[i] = one
        pauses = list(_ALLOCATE_PAUSES_S)
        try:
            for i, form in enumerate(forms):
                while form is not None and chunks[i] is None:
                    chunks[i] = self._backend.allocate(*form, **self._allocate_options)
                    if chunks[i] is not None or not pauses:
                        break
                    await asyncio.sleep(pauses.pop(0))
        except BaseException:
            _release(chunks)
            raise
        return chunks

    # --- put --------------------------------------------------------------------------------------

    async def put(self, key: Any, memory_obj: Any) -> None:
        await self.batched_put([key], [memory_obj])

    def support_batched_put(self) -> bool:
        return True

    async def batched_put(self, keys: Sequence[Any], memory_objs: Sequence[Any]) -> None:
        """Store them. LMCache gives up its references itself, when this has returned."""
        store = self._link.store()
        if store is None or not keys:
            return
        staging = self._staging_of(store)
        blocks: List[Any] = []
        try:
            views: Any = None if self._described else chunk.views_of(memory_objs, self._pool)
            if views is None:
                views = await self._in_thread(self._stage, staging, blocks, memory_objs)
            codes = await self._call(store, "mput", [key_of(key) for key in keys], views,
                                     if_absent=True)
            self._link.judge(codes)
        except Exception as error:
            self._failed("put", len(keys), error)
        finally:
            staging.give(blocks)

    def _stage(self, staging: Staging, blocks: List[Any],
               memory_objs: Sequence[Any]) -> List[BlockView]:
        """Views of copies, with a header if there is to be one; plain chunks of the pool need no
        copy."""
        staged: List[BlockView] = []
        for one in memory_objs:
            view = None if self._described else chunk.view_of(one, self._pool)
            if view is not None:
                staged.append(view)
                continue
            header = chunk.header_of(one) if self._described else b""
            size = len(header) + one.get_size()
            block = staging.take(size)
            blocks.append(block)
            target = numpy.frombuffer(block, numpy.uint8)
            target[:len(header)] = numpy.frombuffer(header, numpy.uint8)
            target[len(header):size] = chunk.bytes_of(one)[:one.get_size()]
            staged.append(BlockView.from_buffer(block.ptr, size))
        return staged

    # --- the rest ---------------------------------------------------------------------------------

    def remove_sync(self, key: Any) -> bool:
        store = self._link.store()
        try:
            return store is not None and bool(store.delete(key_of(key)))
        except Exception as error:
            self._failed("remove", 1, error)
            return False

    async def list(self) -> List[str]:
        """Empty: a client can not ask what the pool holds (`simmctl` can)."""
        return []

    def support_ping(self) -> bool:
        return True

    async def ping(self) -> int:
        """0, or a negative code."""
        store = self._link.store()
        return UNREACHABLE if store is None else int(await self._in_thread(store.ping))

    def stats(self) -> Dict[str, Any]:
        """Store.stats(), with those of the circuit breaker. Never waits."""
        return self._link.stats()

    def post_init(self) -> None:
        logger.info("%s: %s", self, "connected" if self._link.store() else "no daemon yet")

    async def close(self) -> None:
        """Waits for what is under way, at most its deadline; later calls are misses."""
        self._link.close()
        if self._pool is not None:
            await self._in_thread(deregister_mr, self._pool)
            self._pool = None
        self._threads.shutdown(wait=False)

    def __repr__(self) -> str:
        return f"SimmConnector({self._url or 'plugin://simm'})"

    def _staging_of(self, store: Store) -> Staging:
        if self._staging is None:
            self._staging = Staging(store)
        return self._staging

    async def _call(self, store: Store, name: str, *arguments: Any, **options: Any) -> Any:
        if self._use_sync:
            return await self._in_thread(
                functools.partial(getattr(store, name), *arguments, **options))
        return await getattr(store, name + "_async")(*arguments, **options)

    async def _in_thread(self, function: Any, *arguments: Any) -> Any:
        """Waits for its end also when cancelled: it may be reading or writing LMCache's memory."""
        future = self._loop.run_in_executor(self._threads, function, *arguments)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            while not future.done():
                try:
                    await asyncio.wait([future])
                except asyncio.CancelledError:
                    continue
            raise

    def _failed(self, operation: str, pages: int, error: Exception) -> None:
        report_failure(f"LMCache {operation}", INVALID_STATE, pages,
                       f"{type(error).__name__}: {error}")
        self._link.judge_missing([])


def _prefix(found: Sequence[bool]) -> int:
    return next((i for i, there in enumerate(found) if not there), len(found))


def _release(chunks: Sequence[Any]) -> None:
    for one in chunks:
        if one is not None:
            one.ref_count_down()
