#!/usr/bin/python3
"""What Python costs in a 128-page get or set of a host pool, by hand, with a daemon that runs:

    SIMM_SOCKET=... SIMM_SGLANG_CHECKOUT=/path/to/sglang PYTHONPATH=build/release/python \\
      /usr/bin/python3 tests/python/hicache/cost.py

In microseconds, lower deciles of turns that meet both backends alike: HiCacheSimm, and with a
checkout SGLang's own SiMM backend on the same pools. "whole": the call, with pages of some KiB.
"Python": what the same call takes when its Store is closed: everything but the daemon's work and
the bytes. "SGLang": the pool's get_page_buffer_meta(), which SGLang's own backend calls. "away": a
call without a daemon."""

import logging
import os
import sys
import time

from harness import CHECKOUT, PoolName, backend, config, fill, hashes, indices, pool, transfer

PAGES, ROUNDS = 128, 300


def deciles_us(calls: dict) -> dict:
    times = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            before = time.perf_counter_ns()
            call()
            times[name].append((time.perf_counter_ns() - before) / 1000)
    return {name: sorted(taken)[len(taken) // 10] for name, taken in times.items()}


def both(host, is_mla: bool, socket: str) -> dict:
    made = {"HiCacheSimm": backend(socket, host, is_mla_model=is_mla)}
    if CHECKOUT:
        from sglang.srt.mem_cache.storage.simm.hicache_simm import HiCacheSiMM
        made["SGLang's own"] = HiCacheSiMM(
            config(is_mla_model=is_mla, extra={"manager_address": "127.0.0.1:30001"}), host)
        made["SGLang's own"].register_mem_pool_host(host)
    return made


def main() -> None:
    logging.disable(logging.CRITICAL)
    socket = os.environ["SIMM_SOCKET"]
    for kind in ("mla", "mha"):
        host = pool(kind, pages=2 * PAGES + 1)
        keys = hashes(PAGES, f"cost{time.time()}")
        places, calls = indices(range(PAGES), host), {}
        fill(host, range(PAGES), 1)
        backends = both(host, kind == "mla", socket)
        for name, one in backends.items():
            assert all(one.batch_set_v1(keys, places)) and one.batch_exists(keys) == PAGES
            calls[name, "get"] = lambda one=one: one.batch_get_v1(keys, places)
            calls[name, "set again"] = lambda one=one: one.batch_set_v1(keys, places)
            calls[name, "exists"] = lambda one=one: one.batch_exists(keys)
        whole = deciles_us(calls)
        for one in backends.values():
            ours = hasattr(one, "_link")
            if ours:
                one._link._breaker.trip = lambda why: None  # or it would answer by itself
            (one._link.store if ours else one.store).close()
        cost = deciles_us(calls)
        sglang = deciles_us({"meta": lambda: host.get_page_buffer_meta(places)})["meta"]
        for (name, call) in calls:
            share = f", SGLang {sglang:4.0f}" if call != "exists" else ""
            print(f"{kind} {name:13} {call:10} whole {whole[name, call]:5.0f}, "
                  f"Python {cost[name, call]:4.0f}{share}")
    host = pool("mla")
    away = backend("/nowhere/simm.sock", host, is_mla_model=True)
    side = [transfer(PoolName.MAMBA, keys, None)]
    print({name: round(taken, 1) for name, taken in deciles_us({
        "away get": lambda: away.batch_get_v1(keys[:8], indices(range(8), host)),
        "away exists": lambda: away.batch_exists(keys),
        "away exists_v2": lambda: away.batch_exists_v2(keys, side)}).items()})
    away.close()


if __name__ == "__main__":
    sys.exit(main())
