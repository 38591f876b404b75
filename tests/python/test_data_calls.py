"""Names, results and truth values of the data calls of simm.kv."""

import asyncio
import time

import pytest

from conftest import Daemon, fill
from simm import kv
from simm.results import INVALID_ARGUMENT, NOT_FOUND, Code, Length


def test_put_get_exists_delete(store, key):
    source, target = fill(store.allocate(5000), 7), store.allocate(5000)
    put = store.put(key, source.view())
    assert put == 0 and put and isinstance(put, int)
    assert store.exists(key) is True
    got = store.get(key, target.view())
    assert got == 5000 and got and isinstance(got, int)
    assert bytes(target) == bytes(source)
    deleted = store.delete(key)
    assert deleted == 0 and deleted
    assert store.exists(key) is False
    for missed in (store.get(key, target.view()), store.delete(key)):
        assert missed == NOT_FOUND and missed < 0 and not missed


def test_pin_and_unpin(store, key):
    assert store.put(key, fill(store.allocate(5000), 7).view()) == 0
    keys = [key, key + "/absent"]
    assert store.pin(keys) == [0, NOT_FOUND]
    assert store.unpin(keys) == [0, NOT_FOUND]
    assert store.pin([]) == []


def test_pins_beyond_the_budget_say_so(store, key, caplog):
    """A tenth of the pool of 64 MiB may be pinned."""
    keys = [f"{key}{i}" for i in range(8)]
    block = store.allocate(1 << 20)
    assert store.mput(keys, [block.view()] * 8) == [0] * 8
    assert set(store.pin(keys)) == {0, -4006}
    assert "unpin what need not stay" in caplog.text
    assert store.mdelete(keys) == [0] * 8


def test_results_are_ints_whose_truth_is_success():
    assert Code(0) and not Code(-1000) and not Code(1)
    assert Length(1) and not Length(0) and not Length(-4003)
    assert Code(0) == 0 and Length(4096) + 1 == 4097
    assert repr(Code(-4003)) == "-4003"


def test_put_replaces(store, key):
    for byte in (1, 2):
        assert store.put(key, fill(store.allocate(64), byte).view()) == 0
    target = store.allocate(64)
    assert store.get(key, target.view()) == 64 and bytes(target) == b"\x02" * 64
    assert store.put(key, fill(store.allocate(64), 3).view(), if_absent=True) == 0
    assert store.get(key, target.view()) == 64 and bytes(target) == b"\x02" * 64


def test_lists(store, key):
    keys = [f"{key}{i}" for i in range(300)]
    sources = [fill(store.allocate(1000 + i), i % 251) for i in range(300)]
    assert store.mput(keys, [block.view() for block in sources]) == [0] * 300
    assert store.mexists(keys + [key + "absent"]) == [True] * 300 + [False]
    targets = [store.allocate(1000 + i) for i in range(300)]
    assert store.mget(keys, [b.view() for b in targets]) == [1000 + i for i in range(300)]
    assert all(bytes(a) == bytes(b) for a, b in zip(sources, targets))
    assert store.mdelete(keys[:2] + [key + "absent"]) == [0, 0, NOT_FOUND]
    results = store.mget(keys[:3], [b.view() for b in targets[:3]])
    assert [bool(result) for result in results] == [False, False, True]


def test_a_value_shorter_than_the_view_leaves_the_rest_alone(store, key):
    assert store.put(key, fill(store.allocate(100), 1).view())
    target = fill(store.allocate(200), 9)
    assert store.get(key, target.view()) == 100
    assert bytes(target) == b"\x01" * 100 + b"\x09" * 100


def test_a_value_longer_than_the_view_is_refused(store, key):
    assert store.put(key, fill(store.allocate(200), 1).view())
    target = fill(store.allocate(100), 9)
    assert store.get(key, target.view()) == INVALID_ARGUMENT
    assert bytes(target) == b"\x09" * 100


def test_a_part_of_a_value(store, key):
    source = store.allocate(1000)
    source.as_ref()[500:] = 5
    assert store.put(key, source.view())
    target = store.allocate(100)
    assert store.get_range(key, target.view(), 450) == 100
    assert bytes(target) == b"\0" * 50 + b"\5" * 50
    assert store.mget_range([key], [target.view()], [950]) == [50]
    assert store.get_range(key, target.view(), 1001) < 0


