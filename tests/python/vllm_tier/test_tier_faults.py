"""Two engines whose tiers are on a cluster, while storage daemons, the node's and the manager are
killed, stopped and started again. SIMM_FAULT_S: for how many seconds (4); minutes by hand."""

import os
import random
import threading
import time

import pytest

import vllm_interface as interface
from conftest import CONFIG, Daemon
from tier_lab import Engine, keys_of
from unrest import unrest

FAULT_S = float(os.environ.get("SIMM_FAULT_S", "4"))
N, TURNS = 24, 40
# None of the tier's calls waits for anybody. The machine may be busy.
CALL_S = 5.0

pytestmark = pytest.mark.usefixtures("vllm")


class Scheduler:
    """One engine in its own thread: each turn stores the chunks of a prompt, or looks for those
    that another one has stored, and loads what it finds. The bytes are the workers'."""

    def __init__(self, name):
        self.name = name
        self.engine = Engine(lookup_ms=200, timeout_ms=1000, step_budget_us=200, recheck_s=1)
        self.hits = self.misses = self.stored = 0
        self.told = set()
        self.troubles = []
        self.longest = (0.0, "")
        tier = self.engine.tier
        for call in ("lookup", "submit_store", "submit_load", "get_finished_jobs",
                     "on_schedule_end", "take_events", "on_request_finished"):
            setattr(tier, call, self._timed(call, getattr(tier, call)))

    def _timed(self, name, method):
        def call(*arguments):
            began_s = time.monotonic()
            answer = method(*arguments)
            self.longest = max(self.longest, (time.monotonic() - began_s, name))
            return answer
        return call

    def fill(self, turn):
        for i in range(N):
            self.engine.rows[i] = (turn * N + i) % 251 - 125

    def store(self, turn):
        self.fill(turn)
        result = self.engine.store(keys_of(f"fault{turn}", N), range(N))
        self.stored += result.success
        return result.success

    def read(self, turn, request):
        keys = keys_of(f"fault{turn}", N)
        found = self.engine.steps(keys, request)
        self.engine.finish(request)
        there = next((i for i, is_there in enumerate(found) if not is_there), N)
        self.misses += N - there
        if not there:
            return
        rows = range(N, N + there)
        self.engine.rows[N:] = 126
        result = self.engine.load(keys[:there], rows)
        good = keys[:there] if result.success else result.successful_keys
        for i, row in enumerate(rows):
            if keys[i] in good:
                self.hits += 1
                if not (self.engine.rows[row] == (turn * N + i) % 251 - 125).all():
                    self.troubles.append((self.name, turn, i, set(self.engine.rows[row].tolist())))
        if not (self.engine.rows[N + there:] == 126).all():
            self.troubles.append((self.name, turn, "rows that nobody asked for"))

    def events(self):
        """What routers know."""
        for event in self.engine.tier.take_events():
            (self.told.difference_update if event.removed else self.told.update)(event.keys)

    def work(self, stop, seed, stores):
        dice = random.Random(seed)
        turn = 0
        try:
            while not stop.is_set():
                turn += 1
                if stores:
                    self.store(dice.randrange(TURNS))
                else:
                    self.read(dice.randrange(TURNS), f"r{turn}")
                self.events()
        except BaseException as error:  # would end vLLM's scheduler
            self.troubles.append(error)


def test_killed_and_stopped_again_and_again_while_chunks_move(cluster):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    dice = random.Random(seed)
    writer, reader = Scheduler("writer"), Scheduler("reader")
    stop = threading.Event()
    threads = [threading.Thread(target=scheduler.work, args=(stop, seed, stores))
               for scheduler, stores in ((writer, True), (reader, False))]
    for thread in threads:
        thread.start()
    faults = 0
    try:
        faults = unrest(cluster, dice, FAULT_S, lambda: reader.hits,
                        lambda: bool(writer.troubles or reader.troubles), stopped_s=3)
    finally:
        stop.set()
        for thread in threads:
            thread.join(120)
    print("faults", faults, "hits", reader.hits, "misses", reader.misses, "stored", writer.stored,
          "longest", writer.longest, reader.longest)
    assert writer.troubles == reader.troubles == []
    assert not any(thread.is_alive() for thread in threads)
    assert max(writer.longest, reader.longest)[0] < CALL_S
    # Routers hear, within a round or two, of what is there no more.
    patience = time.monotonic() + 60
    while True:
        reader.events()
        told = sorted(reader.told)
        reader.engine.take()
        reader.engine.end()
        if not told or all(reader.engine.steps(told, "told")):
            break
        reader.engine.finish("told")
        assert time.monotonic() < patience
        time.sleep(0.05)
    while not writer.store(0):
        assert time.monotonic() < patience + 60
    writer.engine.close()
    reader.engine.close()


