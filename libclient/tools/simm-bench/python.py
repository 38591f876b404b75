#!/usr/bin/python3
"""What Python adds to a call: mget and mput of 128 pages through simm.kv, and the same batches
through libsimm's C interface, by turns in one run. A daemon must run (SIMM_SOCKET names its socket,
and its pool should have 1 GiB):

    PYTHONPATH=build/release/python build/release/bin/simm-bench-python.py [ROUNDS]

A line a page size: median microseconds of a call, native and of simm.kv; what simm.kv adds; the
ratio; and what it costs to make the call's 128 BlockViews, as engines do for each call.
"""

import ctypes
import statistics
import sys
import time
from typing import Any, Callable, List

from simm import _native, kv

PAGES = 128
PAGE_BYTES = (4096, 65536, 512 << 10)


class Item(ctypes.Structure):  # simm_item of simm/simm.h
    _fields_ = [("key", ctypes.c_char_p), ("key_bytes", ctypes.c_size_t),
                ("region", ctypes.c_void_p), ("address", ctypes.c_void_p),
                ("offset", ctypes.c_uint64), ("length", ctypes.c_uint64),
                ("object_offset", ctypes.c_uint64), ("depth", ctypes.c_uint32)]


class Result(ctypes.Structure):  # simm_result
    _fields_ = [("status", ctypes.c_int32), ("reserved", ctypes.c_uint32),
                ("bytes", ctypes.c_uint64)]


class CallOptions(ctypes.Structure):  # simm_call_options
    _fields_ = [("struct_size", ctypes.c_size_t), ("name_space", ctypes.c_void_p),
                ("timeout_ms", ctypes.c_uint32), ("replace", ctypes.c_uint32),
                ("ttl_ms", ctypes.c_uint32), ("lease_ms", ctypes.c_uint32),
                ("flags", ctypes.c_uint32)]


def loaded_libsimm() -> Any:
    """The one that simm.kv has loaded: both ways share the process's session."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        path = next(line.split()[-1] for line in maps if "libsimm.so" in line)
    return ctypes.CDLL(path)


def medians_us(rounds: int, calls: List[Callable[[], None]]) -> List[float]:
    """Of each call, all of them by turns, so that a busy moment meets all."""
    times: List[List[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, taken in zip(calls, times):
            before = time.perf_counter_ns()
            call()
            taken.append((time.perf_counter_ns() - before) / 1000)
    return [statistics.median(taken) for taken in times]


def measure(store: kv.Store, lib: Any, client: Any, page_bytes: int, rounds: int) -> None:
    pool = store.allocate(PAGES * page_bytes)
    mr = kv.register_mr(pool)
    keys = [f"benchmark-{page_bytes}-{i}" for i in range(PAGES)]
    views = [kv.BlockView.from_buffer(pool.ptr + i * page_bytes, page_bytes, mr)
             for i in range(PAGES)]
    names = [key.encode() for key in keys]
    items = (Item * PAGES)(*[Item(name, len(name), None, view.ptr, 0, page_bytes, 0, 0)
                             for name, view in zip(names, views)])
    results = (Result * PAGES)()
    options = CallOptions(ctypes.sizeof(CallOptions), None, 60_000, 1, 0, 0, 0)

    def native(call: Any) -> Callable[[], None]:
        def run() -> None:
            if call(client, items, PAGES, results, ctypes.byref(options)) != 0 or \
                    any(result.status for result in (results[0], results[PAGES - 1])):
                raise RuntimeError("the native call failed")
        return run

    def python(call: Any) -> Callable[[], None]:
        def run() -> None:
            answers = call(keys, views, timeout_ms=60_000)
            if not answers[0] or not answers[-1]:
                raise RuntimeError(f"the call failed: {answers[0]}")
        return run

    def make_views() -> None:
        for i in range(PAGES):
            kv.BlockView.from_buffer(pool.ptr + i * page_bytes, page_bytes, mr)

    python(store.mput)()
    for name, plain, ours in (("mput", lib.simm_put, store.mput),
                              ("mget", lib.simm_get, store.mget)):
        alone, with_python, making = medians_us(
            rounds, [native(plain), python(ours), make_views])
        print(f"{name} {PAGES} x {page_bytes:>7} B  native {alone:8.0f} us  simm.kv "
              f"{with_python:8.0f} us  adds {with_python - alone:5.0f} us  ratio "
              f"{with_python / alone:5.3f}  views {making:4.0f} us")
    store.mdelete(keys)
    kv.deregister_mr(mr)


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    with kv.Store() as store:
        lib = loaded_libsimm()
        client = ctypes.c_void_p()
        if lib.simm_connect(None, ctypes.byref(client)) != 0:
            raise RuntimeError("simm_connect failed")
        print(f"libsimm {_native.version()}, {rounds} rounds, medians")
        for page_bytes in PAGE_BYTES:
            measure(store, lib, client, page_bytes, rounds)
        lib.simm_close(client)
    return 0


if __name__ == "__main__":
    sys.exit(main())