def test_lists_of_different_length_and_empty_ones(store, key):
    view = store.allocate(8).view()
    for call in (store.mput, store.mget):
        assert call([key, key], [view]) == [INVALID_ARGUMENT] * 2
        assert call([], []) == []
        assert call([], [view]) == []
    assert store.mget_range([key], [view], []) == [INVALID_ARGUMENT]
    assert store.mexists([]) == [] and store.mdelete([]) == []


def test_leases(store, key):
    assert store.put(key, fill(store.allocate(64), 1).view())
    assert store.lease([key, key + "absent"], 1000) == [True, False]


@pytest.fixture
def short_leases(tmp_path, monkeypatch):
    """A Store and its daemon, whose leases are 1 ms unless a call asks for more.

    First in, first out: with "reuse" a page that is looked at long enough after its put, as on a
    slow machine, counts as used again and may stay for that.
    """
    config = '{"node": {"pool_bytes": "64MiB"}, "session": {"handshake_ms": 60000}, ' \
        '"store": {"lease_default_ms": 1, "eviction": "fifo"}}'
    running = Daemon(tmp_path, config=config).start()
    monkeypatch.setenv("SIMM_SOCKET", running.socket)
    with kv.Store() as opened:
        yield opened, running
    running.kill()


def test_what_is_leased_is_not_evicted(short_leases, key):
    store, daemon = short_leases
    view = fill(store.allocate(1 << 20), 1).view()
    names = [key + how for how in ("lease", "mexists", "get", "mget", "async", "none")]
    assert store.mput(names, [view] * len(names)) == [0] * len(names)
    assert store.lease(names[:1], 60_000) == [True]
    assert store.mexists(names[1:2], lease_ms=60_000) == [True]
    assert store.get(names[2], view, lease_ms=60_000) == 1 << 20
    assert store.mget(names[3:4], [view], lease_ms=60_000) == [1 << 20]
    assert asyncio.run(store.mget_async(names[4:5], [view], lease_ms=60_000)) == [1 << 20]
    assert store.exists(names[5])
    wait_until_leased(daemon, 5 << 20, looks=3)
    for i in range(100):  # more than the pool holds
        assert store.put(f"{key}{i}", view) == 0
    assert store.mexists(names) == [True] * 5 + [False]


def wait_until_leased(daemon, bytes_max, looks):
    """The store notices the end of a lease at its next tick, which a quick machine does not see.
    Counters may be older than the last call: those are waited for that know of all `looks`."""
    deadline = time.monotonic() + 60
    while True:
        stats = daemon.stats("store").items()
        leased, seen = (sum(value for name, value in stats if name.endswith(end))
                        for end in (".leased_bytes", ".exists_hits"))
        if seen >= looks and leased <= bytes_max:
            return
        assert time.monotonic() < deadline, "a lease does not end"
        time.sleep(0.02)


def wait_until_gone(store, name):
    deadline = time.monotonic() + 60
    while store.exists(name):
        assert time.monotonic() < deadline, f"{name} is still there"
        time.sleep(0.02)


def test_a_value_with_a_short_life(store, key):
    view = fill(store.allocate(64), 1).view()
    assert store.put(key, view, ttl_ms=60_000) and store.exists(key)
    assert store.put(key + "2", view)
    assert store.mput([key, key + "1"], [view, view], ttl_ms=200) == [0, 0]
    wait_until_gone(store, key)
    wait_until_gone(store, key + "1")
    assert asyncio.run(store.put_async(key, view, ttl_ms=200)) == 0
    wait_until_gone(store, key)
    assert store.exists(key + "2")


@pytest.mark.parametrize("name", ["sglang_simm_warmup_key1", "flexkv_simm_warmup_key1"])
def test_the_warm_up_of_an_engine_is_not_for_ever(store, monkeypatch, name):
    monkeypatch.setattr("simm.store._WARM_UP_TTL_MS", 500)
    block = fill(store.allocate(4096), 1)
    assert store.put(name, block.view()) == 0
    wait_until_gone(store, name)
    assert asyncio.run(store.put_async(name, block.view())) == 0
    wait_until_gone(store, name)


def test_the_original_package_has_the_same_names():
    for name in ("Block", "BlockView", "Store", "set_flag", "register_mr", "deregister_mr"):
        assert hasattr(kv, name)


def test_stats(store, key):
    before = store.stats()
    assert store.put(key, fill(store.allocate(64), 1).view())
    after = store.stats()
    assert after["pages_ok"] == before["pages_ok"] + 1
    assert after["attached"] is True and after["max_value_bytes"] == 1 << 30