def test_workers_and_pool_have_the_bytes_behind_a_stop_of_the_daemon(own_daemon):
    """The memory is that of vLLM's workers: it may not become the scheduler's own."""
    keys, later = keys_of("stopped", 16), keys_of("later", 16)
    with Engine(lookup_ms=200, timeout_ms=300) as engine, Engine() as other:
        engine.fill(range(16), 1)
        assert engine.store(keys, range(16)).success
        own_daemon.stop()
        try:
            number = engine.submit("load", keys, range(16, 32))
            late_s = time.monotonic() + 1.5
            while time.monotonic() < late_s:
                engine.take()
                engine.end()
                assert number not in engine.finished, "its rows may still be written to"
                time.sleep(0.01)
        finally:
            own_daemon.go_on()
        engine.wait(number)
        assert "private" not in str(engine.tier._rows._memory.pieces)
        engine.fill(range(16, 32), 2)
        while not engine.store(later, range(16, 32)).success:
            pass
        assert other.steps(later) == [True] * 16
        assert other.load(later, range(16)).success
        assert (other.rows[:16] == engine.rows[16:32]).all(), "of the pool"
        engine.rows[16:32] = 0
        assert engine.load(keys, range(16, 32)).success
        assert (engine.rows[16:32] == engine.rows[:16]).all(), "of the workers"


def test_a_job_ends_when_its_stopped_daemon_dies(own_daemon):
    keys = keys_of("dies", 8)
    with Engine(timeout_ms=300) as engine:
        engine.fill(range(8), 1)
        assert engine.store(keys, range(8)).success
        own_daemon.stop()
        numbers = [engine.submit(what, keys, range(8)) for what in ("load", "store")]
        own_daemon.kill()
        assert not any(engine.wait(number).success for number in numbers)
        engine.tier.drain_jobs()


@pytest.fixture(params=["hashes", "off"])
def telling_daemon(request, tmp_path, monkeypatch):
    """One whose events of keys are as the parameter says."""
    text = CONFIG.strip()[:-1] + f', "events": {{"keys": "{request.param}"}}}}'
    running = Daemon(tmp_path, config=text).start()
    monkeypatch.setenv("SIMM_SOCKET", running.socket)
    yield running
    running.kill()


@pytest.mark.parametrize("asked_before", [True, False])
def test_a_daemon_that_is_stopped_as_soon_as_it_is_back_holds_up_no_step(telling_daemon,
                                                                        asked_before):
    """A new session is made by the breaker's thread: to attach takes its time."""
    own_daemon = telling_daemon
    keys = keys_of("again", 8)
    with Engine(lookup_ms=200, timeout_ms=300) as engine:
        for _ in range(3 if asked_before else 0):
            list(engine.tier.take_events())
            assert engine.store(keys, range(8)).success
        own_daemon.kill()
        own_daemon.start()
        own_daemon.stop()
        longest = 0.0
        try:
            end = time.monotonic() + 0.7
            turn = 0
            while time.monotonic() < end:
                turn += 1
                for call in (engine.take, lambda: engine.look(keys[0], f"r{turn}"), engine.end,
                             lambda: engine.submit("load", keys, range(8, 16)),
                             lambda: list(engine.tier.take_events())):
                    began_s = time.monotonic()
                    call()
                    longest = max(longest, time.monotonic() - began_s)
                engine.finish(f"r{turn}")
                time.sleep(0.01)
        finally:
            own_daemon.go_on()
        assert longest < 1, "an attachment waits for five"
