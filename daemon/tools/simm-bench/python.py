#!/usr/bin/python3
"""What Python adds to a call: mget and mput of 128 pages through simm.kv, and the same batches
through libsimm's C interface, by turns in one run. A daemon must run (SIMM_SOCKET names its socket,
and its pool should have 1 GiB):

    PYTHONPATH=build/release/python build/release/bin/simm-bench-python.py [ROUNDS]

A line a page size, in microseconds, lower deciles (on a shared machine the rest says how busy it
was): the call natively and of simm.kv; the part of the latter that is Python's, which is what the
same call takes of a closed Store: it looks at every key and view, asks nobody and makes the list of
results; the native call and that part, to the native call; and what it costs to make the call's
128 BlockViews, as engines do for each call.
"""

import argparse
import ctypes
import logging
import statistics
import sys
import time
from typing import Any, Callable, List

from simm import _native, kv

PAGES = 128
PAGE_BYTES = (4096, 65536, 256 << 10)


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


def deciles_us(rounds: int, calls: List[Callable[[], None]]) -> List[float]:
    """Of each call, all of them by turns, so that a busy moment meets all."""
    times: List[List[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, taken in zip(calls, times):
            before = time.perf_counter_ns()
            call()
            taken.append((time.perf_counter_ns() - before) / 1000)
    return [statistics.quantiles(taken, n=10)[0] for taken in times]


def measure(store: kv.Store, closed_store: kv.Store, lib: Any, client: Any, page_bytes: int,
            rounds: int) -> None:
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

    def refused(call: Any) -> Callable[[], None]:
        def run() -> None:
            if any(call(keys, views)):
                raise RuntimeError("a closed Store answers")
        return run

    python(store.mput)()
    for name, plain, ours, closed in (("mput", lib.simm_put, store.mput, closed_store.mput),
                                      ("mget", lib.simm_get, store.mget, closed_store.mget)):
        alone, with_python, part, making = deciles_us(
            rounds, [native(plain), python(ours), refused(closed), make_views])
        print(f"{name} {PAGES} x {page_bytes:>7} B  native {alone:8.1f}  simm.kv {with_python:8.1f}"
              f"  Python {part:5.1f}  ratio {1 + part / alone:6.4f}  views {making:5.1f}")
    store.mdelete(keys)
    kv.deregister_mr(mr)


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: at least 1")
    return number


def main() -> int:
    parser = argparse.ArgumentParser(description="What Python adds to a call of simm.kv.")
    parser.add_argument("rounds", nargs="?", type=positive, default=300, help="300 without")
    rounds = parser.parse_args().rounds
    closed_store = kv.Store()
    closed_store.close()
    logging.getLogger("simm").setLevel(logging.CRITICAL)  # it would say that it is closed
    with kv.Store() as store:
        lib = loaded_libsimm()
        client = ctypes.c_void_p()
        if lib.simm_connect(None, ctypes.byref(client)) != 0:
            raise RuntimeError("simm_connect failed")
        print(f"libsimm {_native.version()}, {rounds} rounds, lower deciles")
        for page_bytes in PAGE_BYTES:
            measure(store, closed_store, lib, client, page_bytes, rounds)
        lib.simm_close(client)
    return 0


if __name__ == "__main__":
    sys.exit(main())
