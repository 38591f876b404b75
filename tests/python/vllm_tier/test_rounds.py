"""What a tier tells of chunks that have left parts of the pool of which no daemon tells it: it asks
for what it has told as stored, some chunks in a step (simm/vllm/rounds.py)."""

import importlib
import time

import pytest

import vllm_interface as interface
from conftest import CONFIG, Daemon
from simm.key_follower import KeyFollower
from simm.results import NOT_FOUND, TIMEOUT, UNREACHABLE
from simm.store import Store
from tier_lab import ROW_BYTES, Engine, key_of, keys_of

pytestmark = pytest.mark.usefixtures("vllm")


def told_as(engine, is_removed):
    """Keys; steps of the scheduler in which no request looks for anything."""
    engine.take()
    events = list(engine.tier.take_events())
    engine.end()
    return {key for event in events if event.removed == is_removed for key in event.keys}


def eventually_removed(engine, keys):
    removed = set()
    deadline = time.monotonic() + 60
    while removed != set(keys):
        assert time.monotonic() < deadline, len(removed)
        removed |= told_as(engine, True)
        time.sleep(0.002)


def test_chunks_that_leave_other_daemons_are_told_without_anybody_who_looks(cluster):
    """The node has no part of the pool, so it tells its sessions of nothing."""
    with Engine(recheck_s=1) as engine:
        told_as(engine, False)
        keys = keys_of("elsewhere", 100)
        assert engine.store(keys, range(100)).success
        assert told_as(engine, False) == set(keys)
        gone = keys[3:70:2]
        with Store() as store:
            texts = engine.tier._lookups.texts_of(gone)
            assert store.mdelete(texts) == [0] * len(gone)
        eventually_removed(engine, gone)
        assert engine.tier.stats()["rechecks"]["gone"] == len(gone)
        # All others stay told, for as long as it takes to ask for each once more.
        asked = engine.tier.stats()["rechecks"]["asked"]
        deadline = time.monotonic() + 60
        while engine.tier.stats()["rechecks"]["asked"] < asked + 2 * (len(keys) - len(gone)):
            assert time.monotonic() < deadline
            assert told_as(engine, True) == set()
            time.sleep(0.002)


@pytest.mark.parametrize("detection_ms", [60_000])
def test_a_storage_daemon_that_does_not_answer_has_lost_nothing(cluster, detection_ms):
    with Engine(recheck_s=1, lookup_ms=50) as engine:
        told_as(engine, False)
        keys = keys_of("silent", 64)
        assert engine.store(keys, range(64)).success
        assert told_as(engine, False) == set(keys)
        cluster.daemons["a"].stop()
        try:
            asked = engine.tier.stats()["rechecks"]["asked"]
            deadline = time.monotonic() + 60
            while engine.tier.stats()["rechecks"]["asked"] < asked + 2 * len(keys):
                assert time.monotonic() < deadline
                assert told_as(engine, True) == set()
                time.sleep(0.002)
        finally:
            cluster.daemons["a"].go_on()


def test_what_a_daemon_has_that_is_taken_for_away_is_told_as_removed(cluster):
    """Nobody can have it until it is back. Then it is told when it is found."""
    with Engine(recheck_s=1, lookup_ms=500) as engine:
        told_as(engine, False)
        keys = keys_of("away", 64)
        assert engine.store(keys, range(64)).success
        assert told_as(engine, False) == set(keys)
        cluster.daemons["a"].stop()
        removed = set()
        deadline = time.monotonic() + 60
        try:
            while len(removed) < 16:  # of about 32
                assert time.monotonic() < deadline
                removed |= told_as(engine, True)
                time.sleep(0.002)
        finally:
            cluster.daemons["a"].go_on()
        assert removed < set(keys)
        found = set()
        while not removed <= found:
            assert time.monotonic() < deadline + 60
            engine.steps(sorted(removed), "back")
            engine.finish("back")
            found |= {key for event in engine.tier.take_events() if not event.removed
                      for key in event.keys}
            time.sleep(0.05)


def test_nothing_is_asked_for_where_nobody_takes_events(here):
    with Engine(recheck_s=1) as engine:
        assert engine.store(keys_of("quiet", 8), range(8)).success
        time.sleep(1.1)
        for _ in range(20):
            engine.take()
            engine.end()
        assert engine.tier.stats()["rechecks"] == {"asked": 0, "gone": 0}


