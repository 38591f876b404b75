"""simm.vllm.SimmTier below vLLM's own TieringOffloadingManager, which is that of a checkout:
SIMM_VLLM_CHECKOUT=/path/to/vllm. The engine's half of a step is played: rows are filled where a GPU
would have copied to, and compared where it would copy from."""

import hashlib
import random
import time
import types
import uuid

import numpy
import pytest

import vllm_checkout

if not vllm_checkout.PATH:
    pytest.skip("SIMM_VLLM_CHECKOUT names no checkout", allow_module_level=True)
pytest.importorskip("torch")

from conftest import Daemon  # noqa: E402

ROW_BYTES = 16384
CONFIG = ('{"node": {"pool_bytes": "16MiB"}, "session": {"handshake_ms": 60000}, '
          '"store": {"lease_default_ms": 1}, "events": {"keys": "hashes"}}')


@pytest.fixture
def running(tmp_path, monkeypatch):
    daemon = Daemon(tmp_path, config=CONFIG).start()
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    vllm_checkout.install()
    yield daemon
    vllm_checkout.forget()
    daemon.kill()


class Engine:
    """One engine's managers, with so many rows of memory between the tiers."""

    def __init__(self, rows=16, **options):
        from vllm.v1.kv_offload import base, config
        from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
        from vllm.v1.kv_offload.tiering import manager
        from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory
        self.base = base
        name = uuid.uuid4().hex
        facts = config.OffloadingConfig(
            groups=(config.OffloadingGroupConfig(16, ("layer.0", "layer.1")),),
            worker_kv_bytes_per_block=ROW_BYTES, enable_kv_cache_events=True, extra_config={},
            engine_id=name, model=config.OffloadingModelConfig("org/model", "bfloat16"),
            cache=config.OffloadingCacheConfig(16, 1),
            parallel=config.OffloadingParallelConfig(0, 1, 1, 1, 1, 1, 0, False))
        region = SharedOffloadRegion(name, rows, None, ROW_BYTES, ROW_BYTES)
        self.primary = manager.CPUPrimaryTierOffloadingManager(rows, region, "lru", True)
        self.view = self.primary.get_kv_memoryview()
        self.rows = numpy.asarray(self.view)
        spec = types.SimpleNamespace(config=facts, _scheduler_mmap=region)
        if "simm" not in SecondaryTierFactory._registry:
            SecondaryTierFactory.register_tier("simm", "simm.vllm", "SimmTier")
        self.tier = SecondaryTierFactory.create_secondary_tier(
            {"type": "simm", "lookup_ms": 20_000, **options}, self.view, spec)
        self.manager = manager.TieringOffloadingManager(self.primary, [self.tier])
        self._requests = 0

    def key(self, text):
        return self.base.make_offload_key(hashlib.sha256(text.encode()).digest(), 0)

    def request(self):
        self._requests += 1
        context = self.base.ReqContext(f"r{self._requests}")
        self.manager.on_new_request(context)
        return context

    def end_step(self):
        self.manager.on_schedule_end(self.base.ScheduleEndContext((), ()))

    def store(self, keys, seed):
        """As when a request's chunks are offloaded; waits until the pool has them."""
        context = self.request()
        prepared = self.manager.prepare_store(keys, context)
        assert prepared is not None
        for key, row in zip(prepared.keys_to_store, prepared.store_spec.block_ids):
            self.rows[row] = bytes_of(key, seed)
        self.manager.complete_store(prepared.keys_to_store, context)
        self.manager.on_request_finished(context)
        self.settle()

    def settle(self):
        deadline = time.monotonic() + 60
        while self.manager.has_pending_work():
            assert time.monotonic() < deadline
            self.end_step()

    def look(self, keys):
        """(found, context): each key's final answer."""
        context = self.request()
        result = self.base.LookupResult
        deadline = time.monotonic() + 60
        while True:
            answers = [self.manager.lookup(key, context) for key in keys]
            self.end_step()
            if not {result.RETRY, result.HIT_PENDING} & set(answers):
                return [answer is result.HIT for answer in answers], context
            assert time.monotonic() < deadline, answers

    def load(self, keys, seed):
        """As when a request's chunks are brought to a GPU: they are compared."""
        found, context = self.look(keys)
        there = [key for key, is_there in zip(keys, found) if is_there]
        rows = self.manager.prepare_load(there, context).block_ids
        for key, row in zip(there, rows):
            assert (self.rows[row] == bytes_of(key, seed)).all()
        self.manager.complete_load(there, context)
        self.manager.on_request_finished(context)
        return found

    def told(self):
        """Of the pool's medium: (is removed, key)."""
        return [(event.removed, key) for event in self.manager.take_events()
                if event.medium == self.base.Medium.STORAGE for key in event.keys]

    def close(self):
        self.settle()
        self.tier.shutdown()
        self.rows = self.view = None
        self.primary.shutdown()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def bytes_of(key, seed):
    """A row's contents."""
    return numpy.random.default_rng([seed, *key[:8]]).integers(-128, 128, ROW_BYTES, numpy.int8)


