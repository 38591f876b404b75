"""Store: a connection to the node's daemon, with the data calls."""

import asyncio
import functools
import math
import operator
import os
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional, Sequence, Type, Union

from simm import _native
from simm.cuda import register
from simm.events import EventChannel, OnPage, ToldPages
from simm.key_follower import KeyFollower
from simm.log import logger, report_failure, warn_taken_back
from simm.profile import ProfiledChannel, profiled
from simm.results import (INVALID_ARGUMENT, INVALID_STATE, NOT_FOUND, UNREACHABLE, Code,
                          Length)
from simm.settings import Settings
from simm.slab import SlabAllocator
from simm.tensors import itemsize, shape_of, shaped

_PUT = _native.Operation.put
_GET = _native.Operation.get
_EXISTS = _native.Operation.exists
_DELETE = _native.Operation.delete
_LENGTH = _native.Operation.length
_PIN = _native.Operation.pin
_UNPIN = _native.Operation.unpin

# What put() copies into memory that the daemon shares.
Bytes = Union[bytes, bytearray, memoryview]
_BYTES = (bytes, bytearray, memoryview)

# A value that get() returns may be replaced by one of another size meanwhile: so often in a row.
_READS_MAX = 8
# How long a call looks whether a daemon that takes no new session lives.
_LIFE_SIGN_MS = 100

# Where the pages of a list are.
Pages = Union[Sequence[_native.BlockView], _native.Views]

# Engines put such a key at each start and never delete it.
_WARM_UP_PREFIXES = ("sglang_simm_warmup_key", "flexkv_simm_warmup_key")
_WARM_UP_TTL_MS = 60_000


def _ttl_ms_of(key: str) -> int:
    return _WARM_UP_TTL_MS if isinstance(key, str) and key.startswith(_WARM_UP_PREFIXES) else 0


def _connect(settings: Settings, sync_timeout_ms: int) -> _native.Connection:
    return _native.Connection(
        socket=settings.socket,
        manager=settings.manager,
        name_space=settings.name_space,
        exact_size=settings.exact_size,
        immutable=settings.immutable,
        sync_timeout_ms=sync_timeout_ms,
        async_timeout_ms=settings.async_timeout_ms,
        floor_bytes_per_s=settings.floor_bytes_per_s,
        report=report_failure,
        warn_taken_back=warn_taken_back,
    )


