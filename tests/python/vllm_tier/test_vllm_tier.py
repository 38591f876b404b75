"""simm.vllm.SimmTier, driven as vLLM's scheduler drives a tier, against real daemons."""

import importlib
import logging
import random
import signal
import time

import pytest

import vllm_interface as interface
from conftest import CONFIG, Daemon
from simm import log
from simm.store import Store
from tier_lab import ROW_BYTES, ROWS, Engine, key_of, keys_of

pytestmark = pytest.mark.usefixtures("vllm")


@pytest.mark.parametrize("new", [True, False])
def test_what_one_engine_stores_another_one_loads(here, new):
    interface.install(new)
    seed = random.randrange(1 << 32)
    print("seed", seed)
    keys = keys_of(f"share{seed}", 40)
    rows = random.Random(seed).sample(range(ROWS), 80)
    with Engine(new) as one, Engine(new) as other:
        one.fill(rows[:40], seed)
        assert other.steps(keys) == [False] * 40
        other.finish()
        assert one.store(keys, rows[:40]).success
        assert other.steps(keys, "later") == [True] * 40
        other.fill(range(ROWS), seed + 1)
        before = other.rows.copy()
        assert other.load(keys, rows[40:]).success
        assert (other.rows[rows[40:]] == one.rows[rows[:40]]).all()
        before[rows[40:]] = other.rows[rows[40:]]
        assert (other.rows == before).all(), "a row that nobody asked for has changed"
        assert other.tier.stats()["loads"]["bytes"] == 40 * ROW_BYTES


def test_bytes_are_not_copied_and_the_file_needs_no_name(here):
    with Engine() as engine:
        assert [piece[2] for piece in engine.tier._rows._memory.pieces] == ["shared"]


def test_a_request_that_nothing_is_there_for_costs_no_step(here):
    with Engine(step_budget_us=100_000) as engine:
        assert engine.step(keys_of("nothing", 1)) == [False]


def test_the_first_chunk_is_answered_at_once_and_the_others_in_the_next_step(here):
    keys = keys_of("first", 9)
    with Engine(step_budget_us=100_000) as engine:
        assert engine.store(keys[:5] + keys[6:], range(8)).success
        assert engine.step(keys) == [True] + [None] * 8
        assert engine.steps(keys) == [True] * 5 + [False] + [True] * 3


def test_without_a_budget_nothing_is_waited_for(here):
    keys = keys_of("budget", 3)
    with Engine(step_budget_us=0) as engine:
        assert engine.store(keys, range(3)).success
        assert engine.step(keys) == [None] * 3
        assert engine.steps(keys) == [True] * 3


def test_groups_and_models_do_not_read_each_other(here):
    with Engine() as engine:
        assert engine.store([key_of("who", 0)], [0]).success
        assert engine.steps([key_of("who", 0), key_of("who", 1)]) == [True, False]
        for spec in (interface.new_spec("org/other"), interface.new_spec(dtype="fp8"),
                     interface.new_spec(tp=2)):
            with Engine(spec=spec) as other:
                assert other.steps([key_of("who", 0)]) == [False]
        with Engine(row_bytes=2 * ROW_BYTES) as other:
            assert other.steps([key_of("who", 0)]) == [False]


def test_engines_of_any_width_share_what_does_not_depend_on_it(here):
    with Engine(spec=interface.new_spec(tp=2, agnostic=True)) as one:
        assert one.store([key_of("wide")], [0]).success
        with Engine(spec=interface.new_spec(tp=4, agnostic=True)) as other:
            assert other.steps([key_of("wide")]) == [True]


def test_a_chunk_that_is_gone_before_its_load_is_a_miss_from_then_on(here):
    keys = keys_of("gone", 6)
    with Engine() as engine:
        engine.fill(range(6), 1)
        assert engine.store(keys, range(6)).success
        assert engine.steps(keys) == [True] * 6
        with Store() as store:
            assert store.delete(engine.tier._lookups.texts_of([keys[2]])[0]) == 0
        result = engine.load(keys, range(10, 16))
        assert not result.success
        assert result.successful_keys == keys[:2] + keys[3:]
        assert all((engine.rows[10 + i] == engine.rows[i]).all() for i in (0, 1, 3, 4, 5))
        # vLLM looks again: it must not be told to load again.
        assert engine.steps(keys) == [True, True, False, True, True, True]
        engine.finish()
        assert engine.steps([keys[2]], "next") == [False]
        assert engine.store([keys[2]], [2]).success
        assert engine.steps([keys[2]], "last") == [True]