def test_it_can_be_switched_off(here):
    with Engine(recheck_s=0) as engine:
        told_as(engine, False)
        assert engine.store(keys_of("off", 8), range(8)).success
        for _ in range(20):
            told_as(engine, False)
        assert engine.tier.stats()["rechecks"]["asked"] == 0


class Asked:
    """Batches that are answered when the test says so."""

    def __init__(self):
        self.waiting = []

    def start(self, operation, keys, views, done, **options):
        assert options["lease_ms"] == 1, "a question keeps no chunk in the pool"
        self.waiting.append((keys, done))

    def answer(self, result_of):
        keys, done = self.waiting.pop()
        done([result_of(key) for key in keys])
        return keys


@pytest.fixture
def rounds(here):
    """A tier's news and rounds, above batches of the test."""
    figures, news, options, made = (importlib.import_module(f"simm.vllm.{name}")
                                    for name in ("figures", "news", "options", "rounds"))
    asked, known = Asked(), news.News()
    known.take()
    read = options.Options.read({"recheck_s": 86_400})
    yield made.Rounds(asked, known, lambda keys: [key.hex() for key in keys], ROW_BYTES, read,
                      figures.Figures(0)), known, asked


def test_a_step_asks_for_few_and_a_round_for_each_once(rounds):
    of, news, asked = rounds
    keys = [key_of(f"few{i}") for i in range(100)]
    news.there(keys)
    news.take()
    seen = []
    for expected in (32, 32, 32, 4):
        of.poll()
        of.poll()
        assert len(asked.waiting) == 1, "one batch at a time"
        part = asked.answer(lambda key: ROW_BYTES)
        assert len(part) == expected
        seen += part
    assert seen == [key.hex() for key in keys], "the oldest first"
    of.poll()
    assert not asked.waiting, "the next round has its time"
    assert news.take() == []


def test_what_is_told_while_an_answer_is_on_its_way_is_newer(rounds):
    of, news, asked = rounds
    keys = [key_of(f"race{i}") for i in range(3)]
    news.there(keys)
    of.poll()
    news.there(keys[:1])  # stored again meanwhile
    news.gone(keys[1:2])  # and missed
    news.take()
    asked.answer(lambda key: NOT_FOUND)
    assert news.take() == [(False, keys[2:])]


@pytest.mark.parametrize("result, is_gone", [
    (ROW_BYTES, False), (ROW_BYTES + 1, True), (NOT_FOUND, True), (UNREACHABLE, False),
    (TIMEOUT, False)])
def test_what_an_answer_says_of_a_chunk(rounds, result, is_gone):
    of, news, asked = rounds
    key = key_of("answer")
    news.there([key])
    news.take()
    of.poll()
    asked.answer(lambda _: result)
    assert news.take() == ([(False, [key])] if is_gone else [])


def test_a_daemon_that_is_away_takes_nothing_back_and_one_that_lost_its_pool_does(
        tmp_path, monkeypatch):
    running = Daemon(tmp_path, config=CONFIG).start()
    monkeypatch.setenv("SIMM_SOCKET", running.socket)
    try:
        with Engine(recheck_s=1) as engine:
            told_as(engine, False)
            keys = keys_of("away", 16)
            assert engine.store(keys, range(16)).success
            assert told_as(engine, False) == set(keys)
            running.kill()
            asked = engine.tier.stats()["rechecks"]["asked"]
            deadline = time.monotonic() + 60
            while engine.tier.stats()["rechecks"]["asked"] < asked + 32:
                assert time.monotonic() < deadline
                assert told_as(engine, True) == set()
                time.sleep(0.002)
            running.start()
            eventually_removed(engine, keys)
    finally:
        running.kill()


def test_no_step_waits_for_what_the_daemon_tells_of_its_own_accord(here, monkeypatch):
    waited = []
    read = KeyFollower.read_plain

    def noted(self, timeout_ms, *more):
        waited.append(timeout_ms)
        return read(self, timeout_ms, *more)

    monkeypatch.setattr(KeyFollower, "read_plain", noted)
    with Engine() as engine:
        for _ in range(5):
            told_as(engine, False)
    assert waited and set(waited) == {0}
