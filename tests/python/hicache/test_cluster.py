"""Both backends on a cluster: a storage daemon or the node's is killed between exists and get and
while pages move. SIMM_FAULT_S: for how many seconds (2) the latter; minutes by hand."""

import itertools
import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch", reason="SGLang's interface is made of tensors")

import harness  # noqa: E402
from harness import (  # noqa: E402
    CHECKOUT, backend, config, fill, hashes, indices, moved, pool, wait_until)
from simm import kv  # noqa: E402
from simm.results import TIMEOUT  # noqa: E402

FAULT_S = float(os.environ.get("SIMM_FAULT_S", "2"))
TRIES = 20
N = 24
SOURCE, TARGET = range(N), range(N, 2 * N)


@pytest.fixture(params=["ours"] + ["sglangs"] * bool(CHECKOUT))
def attach(request, cluster):
    """attach(host pool, **config) on a cluster."""
    made = []

    def make(host, **changes):
        manager = {"manager_address": cluster.manager_address}
        if request.param == "ours":
            made.append(backend(cluster.socket, host, extra=manager, **changes))
            return made[-1]
        from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory
        one = StorageBackendFactory.create_backend("simm", config(extra=manager, **changes), host)
        one.register_mem_pool_host(host)
        return one

    yield make
    for one in made:
        one.close()


def lengths_of(names) -> list:
    """A get of them by a client of its own."""
    with kv.Store() as store:
        return store.mget(names, [store.allocate(8).view() for _ in names])


def put_all(one, host, keys) -> bool:
    return one.batch_set_v1(keys, indices(SOURCE, host)) == [True] * N


@pytest.mark.parametrize("victim", ["b", "node"])
def test_killed_between_exists_and_get(cluster, attach, victim):
    host = pool("mha")
    one = attach(host)
    keys = hashes(N, "between")
    fill(host, SOURCE, 1)
    fill(host, TARGET, 99)
    assert put_all(one, host, keys) and one.batch_exists(keys) == N
    cluster.daemons[victim].kill(signal.SIGKILL)
    got = one.batch_get_v1(keys, indices(TARGET, host))
    assert [hit for page, hit in enumerate(got) if hit and not moved(host, page, N + page)] == []
    if victim == "node":
        assert not any(got)
    else:  # what lies on the other one is there
        assert 0 < sum(got) < N
        if harness.HiCacheSimm is type(one):
            assert not one.facts()["breaker"]["open"]
    cluster.daemons[victim].start()
    wait_until(lambda: put_all(one, host, keys) and one.batch_exists(keys) == N)
    assert all(one.batch_get_v1(keys, indices(TARGET, host)))
    assert all(moved(host, page, N + page) for page in SOURCE)


@pytest.mark.parametrize("detection_ms, storages", [(60_000, 4)])
def test_a_stopped_storage_daemon_costs_its_own_pages_only(cluster, attach, detection_ms, storages):
    """The calls' own deadline ends the waiting for it."""
    kv.set_flag("clnt_sync_req_timeout_ms", "3000")
    host = pool("mha")
    one = attach(host)
    keys = hashes(N, "stopped")
    fill(host, SOURCE, 1)
    fill(host, TARGET, 99)
    assert put_all(one, host, keys)
    names = [f"stopped{i}" for i in range(64)]
    with kv.Store() as store, ThreadPoolExecutor(TRIES) as threads:
        block = store.allocate(8)
        views = [block.view()] * len(names)
        assert store.mput(names, views) == [0] * len(names)
        cluster.daemons["b"].stop()
        try:
            tries = [threads.submit(lengths_of, names) for _ in range(TRIES)]
            got = one.batch_get_v1(keys, indices(TARGET, host))
            codes = store.mput(names, views)
            lengths = [a_try.result() for a_try in tries]
        finally:
            cluster.daemons["b"].go_on()
    assert 0 < sum(got) < N
    assert all(moved(host, page, N + page) for page, hit in enumerate(got) if hit)
    assert set(lengths[0]) == {8, TIMEOUT}
    assert lengths == [lengths[0]] * TRIES
    assert [code == 0 for code in codes] == [length == 8 for length in lengths[0]]
    if harness.HiCacheSimm is type(one):
        assert not one.facts()["breaker"]["open"]


def test_killed_again_and_again_while_pages_move(cluster, attach):
    """SGLang's two threads; every hit has the bytes of its key, nothing raises, all is back."""
    seed = random.randrange(2**32)
    print(f"seed {seed}: change `seed =` to it to repeat")
    chance = random.Random(seed)
    host = pool("mha")
    one = attach(host)
    fill(host, SOURCE, 3)
    expected = [harness.content(host, page) for page in SOURCE]
    stop, troubles, hits, misses = threading.Event(), [], [0], [0]

    def write(turn: int) -> None:
        one.batch_set_v1(hashes(N, f"moving{turn % 40}."), indices(SOURCE, host))

    def read(turn: int) -> None:
        fill(host, TARGET, 120)
        keys = hashes(N, f"moving{turn % 40}.")
        one.batch_exists(keys)
        for page, hit in enumerate(one.batch_get_v1(keys, indices(TARGET, host))):
            if hit and harness.content(host, N + page) != expected[page]:
                troubles.append((turn, page))
            hits[0] += bool(hit)
            misses[0] += not hit

    def serve(work) -> None:
        try:
            for turn in itertools.count():
                if stop.is_set():
                    return
                work(turn)
        except BaseException as error:  # would end a thread of SGLang's
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
    keys = hashes(N, "after")
    wait_until(lambda: put_all(one, host, keys) and one.batch_exists(keys) == N)
    assert all(one.batch_get_v1(keys, indices(TARGET, host)))


def test_ranks_of_an_mla_model_share_one_fetch(cluster, attach):
    host = pool("mla")
    ranks = [attach(host, is_mla_model=True, tp_size=4, tp_rank=rank) for rank in range(4)]
    keys = hashes(N, "fetch")
    fill(host, SOURCE, 5)
    assert put_all(ranks[0], host, keys)
    name = "simm_node_cache_fetched_pages_total"
    before = cluster.counter(name)
    for one in ranks:
        fill(host, TARGET, 77)
        assert all(one.batch_get_v1(keys, indices(TARGET, host)))
        assert all(moved(host, page, N + page) for page in SOURCE)
    assert cluster.counter(name) - before == N