def told(engine):
    """What the tier tells of chunks: (is removed, keys) in their order."""
    events = list(engine.tier.take_events())
    assert all(event.medium is interface.Medium.STORAGE for event in events)
    return [(event.removed, event.keys) for event in events]


def test_routers_hear_of_what_is_stored_and_of_what_is_missed(here):
    keys = keys_of("told", 4)
    with Engine() as engine, Engine() as other:
        assert engine.store(keys_of("before", 1), [9]).success
        assert told(engine) == []  # nobody had asked
        engine.fill(range(4), 3)
        assert engine.store(keys, range(4)).success
        assert told(engine) == [(False, keys)]
        assert engine.store(keys, range(4)).success
        assert engine.steps(keys) == [True] * 4
        assert told(engine) == []  # known
        with Store() as store:
            assert store.delete(engine.tier._lookups.texts_of([keys[1]])[0]) == 0
        engine.finish()
        assert engine.steps(keys, "next") == [True, False, True, True]
        assert told(engine) == [(True, [keys[1]])]
        with Store() as store:
            assert store.delete(engine.tier._lookups.texts_of([keys[2]])[0]) == 0
        assert not engine.load([keys[2]], [5]).success
        assert told(engine) == [(True, [keys[2]])]
        # Stored by one engine, found by another: both tell.
        assert told(other) == []
        assert other.store([keys[1]], [1]).success
        assert told(other) == [(False, [keys[1]])]
        engine.finish("next")
        time.sleep(1.1)  # a miss is believed for a second
        assert engine.steps([keys[1]], "last") == [True]
        assert told(engine) == [(False, [keys[1]])]


def test_an_evicted_chunk_is_told_as_removed(tmp_path, monkeypatch):
    running = Daemon(tmp_path, config='{"node": {"pool_bytes": "16MiB"}, '
                     '"session": {"handshake_ms": 60000}}').start()
    monkeypatch.setenv("SIMM_SOCKET", running.socket)
    try:
        with Engine(row_bytes=64 << 10) as engine:
            assert told(engine) == []
            keys = keys_of("evicted", 16)
            assert engine.store(keys, range(16)).success
            assert told(engine) == [(False, keys)]
            # Which objects leave first is the policy's: sixty times the pool.
            for i in range(64):
                engine.store(keys_of(f"pressure{i}", 200), range(20, 220))
            told(engine)
            found = engine.steps(keys)
            assert not all(found)
            missed = [key for key, is_there in zip(keys, found) if not is_there]
            assert told(engine) == [(True, missed)]
    finally:
        running.kill()


def test_an_evicted_chunk_is_told_without_anybody_who_looks_for_it(tmp_path, monkeypatch):
    running = Daemon(tmp_path, config='{"node": {"pool_bytes": "16MiB"}, '
                     '"session": {"handshake_ms": 60000}, "events": {"keys": "hashes"}}').start()
    monkeypatch.setenv("SIMM_SOCKET", running.socket)
    try:
        with Engine(row_bytes=64 << 10) as engine, Engine(row_bytes=64 << 10) as other:
            assert told(engine) == []
            engine.take()
            keys = keys_of("evicted", 16)
            assert engine.store(keys, range(16)).success
            assert told(engine) == [(False, keys)]
            gone = set()
            deadline = time.monotonic() + 60
            number = 0
            while gone != set(keys):  # by another engine, until none is left
                assert time.monotonic() < deadline, len(gone)
                other.store(keys_of(f"pressure{number}", 200), range(20, 220))
                number += 1
                engine.take()
                for is_removed, of in told(engine):
                    assert is_removed
                    gone.update(of)
            assert engine.steps(keys) == [False] * 16
            # The daemon's end: nothing is certain any more.
            assert engine.store(keys, range(16)).success
            assert (False, keys) in told(engine)
            running.kill()
            removed = []
            while not removed:
                assert time.monotonic() < deadline
                engine.take()
                removed = [key for is_removed, of in told(engine) if is_removed for key in of]
            assert set(removed) == set(keys)
    finally:
        running.kill()


