"""A put that answered 0 is found at once, however much of the pool is leased."""

import os

import pytest

from conftest import Daemon, fill
from simm import kv
from simm.results import NO_SPACE

PAGE = 1 << 18
TRIES = int(os.environ.get("SIMM_ROUNDS", "0")) or (
    500 * int(os.environ.get("SIMM_ROUNDS_PERCENT", "100")) // 100)
# That many tries fill them.
SIZES = [f"{size}MiB" for size in (64, 100, 256, 512, 1024)
         if TRIES * PAGE >= size << 20]


@pytest.mark.parametrize("size", SIZES)
def test_a_put_into_a_pool_full_of_leases_is_there(tmp_path, monkeypatch, size):
    config = '{"node": {"pool_bytes": "%s"}}' % size
    daemon = Daemon(tmp_path, config=config).start()
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    try:
        with kv.Store() as store:
            source, target = store.allocate(PAGE), store.allocate(PAGE)
            refused = 0
            for number in range(TRIES):
                key, value = f"{number:032x}", number % 251
                fill(source, value)
                code = store.put(key, source.view())
                assert code in (0, NO_SPACE)
                refused += code != 0
                if code != 0:
                    continue
                assert store.exists(key, lease_ms=60_000), f"put {number} answered 0"
                assert store.get(key, target.view(), lease_ms=60_000) == PAGE
                assert bytes(target) == bytes([value]) * PAGE
            assert refused < TRIES // 100
    finally:
        daemon.kill()
