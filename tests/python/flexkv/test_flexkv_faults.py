"""FlexKV's calls, and with a checkout its own client, cache engine and transfer worker, while
storage daemons and the node's die, stop and come back: misses, no exception, no wrong byte."""

import itertools
import os
import random
import signal
import threading
import time

import pytest

torch = pytest.importorskip("torch")

from flexkv_lab import CHECKOUT, Engine  # noqa: E402
from simm import kv  # noqa: E402

FAULT_S = float(os.environ.get("SIMM_FAULT_S", "2"))
N = 24
SOURCE, TARGET = range(N), range(N, 2 * N)
MANAGER = "127.0.0.1:30001"


@pytest.fixture(params=["small"] + ["real", "worker"] * bool(CHECKOUT))
def kind(request):
    return request.param


def hashes(number: int) -> list:
    """Names of blocks: FlexKV's are hashes of 64 bits."""
    return [random.Random(f"{number}/{i}").getrandbits(63) for i in range(N)]


def wait_until(condition) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def works(one: Engine, number: int) -> bool:
    """Are all blocks of that number stored and fetched, whole?"""
    one.fill(SOURCE, number)
    one.fill(TARGET, number + 100)
    keys = hashes(number)
    return (one.put(keys, SOURCE) == [True] * N and one.exists(keys) == N
            and one.get(keys, TARGET) == [True] * N
            and [one.content(i) for i in SOURCE] == [one.content(i) for i in TARGET])


def wrong(one: Engine, expected: list, before: list, got: list) -> list:
    """Targets that are neither their key's block nor, where they were missed, what they were."""
    return [i for i, hit in enumerate(got)
            if one.content(TARGET[i]) != (expected[i] if hit else before[i])]


@pytest.mark.parametrize("victim", ["b", "node"])
def test_killed_between_match_and_transfer(cluster, kind, victim):
    one = Engine(kind, cluster.manager_address)
    keys = hashes(1)
    assert works(one, 1)
    expected = [one.content(i) for i in SOURCE]
    one.fill(TARGET, 77)
    before = [one.content(i) for i in TARGET]
    assert one.exists(keys) == N
    cluster.daemons[victim].kill(signal.SIGKILL)
    got = one.get(keys, TARGET)
    assert wrong(one, expected, before, got) == []
    assert not any(got) if victim == "node" else 0 < sum(got) < N
    if victim == "node":
        assert one.exists(keys) == 0 and one.put(hashes(2), SOURCE) == [False] * N
    cluster.daemons[victim].start()
    wait_until(lambda: works(one, 3))


@pytest.mark.parametrize("detection_ms, storages", [(60_000, 4)])
def test_a_stopped_storage_daemon_costs_its_own_blocks_only(cluster, kind, detection_ms, storages):
    """The calls' own deadline ends the waiting for it."""
    kv.set_flag("clnt_sync_req_timeout_ms", "3000")
    one = Engine(kind, cluster.manager_address)
    assert works(one, 1)
    expected = [one.content(i) for i in SOURCE]
    one.fill(TARGET, 77)
    before = [one.content(i) for i in TARGET]
    cluster.daemons["b"].stop()
    try:
        got = one.get(hashes(1), TARGET)
        assert 0 < sum(got) < N and wrong(one, expected, before, got) == []
    finally:
        cluster.daemons["b"].go_on()
    assert wrong(one, expected, before, got) == [], "written behind the deadline"
    wait_until(lambda: works(one, 3))


def test_a_stopped_daemon_of_the_node_is_misses_by_the_deadline(own_daemon, kind):
    kv.set_flag("clnt_sync_req_timeout_ms", "300")
    one = Engine(kind, MANAGER)
    assert works(one, 1)
    expected = [one.content(i) for i in SOURCE]
    one.fill(TARGET, 77)
    before = [one.content(i) for i in TARGET]
    own_daemon.stop()
    try:
        assert one.exists(hashes(1)) == 0
        assert one.get(hashes(1), TARGET) == [False] * N
        assert one.put(hashes(2), SOURCE) == [False] * N
    finally:
        own_daemon.go_on()
    assert wrong(one, expected, before, [False] * N) == [], "written behind the deadline"
    wait_until(lambda: works(one, 3))


def test_killed_again_and_again_while_blocks_move(cluster, kind):
    seed = random.randrange(2**32)
    print(f"seed {seed}: change `seed =` to it to repeat")
    chance = random.Random(seed)
    one = Engine(kind, cluster.manager_address)
    one.fill(SOURCE, 3)
    expected = [one.content(i) for i in SOURCE]
    stop, troubles, hits, misses = threading.Event(), [], [0], [0]

    def write(turn: int) -> None:
        one.put(hashes(turn % 40), SOURCE)

    def read(turn: int) -> None:
        one.fill(TARGET, 120)
        before = [one.content(i) for i in TARGET]
        keys = hashes(turn % 40)
        one.exists(keys)
        got = one.get(keys, TARGET)
        troubles.extend((turn, i) for i in wrong(one, expected, before, got))
        hits[0] += sum(got)
        misses[0] += N - sum(got)

    def serve(work) -> None:
        try:
            for turn in itertools.count():
                if stop.is_set():
                    return
                work(turn)
        except BaseException as error:  # FlexKV's worker would never answer that operation
            troubles.append(error)

    threads = [threading.Thread(target=serve, args=(work,)) for work in (write, read)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + FAULT_S
    try:
        while time.monotonic() < end and not troubles:
            seen = hits[0]
            wait_until(lambda: hits[0] > seen or troubles)
            daemon = cluster.daemons[chance.choice(["a", "b", "node", "manager"])]
            time.sleep(chance.random() / 10)
            daemon.kill(signal.SIGKILL)
            time.sleep(chance.random() / 4)
            daemon.start()
    finally:
        stop.set()
        for thread in threads:
            thread.join(120)
    assert troubles == [] and misses[0] > 0 and not any(one.is_alive() for one in threads)
    wait_until(lambda: works(one, 50))
