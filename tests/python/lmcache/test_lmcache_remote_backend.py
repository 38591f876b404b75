"""LMCache's own RemoteBackend, from a checkout, with simm.lmcache below it and a real daemon: it
serializes, counts references, waits for its event loop and closes as it does inside vLLM."""

import itertools
import signal
import threading
import time

import pytest

pytest.importorskip("torch")

import lmcache_checkout as checkout
from lmcache_lab import CHUNK_BYTES, DTYPE, OLD, REAL, TOKEN_BYTES, Lab, url_of

if not REAL:
    pytest.skip("SIMM_LMCACHE_CHECKOUT names no checkout", allow_module_level=True)

DIGESTS = itertools.count(0x9000)


class Engine:
    """What LMCache's storage manager does with the backend."""

    def __init__(self, lab, plugin):
        self.lab = lab
        self.backend = checkout.remote_backend_of(lab.loop, lab.backend, lab.config, lab.metadata,
                                                  plugin)

    def connector(self):
        found = self.backend.connection
        return getattr(found, "_connector", found)

    def put(self, keys, chunks):
        """Returns when the backend has written them; our references are given up."""
        if OLD:
            self.backend.batched_submit_put_task(keys, chunks)
            self.lab.release(chunks)
            while any(self.backend.exists_in_put_tasks(key) for key in keys):
                self.lab.run(turn())
            return
        done, left = threading.Event(), set(keys)

        def written(key):
            left.discard(key)
            if not left:
                done.set()

        self.backend.batched_submit_put_task(keys, chunks, on_complete_callback=written)
        self.lab.release(chunks)
        assert done.wait(60), "no completion"

    def keys(self, count):
        return self.lab.keys(*itertools.islice(DIGESTS, count))


async def turn():
    """Of the event loop."""


@pytest.fixture(params=["url-plain", "url-described", "plugin-plain"])
def engine(request, own_daemon):
    kind, _, meta = request.param.partition("-")
    if OLD and request.param != "url-described":
        pytest.skip("LMCache of 2025 has external:// only, and describes its chunks")
    with Lab(url_of(own_daemon, kind), save_chunk_meta=meta == "described") as lab:
        made = Engine(lab, "simm" if kind == "plugin" else None)
        made.daemon = own_daemon
        assert type(made.connector()).__name__ == "SimmConnector"
        assert made.connector()._described == (meta == "described")
        yield made
        made.backend.close()
        assert lab.pool_used() == 0, "a chunk was not given back"


def test_batches_come_back_with_their_holes(engine):
    lab, backend = engine.lab, engine.backend
    keys = engine.keys(6)
    assert not backend.contains(keys[0]) and backend.get_blocking(keys[0]) is None
    engine.put([keys[i] for i in (0, 1, 2, 4)], [lab.chunk(i + 1) for i in (0, 1, 2, 4)])
    assert [backend.contains(key) for key in keys] == [True, True, True, False, True, False]
    if not OLD:
        assert backend.batched_contains(keys) == 3
    assert lab.take(backend.batched_get_blocking(keys)) == [
        (CHUNK_BYTES, i + 1) if i in (0, 1, 2, 4) else None for i in range(6)]
    if not OLD:
        assert lab.run(backend.batched_async_contains("id", keys)) == 3
        assert len(lab.take(lab.run(backend.batched_get_non_blocking("id", keys)))) == 3


def test_one_chunk_a_part_of_one_and_removal(engine):
    lab, backend = engine.lab, engine.backend
    whole, part = engine.keys(2)
    for key, chunk in ((whole, lab.chunk(7)), (part, lab.chunk(8, tokens=5))):
        future = backend.submit_put_task(key, chunk)
        future.result(60)
        lab.release([chunk])
    assert lab.take([backend.get_blocking(whole), backend.get_blocking(part)]) == [
        (CHUNK_BYTES, 7), (5 * TOKEN_BYTES, 8)]
    if not OLD:
        assert backend.remove(whole) is True and not backend.contains(whole)
    assert backend.contains(part)


def test_another_worker_and_another_model_have_other_chunks(engine):
    lab, backend = engine.lab, engine.backend
    digest = next(DIGESTS)
    keys = [checkout.key_of(model, worker, digest, DTYPE)
            for model in ("org/model", "org/other") for worker in (0, 1)]
    engine.put(keys, [lab.chunk(i + 1) for i in range(4)])
    assert lab.take(backend.batched_get_blocking(keys)) == [
        (CHUNK_BYTES, i + 1) for i in range(4)]


def test_a_daemon_that_dies_is_a_miss_and_comes_back(engine):
    lab, backend = engine.lab, engine.backend
    keys = engine.keys(8)
    engine.put(keys, [lab.chunk(1) for _ in keys])
    assert all(backend.contains(key) for key in keys)
    engine.daemon.kill(signal.SIGKILL)
    assert backend.batched_get_blocking(keys) == [None] * 8
    assert not backend.contains(keys[0])
    engine.put(engine.keys(2), [lab.chunk(1), lab.chunk(1)])
    engine.daemon.start()
    deadline = time.monotonic() + 60
    while True:
        assert time.monotonic() < deadline
        key, = engine.keys(1)
        engine.put([key], [lab.chunk(9)])
        if lab.take([backend.get_blocking(key)]) == [(CHUNK_BYTES, 9)]:
            break
    assert lab.pool_used() == 0