def test_chunks_that_left_the_first_tier_come_back_from_the_pool(running):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    with Engine() as engine:
        keys = [engine.key(f"a{number}") for number in range(48)]  # three times the rows
        for first in range(0, 48, 8):
            engine.store(keys[first:first + 8], seed)
        assert engine.load(keys[:8], seed) == [True] * 8
        assert engine.load(keys[20:28], seed) == [True] * 8
        assert engine.load([engine.key("absent")], seed) == [False]
        assert engine.tier.stats()["loads"]["chunks"] >= 8


def test_another_engine_finds_them(running):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    with Engine() as one, Engine() as other:
        keys = [one.key(f"b{number}") for number in range(8)]
        one.store(keys, seed)
        assert other.load(keys, seed) == [True] * 8


def test_the_tier_is_of_storage_for_requests_that_leave_tiers_out(running):
    with Engine() as engine:
        keys = [engine.key("c")]
        engine.store(keys, 1)
        assert engine.tier.medium is engine.base.Medium.STORAGE
        assert not engine.base.TierFilter(
            (engine.base.TierMatcher(engine.base.Medium.CPU),)).allows(
                engine.tier.medium, engine.tier.locality)


def test_vllm_hears_of_stores_and_of_evictions_without_a_lookup(running):
    with Engine() as engine, Engine() as other:
        assert engine.told() == []
        engine.end_step()
        keys = [engine.key(f"d{number}") for number in range(8)]
        engine.store(keys, 1)
        told = engine.told()
        assert sorted(key for removed, key in told if not removed) == sorted(keys)
        gone, number = set(), 0
        deadline = time.monotonic() + 60
        while gone != set(keys):
            assert time.monotonic() < deadline, len(gone)
            other.store([other.key(f"pressure{number}.{part}") for part in range(8)], 2)
            number += 1
            engine.end_step()
            gone.update(key for removed, key in engine.told() if removed)


def test_a_daemon_that_dies_is_a_miss_and_no_end_of_the_engine(running):
    with Engine() as engine:
        keys = [engine.key(f"e{number}") for number in range(48)]
        for first in range(0, 48, 8):
            engine.store(keys[first:first + 8], 3)
        running.kill()
        assert engine.load(keys[:8], 3) == [False] * 8
        engine.store([engine.key("while it is away")], 3)
        running.start()
        deadline = time.monotonic() + 60
        number = 0
        while engine.tier.stats()["stores"]["chunks"] < 50:
            assert time.monotonic() < deadline
            engine.store([engine.key(f"back{number}")], 3)
            number += 1


def test_a_reset_of_the_cache_waits_for_jobs_and_the_pool_keeps_them(running):
    with Engine() as engine:
        keys = [engine.key(f"f{number}") for number in range(8)]
        engine.store(keys, 4)
        engine.manager.reset_cache()
        assert engine.load(keys, 4) == [True] * 8
