#!/usr/bin/python3
"""What Python costs in calls of 128 chunks of LMCache, by hand, with a daemon that runs:

    SIMM_SOCKET=... SIMM_LMCACHE_CHECKOUT=/path/to/lmcache PYTHONPATH=build/release/python \\
      /usr/bin/python3 tests/python/lmcache/cost.py

In microseconds, lower deciles. "whole": the call in LMCache's event loop, with small chunks.
"ours": what it takes when its Store is closed and its answers are there at once (everything but the
daemon's work, the bytes and the loop's turn), less "LMCache": its names of the keys, and its memory
taken."""

import asyncio
import logging
import time

from lmcache_lab import CHUNK_BYTES, Lab

from simm.results import Code, Length

CHUNKS, ROUNDS = 128, 500


def decile(times):
    return sorted(times)[len(times) // 10] / 1000


async def measure(calls):
    """{name: us} of the calls, each with what is to be done after it, in turns."""
    times = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, (call, after) in calls.items():
            before = time.perf_counter_ns()
            result = call()
            if asyncio.iscoroutine(result):
                result = await result
            times[name].append(time.perf_counter_ns() - before)
            after(result)
    return {name: decile(taken) for name, taken in times.items()}


def answer_at_once(store):
    """The native calls are made, and refused: then the answers of a daemon that has all."""
    store.close()
    answers = {"mget": [Length(CHUNK_BYTES)] * CHUNKS, "mput": [Code(0)] * CHUNKS}

    def answered(name):
        native = getattr(store, name)

        async def call(*arguments, **options):
            native(*arguments, **options)
            return answers[name]
        return call

    for name in answers:
        setattr(store, name + "_async", answered(name))
    exists = store.mexists

    def all_there(keys):
        exists(keys)
        return [True] * CHUNKS
    store.mexists = all_there


def main():
    logging.disable(logging.CRITICAL)
    with Lab("simm://127.0.0.1:30001/", pool_bytes=1024 * CHUNK_BYTES,
             save_chunk_meta=False) as lab:
        connector, backend = lab.connector, lab.backend
        keys = lab.keys(*(time.time_ns() + i for i in range(CHUNKS)))
        chunks = [lab.chunk(1) for _ in keys]
        lab.run(connector.batched_put(keys, chunks))
        assert connector.batched_contains(keys) == CHUNKS

        def nothing(_):
            pass

        form = (connector.meta_shapes, connector.meta_dtypes)
        calls = {
            "batched_get": (lambda: connector.batched_get(keys), lab.release),
            "batched_put": (lambda: connector.batched_put(keys, chunks), nothing),
            "batched_contains": (lambda: connector.batched_contains(keys), nothing)}
        whole = lab.run(measure(calls), 600)
        answer_at_once(connector._link.store())
        python = lab.run(measure({**calls, "names": (
            lambda: [key.to_string() for key in keys], nothing), "memory": (
                lambda: backend.batched_allocate(*form, CHUNKS, connector.meta_fmt,
                                                 eviction=False, busy_loop=False),
                lab.release)}), 600)
        for name in calls:
            theirs = python["names"] + (python["memory"] if name == "batched_get" else 0)
            print(f"{name:17} whole {whole[name]:5.0f}, ours {python[name] - theirs:4.0f}, "
                  f"LMCache {theirs:4.0f}")
        lab.release(chunks)


if __name__ == "__main__":
    main()