def test_news_are_bounded_and_end_when_nobody_takes_them(monkeypatch):
    news = importlib.import_module("simm.vllm.news")
    monkeypatch.setattr(news, "KEYS_MAX", 4)
    keys = [bytes([i]) for i in range(20)]
    made = news.News()
    made.there(keys)
    assert made.take() == []
    made.there(keys[:6])  # two more than are known
    assert made.take() == [(True, keys[2:5]), (False, keys[:1]), (True, keys[5:6]),
                           (False, keys[1:2])]
    made.gone(keys[2:6])
    made.there(keys[2:3])
    assert made.take() == [(False, keys[3:6]), (True, keys[2:3])]
    made.there(keys)  # more than anybody takes
    assert made.take() == []
    made.there(keys[:2])
    assert made.take() == [(True, keys[:2])]


def test_a_leased_chunk_outlives_the_pressure_on_the_pool(tmp_path, monkeypatch):
    running = Daemon(tmp_path, config='{"node": {"pool_bytes": "16MiB"}, '
                     '"session": {"handshake_ms": 60000}}').start()
    monkeypatch.setenv("SIMM_SOCKET", running.socket)
    try:
        with Engine(lease_ms=60_000, row_bytes=64 << 10) as engine:
            keys = keys_of("leased", 16)
            engine.fill(range(16), 2)
            assert engine.store(keys, range(16)).success
            assert engine.steps(keys) == [True] * 16
            # Sixty times the pool, as above; well within the lease.
            until_s = time.monotonic() + 30
            for i in range(64):
                if time.monotonic() < until_s:
                    engine.store(keys_of(f"pressure{i}", 200), range(20, 220))
            assert engine.load(keys, range(230, 246)).success
            assert (engine.rows[230:246] == engine.rows[:16]).all()
    finally:
        running.kill()


def test_a_daemon_that_starts_later_and_one_that_dies(tmp_path, monkeypatch):
    running = Daemon(tmp_path, config=CONFIG)
    monkeypatch.setenv("SIMM_SOCKET", running.socket)
    keys = keys_of("late", 4)
    with Engine() as engine:
        assert engine.steps(keys) == [False] * 4
        assert not engine.store(keys, range(4)).success
        running.start()
        try:
            for life in range(2):
                engine.fill(range(4), life)
                while not engine.store(keys, range(4)).success:
                    pass  # the session is looked for by a thread
                assert engine.load(keys, range(4, 8)).success
                assert (engine.rows[4:8] == engine.rows[:4]).all()
                engine.finish()
                running.kill()
                assert not engine.load(keys, range(4, 8)).success
                assert engine.steps(keys_of("away", 3), f"r{life}") == [False] * 3
                running.start()
        finally:
            running.kill()


def test_a_stopped_daemon_costs_a_lookup_and_no_more(own_daemon):
    with Engine(lookup_ms=200, step_budget_us=1000, timeout_ms=500) as engine:
        keys = keys_of("stopped", 8)
        assert engine.store(keys, range(8)).success
        own_daemon.stop()
        try:
            first = engine.step(keys)
            assert first == [None] * 8, "nothing was waited for"
            assert engine.steps(keys) == [False] * 8
            assert engine.tier.stats()["lookups"]["misses"] >= 8
            while not engine.tier.stats()["breaker"]["open"]:  # nobody is asked any more
                engine.take()
        finally:
            own_daemon.go_on()
        other = keys_of("stopped and back", 2)
        while not engine.store(other, range(2)).success:
            pass
        assert engine.steps(other, "back") == [True] * 2


def test_drain_waits_for_all_jobs_and_none_touches_the_rows_afterwards(here):
    keys = keys_of("drain", 64)
    with Engine() as engine:
        engine.fill(range(64), 3)
        assert engine.store(keys, range(64)).success
        numbers = [engine.submit("load", keys, range(100, 164)) for _ in range(4)]
        engine.tier.drain_jobs()
        engine.rows[100:164] = 7
        engine.take()
        assert all(engine.finished[number].success for number in numbers)
        assert (engine.rows[100:164] == 7).all()
        engine.tier.drain_jobs()