class Store:
    """A connection to the daemon of this node.

    Arguments are ignored, with a warning; what counts is set_flag(), a JSON file and the
    environment: see simm/settings.py. RuntimeError says what is wrong, and the remedy, when there
    is no daemon, it is another cluster's or speaks another version. Many Stores share one session
    of the process.

    Keys: str of 1 to 1,024 UTF-8 bytes. Values: 1 byte to 1 GiB. Results of data calls are ints:
    0 or the bytes got, or a negative code; their truth value says whether it worked. Data calls
    raise for wrong types and numbers out of range only. Each kind of failure is logged once
    (logger "simm").
    A call ends by timeout_ms plus 100 ms, beside a stopped daemon plus 200 ms. Without timeout_ms
    pages are given up when nothing has moved for clnt_sync_req_timeout_ms (1,000; asynchronous
    3,000) plus the call's bytes at 0.4 GB/s, and after ten times that at the latest. The
    interpreter's lock is not held meanwhile.
    Thread: any, concurrently; also after fork, where the child gets a session of its own.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            given = ", ".join([repr(value) for value in args] + sorted(kwargs))
            logger.warning("Store(%s): arguments have no effect: use set_flag(), the JSON file or "
                           "the environment (README of the package, Connecting)", given)
        self._open(Settings.read())

    @classmethod
    def with_settings(cls, settings: Settings) -> "Store":
        """A Store that reads neither flags nor environment. RuntimeError as from Store()."""
        store = cls.__new__(cls)
        store._open(settings)
        return store

    def _open(self, settings: Settings) -> None:
        self._settings = settings
        self._connection = _connect(settings, settings.sync_timeout_ms)
        self._run: Callable[..., List[Any]] = self._connection.run
        if settings.enable_profile:
            self._run = profiled(self._run)
        self._slabs = SlabAllocator(self._connection.allocate)
        self._waiting_slabs = SlabAllocator(
            lambda size: self._connection.allocate(size, wait_if_stopped=True))
        self._channels: "weakref.WeakKeyDictionary[Any, EventChannel]" = (
            weakref.WeakKeyDictionary())

    def _lend_gpu_memory(self, size: int, device: Union[int, str],
                         notice_ms: int) -> _native.GpuLease:
        """What simm.gpu.lend() calls. The lease keeps the session open, also without this Store."""
        return self._connection.lend_gpu(str(device), size, notice_ms)

    # --- memory ---------------------------------------------------------------------------------

    def allocate(self, size: int, *, wait_if_stopped: bool = False) -> _native.Block:
        """`size` bytes of zeroed memory that the daemon shares: no copy on the way.

        wait_if_stopped: see register_mr().
        ValueError: less than 1 byte. RuntimeError: no memory, closed, daemon away.
        """
        if not hasattr(size, "__index__"):
            raise TypeError(f"size = {size!r}: give a whole number of bytes")
        size = operator.index(size)
        if size < 1:
            raise ValueError(f"size = {size}: at least 1 byte")
        return (self._waiting_slabs if wait_if_stopped else self._slabs).block(size)

    def alloc_tensor(self, shape: Union[int, Sequence[int]], dtype: Any = None, *,
                     huge_pages: bool = False, numa_node: int = -1, prefault: bool = True,
                     cuda: bool = False, wait_if_stopped: bool = False) -> Any:
        """A zeroed tensor in registered memory that the daemon shares: views of it need no `mr`.

        shape: of the tensor, ints or one int; dtype: torch's or numpy's (default uint8). With a
        numpy dtype, and without torch, a numpy array. huge_pages: when there are enough.
        numa_node: bind to it.
        prefault: touch every page now. cuda: registered with CUDA (pinned), for the copies of a
        GPU. wait_if_stopped: see register_mr(); with cuda it is always so, since the GPU would go
        on using pages that this process has exchanged. The tensor keeps the memory alive.
        ValueError: no element, no such node. RuntimeError: no memory, closed, daemon away, no GPU.
        """
        shape = shape_of(shape)
        size = math.prod(shape) * (1 if dtype is None else itemsize(dtype))
        if size < 1:
            raise ValueError(f"shape = {shape}: at least one element")
        if not isinstance(numa_node, int) or numa_node < -1:
            raise ValueError(f"numa_node = {numa_node!r}: a node from 0 on, or -1 for any")
        slab = self._connection.allocate(size, huge_pages=huge_pages, numa_node=numa_node,
                                         prefault=prefault,
                                         wait_if_stopped=wait_if_stopped or cuda)
        block = slab.block(0, size)
        return shaped(register(block) if cuda else block, shape, dtype)

    # --- one page -------------------------------------------------------------------------------

    def put(self, key: str, view: Union[_native.BlockView, Bytes], *, if_absent: bool = False,
            ttl_ms: int = 0, timeout_ms: int = 0) -> Code:
        """Store the view's bytes. 0, or a negative code. An existing key is replaced atomically.

        view: a BlockView, whose memory the daemon reads; or bytes, bytearray, memoryview, which
        are copied once more.
        if_absent: an existing key is left alone, which is 0 as well. ttl_ms: life of the value;
        0: until it is evicted.
        """
        if isinstance(view, _BYTES):
            try:
                view = self._copied(view)
            except RuntimeError as error:
                code = INVALID_STATE if self._connection.closed else UNREACHABLE
                report_failure("put", code, 1, str(error))
                return Code(code)
        return self._run(_PUT, (key,), (view,), if_absent=if_absent,
                         ttl_ms=ttl_ms or _ttl_ms_of(key), timeout_ms=timeout_ms)[0]

    def _copied(self, data: Bytes) -> _native.BlockView:
        flat = memoryview(data).cast("B")
        if not flat.nbytes:
            raise ValueError("view = b'': a value is 1 byte to 1 GiB")
        block: Any = self.allocate(flat.nbytes)
        memoryview(block)[:] = flat
        view: _native.BlockView = block.view()
        return view

    def get_bytes(self, key: str, *, lease_ms: int = 0, timeout_ms: int = 0) -> Optional[bytes]:
        """A value, whatever its length, or None: absent, or the daemon can not be asked (logged).

        It asks for the length, then fetches, and copies once more: for small values. timeout_ms is
        that of each of the two.
        """
        for _ in range(_READS_MAX):
            length = self.length(key, lease_ms=lease_ms, timeout_ms=timeout_ms)
            if not length:
                return None
            try:
                block: Any = self.allocate(length)
            except RuntimeError as error:
                report_failure("get_bytes", UNREACHABLE, 1, str(error))
                return None
            got = self.get(key, block.view(), lease_ms=lease_ms, timeout_ms=timeout_ms)
            if got:
                return bytes(memoryview(block)[:got])
            if got not in (INVALID_ARGUMENT, NOT_FOUND):
                return None
        return None

    def length(self, key: str, *, lease_ms: int = 0, timeout_ms: int = 0) -> Length:
        """The length of a value in bytes, or a negative code; -4003: absent. As a look for the
        key, it counts as exists()."""
        return self._run(_LENGTH, (key,), lease_ms=lease_ms, timeout_ms=timeout_ms)[0]

    def mlength(self, keys: Sequence[str], *, lease_ms: int = 0,
                timeout_ms: int = 0) -> List[Length]:
        """length() of each key."""
        return self._run(_LENGTH, keys, lease_ms=lease_ms, timeout_ms=timeout_ms)

    def get(self, key: str, view: _native.BlockView, *, lease_ms: int = 0,
            timeout_ms: int = 0) -> Length:
        """Fetch a value into the view. Its length in bytes, or a negative code; -4003: absent.

        Nothing behind the value's length is written; a value longer than the view is -1000. With
        exact size (settings) any other size than the view's is -4003.
        lease_ms: keep it at least that long; 0: the daemon's default.
        """
        return self._run(_GET, (key,), (view,), lease_ms=lease_ms,
                         timeout_ms=timeout_ms)[0]

    def get_range(self, key: str, view: _native.BlockView, offset: int, *, lease_ms: int = 0,
                  timeout_ms: int = 0) -> Length:
        """Fetch what the view holds of a value, from byte `offset` on. Bytes, or a negative code;
        -1000: the value ends before `offset`."""
        return self.mget_range([key], [view], [offset], lease_ms=lease_ms,
                               timeout_ms=timeout_ms)[0]

    def exists(self, key: str, *, lease_ms: int = 0, timeout_ms: int = 0) -> bool:
        """Is the key there? False also when the daemon can not be asked."""
        return self._run(_EXISTS, (key,), lease_ms=lease_ms, timeout_ms=timeout_ms)[0]

    def delete(self, key: str, *, timeout_ms: int = 0) -> Code:
        """0, or a negative code; -4003: it was not there."""
        return self._run(_DELETE, (key,), timeout_ms=timeout_ms)[0]

    # --- lists: one native call, carried out in parallel ------------------------------------------

    def mput(self, keys: Sequence[str], views: Pages, *, if_absent: bool = False,
             ttl_ms: int = 0, timeout_ms: int = 0) -> List[Code]:
        """put() of each key; lists of different length give -1000 for each key."""
        return self._run(_PUT, keys, views, if_absent=if_absent, ttl_ms=ttl_ms,
                         timeout_ms=timeout_ms)

    def mget(self, keys: Sequence[str], views: Pages, *, lease_ms: int = 0, timeout_ms: int = 0,
             shared: bool = False) -> List[Length]:
        """get() of each key; lists of different length give -1000 for each key.

        shared: other processes of this node read the same keys: one fetch serves them all.
        """
        return self._run(_GET, keys, views, lease_ms=lease_ms, timeout_ms=timeout_ms,
                         shared=shared)

    def mget_range(self, keys: Sequence[str], views: Pages,
                   offsets: Sequence[int], *, lease_ms: int = 0,
                   timeout_ms: int = 0) -> List[Length]:
        """get_range() of each key; `offsets` in bytes."""
        return self._run(_GET, keys, views, offsets, lease_ms=lease_ms,
                         timeout_ms=timeout_ms, ranged=True)

    def mexists(self, keys: Sequence[str], *, lease_ms: int = 0,
                timeout_ms: int = 0) -> List[bool]:
        """exists() of each key."""
        return self._run(_EXISTS, keys, lease_ms=lease_ms, timeout_ms=timeout_ms)

    def mdelete(self, keys: Sequence[str], *, timeout_ms: int = 0) -> List[Code]:
        """delete() of each key."""
        return self._run(_DELETE, keys, timeout_ms=timeout_ms)

    def lease(self, keys: Sequence[str], lease_ms: int) -> List[bool]:
        """Keep what is there for at least lease_ms (the daemon has a limit, 60 s by default):
        which of the keys are there. Until then only delete, replace, the death of their daemon or
        an exhausted lease budget takes them away."""
        return self.mexists(keys, lease_ms=lease_ms)

    def pin(self, keys: Sequence[str], *, timeout_ms: int = 0) -> List[Code]:
        """Keep what is there, and what was placed together with it, from eviction until unpin(),
        delete() or the end of its daemon: 0, or -4003: not there, -4006: the tenant's budget for
        pins is used up."""
        return self._connection.run(_PIN, keys, timeout_ms=timeout_ms)

    def unpin(self, keys: Sequence[str], *, timeout_ms: int = 0) -> List[Code]:
        """The end of pin(): 0 also for what is not pinned, -4003: not there."""
        return self._connection.run(_UNPIN, keys, timeout_ms=timeout_ms)

    # --- asynchronous: the same results, in the running event loop --------------------------------

    async def put_async(self, key: str, view: _native.BlockView, *, if_absent: bool = False,
                        ttl_ms: int = 0, timeout_ms: int = 0) -> Code:
        """put() as a coroutine. Cancelling waits for its end: then the memory is free again."""
        return (await self._events().call(_PUT, (key,), (view,), if_absent=if_absent,
                                          ttl_ms=ttl_ms or _ttl_ms_of(key),
                                          timeout_ms=timeout_ms))[0]

    async def get_async(self, key: str, view: _native.BlockView, *, lease_ms: int = 0,
                        timeout_ms: int = 0) -> Length:
        """get() as a coroutine. Cancelling waits for its end: then the memory is free again."""
        return (await self._events().call(_GET, (key,), (view,), lease_ms=lease_ms,
                                          timeout_ms=timeout_ms))[0]

    async def exists_async(self, key: str, *, lease_ms: int = 0, timeout_ms: int = 0) -> bool:
        """exists() as a coroutine."""
        return (await self._events().call(_EXISTS, (key,), lease_ms=lease_ms,
                                          timeout_ms=timeout_ms))[0]

    async def delete_async(self, key: str, *, timeout_ms: int = 0) -> Code:
        """delete() as a coroutine."""
        return (await self._events().call(_DELETE, (key,), timeout_ms=timeout_ms))[0]

    async def mput_async(self, keys: Sequence[str], views: Pages, *,
                         if_absent: bool = False, ttl_ms: int = 0, timeout_ms: int = 0,
                         on_page: Optional[OnPage] = None) -> List[Code]:
        """mput() as a coroutine. on_page: see mget_async()."""
        return await self._events().call(_PUT, keys, views, if_absent=if_absent, ttl_ms=ttl_ms,
                                         timeout_ms=timeout_ms, on_page=on_page)

    async def mget_async(self, keys: Sequence[str], views: Pages, *,
                         lease_ms: int = 0, timeout_ms: int = 0,
                         on_page: Optional[OnPage] = None) -> List[Length]:
        """mget() as a coroutine.

        on_page(index, result): called for each page as it ends, once, in the loop's thread, in any
        order, before the call returns. `index`: in the lists; `result`: as in the returned list.
        The page's memory is free then. Each page goes to the daemon by itself, which costs one to
        three microseconds more for each. What it raises (the first error) comes out of the call
        when all pages have ended. A page of more than 8 MiB is told with the others of its call.
        """
        return await self._events().call(_GET, keys, views, lease_ms=lease_ms,
                                         timeout_ms=timeout_ms, on_page=on_page)

    async def mget_range_async(self, keys: Sequence[str], views: Pages,
                               offsets: Sequence[int], *, lease_ms: int = 0,
                               timeout_ms: int = 0) -> List[Length]:
        """mget_range() as a coroutine."""
        return await self._events().call(_GET, keys, views, offsets, lease_ms=lease_ms,
                                         timeout_ms=timeout_ms, ranged=True)

    async def mexists_async(self, keys: Sequence[str], *, lease_ms: int = 0,
                            timeout_ms: int = 0) -> List[bool]:
        """mexists() as a coroutine."""
        return await self._events().call(_EXISTS, keys, lease_ms=lease_ms, timeout_ms=timeout_ms)

    async def mdelete_async(self, keys: Sequence[str], *, timeout_ms: int = 0) -> List[Code]:
        """mdelete() as a coroutine."""
        return await self._events().call(_DELETE, keys, timeout_ms=timeout_ms)

    def open_channel(self) -> _native.Channel:
        """For a loop of another kind than asyncio's: batches are started and drained there, by one
        thread at a time. RuntimeError: closed, or no daemon."""
        return self._connection.open_channel()

    def follow_keys(self, present: bool = False) -> KeyFollower:
        """What becomes of the keys of this Store's namespace, in this node's part of the pool.
        present: the keys that are there are told first. Asks nothing yet: its read() does.
        RuntimeError: closed."""
        return KeyFollower(self._connection.follow_keys(present))

    def _events(self) -> Any:
        loop = asyncio.get_running_loop()
        channel = self._channels.get(loop)
        if channel is None:
            channel = None if self._connection.closed else self._new_events(loop)
            if channel is None:
                return _WithoutChannel(self._connection)
            self._channels[loop] = channel
        return ProfiledChannel(channel.call) if self._settings.enable_profile else channel

    def _new_events(self, loop: asyncio.AbstractEventLoop) -> Optional[EventChannel]:
        """None: no daemon at the moment."""
        connect = functools.partial(_connect, self._settings, self._settings.async_timeout_ms)
        try:
            return EventChannel(self._connection, loop, connect)
        except RuntimeError:
            # A daemon that has just died refuses before its session is known to be over.
            if not self._connection.attached or self._connection.ping(_LIFE_SIGN_MS) != 0:
                return None
        # The one that answers may have been started after the one before had refused.
        return EventChannel(self._connection, loop, connect)

    # --- about ------------------------------------------------------------------------------------

    def stats(self) -> Dict[str, Any]:
        """Where it is connected to, and the counters of the process's session. Never waits."""
        facts = self._connection.facts()
        facts["manager"] = self._settings.manager
        facts["namespace"] = self._settings.name_space
        facts["exact_size"] = self._settings.exact_size
        facts["immutable"] = self._settings.immutable
        facts["pid"] = os.getpid()
        return facts

    @property
    def attached(self) -> bool:
        """Is there a session with the daemon now? Costs nothing."""
        return self._connection.attached

    def ping(self, timeout_ms: int = 0) -> Code:
        """A round trip that does nothing: 0, or a negative code."""
        return Code(self._connection.ping(timeout_ms))

    def close(self) -> None:
        """End it: later data calls answer -1004. Waits for asynchronous calls (in their loop's
        thread: else the loop does). Memory stays as long as somebody holds it. Safe twice."""
        channels, self._channels = self._channels, weakref.WeakKeyDictionary()
        for loop, channel in list(channels.items()):
            channel.close(loop)
        self._slabs.close()
        self._waiting_slabs.close()
        self._connection.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


class _WithoutChannel:
    """What asynchronous calls go to when the Store is closed, or its daemon away before the loop's
    first call: the answers of the synchronous ones, which come at once."""

    def __init__(self, connection: _native.Connection) -> None:
        self._connection = connection

    async def call(self, operation: _native.Operation, *arguments: Any,
                   on_page: Optional[OnPage] = None, **options: Any) -> List[Any]:
        results = self._connection.run(operation, *arguments, **options)
        if on_page is None:
            return results
        pages = ToldPages(on_page)
        return pages.ended(pages.tell_all(results))