def test_jobs_without_sense_end_as_failed(here, caplog):
    with Engine() as engine:
        for keys, rows, name in ((keys_of("odd", 2), [0, ROWS], "chunk_ids"),
                                 (keys_of("odd", 2), [-1, 0], "chunk_ids"),
                                 (keys_of("odd", 2), [0], "2 keys for 1 rows"),
                                 (keys_of("odd", 2), [0.0, 1.0], "float"),
                                 ([None], [0], "NoneType")):
            for what in ("store", "load"):
                caplog.clear()
                log._seen.clear()  # said once in a minute
                assert not engine.wait(engine.submit(what, keys, rows)).success
                assert name in caplog.text
        assert engine.store([], []).success


def test_options_are_checked_and_unknown_ones_are_said(here, caplog):
    for name, value in (("lease_ms", 0), ("lookup_ms", "5"), ("step_budget_us", -1),
                        ("timeout_ms", True), ("log_interval_s", 1.5)):
        with pytest.raises(ValueError, match=f"{name} = {value!r}"):
            Engine(**{name: value})
    with Engine(locality="REMOTE", whatever=1) as engine:
        assert "locality, whatever: no such option" in caplog.text
        assert engine.steps(keys_of("options", 1)) == [False]


def test_a_vllm_that_does_not_say_what_its_chunks_are_is_refused(here):
    spec = interface.new_spec()
    del spec.config.model
    with pytest.raises(ValueError, match="does not say model, dtype"):
        Engine(spec=spec)


def test_a_hash_seed_of_its_own_is_said(here, monkeypatch, caplog):
    monkeypatch.delenv("PYTHONHASHSEED")
    with Engine():
        assert "PYTHONHASHSEED is not set" in caplog.text


def test_nothing_raises_and_shutdown_is_safe_twice(here, caplog):
    with Engine() as engine:
        assert engine.tier.lookup(7, interface.ReqContext("r")) is interface.LookupResult.MISS
        log._seen.clear()
        assert engine.tier.lookup(key_of("x"), None) is interface.LookupResult.MISS
        engine.tier.shutdown()
        assert not engine.store(keys_of("closed", 2), range(2)).success
        assert engine.steps(keys_of("closed", 2)) == [False] * 2
    assert "TypeError" in caplog.text and "AttributeError" in caplog.text


def test_an_older_vllm_knows_the_tier_by_its_spec():
    import simm.vllm
    spec = simm.vllm.SimmTieringSpec
    assert issubclass(spec, interface.TieringOffloadingSpec)
    assert interface.SecondaryTierFactory.registry["simm"] == ("simm.vllm.tier", "SimmTier")


def test_figures_are_said(here, caplog):
    caplog.set_level(logging.INFO, "simm")
    keys = keys_of("figures", 3)
    with Engine(log_interval_s=1) as engine:
        engine.tier._figures._log_at_s = 0
        assert engine.store(keys, range(3)).success
        assert engine.load(keys, range(3)).success
        engine.tier._figures._log_at_s = 0
        engine.take()
        lines = [line for line in caplog.messages if "loaded" in line]
        assert lines and "stored 0.00 GB at" in lines[-1] and "0 chunks failed" in lines[-1]
        facts = engine.tier.stats()
        assert facts["loads"]["chunks"] == facts["stores"]["chunks"] == 3
        assert facts["loads"]["gb_per_s"] > 0
    assert "closed" in caplog.text


def test_killed_while_jobs_are_under_way(tmp_path, monkeypatch):
    """Each job ends, once, and says of no key that it was moved when it was not."""
    running = Daemon(tmp_path, config=CONFIG).start()
    monkeypatch.setenv("SIMM_SOCKET", running.socket)
    seed = random.randrange(1 << 32)
    print("seed", seed)
    dice = random.Random(seed)
    try:
        with Engine() as engine:
            keys = keys_of("killed", 100)
            engine.fill(range(100), seed)
            for _ in range(6):
                while not engine.store(keys, range(100)).success:
                    pass
                engine.rows[100:200] = 0
                parts = [sorted(dice.sample(range(100), 30)) for _ in range(5)]
                numbers = [engine.submit("load", [keys[i] for i in part],
                                         [100 + i for i in part]) for part in parts]
                if dice.random() < 0.7:
                    running.kill(signal.SIGKILL)
                    running.start()
                for number, part in zip(numbers, parts):
                    result = engine.wait(number)
                    good = [keys[i] for i in part] if result.success else result.successful_keys
                    for i in part:
                        if keys[i] in good:
                            assert (engine.rows[100 + i] == engine.rows[i]).all()
    finally:
        running.kill()
