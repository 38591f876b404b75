"""simm.lmcache's connector while the daemon starts late, dies and comes back: misses, never an
exception, never wrong bytes, and LMCache's memory is given back."""

import itertools
import signal
import threading
import time

import pytest

pytest.importorskip("torch")

from conftest import CONFIG, Daemon
from lmcache_lab import CHUNK_BYTES, OLD, Lab, url_of
from simm import kv

COUNT = 16


@pytest.fixture(params=["async-plain", "sync-described"])
def lab_of(request):
    """Makes a Lab for a daemon."""
    if OLD and request.param != "sync-described":
        pytest.skip("LMCache of 2025 has one kind")
    sync = request.param.startswith("sync")
    return lambda daemon, **manager: Lab(url_of(daemon, "url", int(sync), **manager),
                                         save_chunk_meta=sync)


def works_again(lab, digests):
    """True once a chunk can be stored and fetched."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        key = lab.key(next(digests))
        lab.store([key], [lab.chunk(9)])
        if lab.take([lab.run(lab.connector.get(key))]) == [(CHUNK_BYTES, 9)]:
            return True
        time.sleep(0.02)
    return False


def test_a_daemon_that_starts_after_the_engine(tmp_path, monkeypatch, lab_of):
    daemon = Daemon(tmp_path, config=CONFIG)
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    with lab_of(daemon) as lab:
        keys = lab.keys(1, 2)
        assert lab.connector.batched_contains(keys) == 0
        assert lab.run(lab.connector.batched_get(keys)) == [None, None]
        lab.store(keys, [lab.chunk(1), lab.chunk(1)])
        assert lab.run(lab.connector.ping()) < 0
        assert lab.connector.stats()["breaker"]["open"]
        daemon.start()
        assert works_again(lab, itertools.count(100))
        assert lab.pool_used() == 0
    daemon.kill()


def test_a_daemon_that_dies_between_contains_and_get(own_daemon, lab_of):
    with lab_of(own_daemon) as lab:
        keys = lab.keys(*range(COUNT))
        lab.store(keys, [lab.chunk(1) for _ in keys])
        assert lab.connector.batched_contains(keys) == COUNT
        own_daemon.kill(signal.SIGKILL)
        assert lab.run(lab.connector.batched_get(keys)) == [None] * COUNT
        assert lab.run(lab.connector.batched_get_non_blocking("id", keys)) == []
        assert lab.connector.batched_contains(keys) == 0 and lab.pool_used() == 0
        assert lab.connector.stats()["breaker"]["open"]
        own_daemon.start()
        assert works_again(lab, itertools.count(100))
        assert lab.pool_used() == 0


@pytest.mark.parametrize("detection_ms, storages", [(60_000, 4)])
def test_a_stopped_storage_daemon_costs_its_own_chunks_only(cluster, lab_of, detection_ms,
                                                            storages):
    """The calls' own deadline ends the waiting for it."""
    kv.set_flag("clnt_sync_req_timeout_ms", "3000")
    kv.set_flag("clnt_async_req_timeout_ms", "3000")
    with lab_of(cluster.daemons["node"], manager=cluster.manager_address) as lab:
        keys = lab.keys(*range(COUNT))
        lab.store(keys, [lab.chunk(i) for i in range(COUNT)])
        assert lab.connector.batched_contains(keys) == COUNT
        cluster.daemons["b"].stop()
        try:
            got = lab.take(lab.run(lab.connector.batched_get(keys)))
        finally:
            cluster.daemons["b"].go_on()
        hits = [i for i, one in enumerate(got) if one is not None]
        assert 0 < len(hits) < COUNT
        assert [got[i] for i in hits] == [(CHUNK_BYTES, i) for i in hits]
        assert not lab.connector.stats()["breaker"]["open"] and lab.pool_used() == 0


@pytest.mark.parametrize("call", ["get", "put"])
def test_a_first_call_while_the_daemon_is_away_ends_the_asking(own_daemon, lab_of, call):
    """What a first call needs of the daemon can not be had: memory to stage in, which is an
    exception, or a channel, which is a code. Either ends the asking."""
    with lab_of(own_daemon) as lab:
        connector, key, chunk, raised = lab.connector, lab.key(1), lab.chunk(1), []
        store = connector._link.store()
        own_daemon.kill(signal.SIGKILL)
        while store.attached:
            store.ping(100)
        connector._failed = _listening(connector._failed, raised)
        if call == "get":
            assert lab.run(connector.batched_get([key])) == [None]
        else:
            lab.run(connector.batched_put([key], [chunk]))
        assert len(raised) <= 1
        assert connector.stats()["breaker"]["trips"] == 1
        assert connector._link.store() is None, "it would go on asking"
        lab.release([chunk])
        assert lab.pool_used() == 0


def test_an_exception_while_the_daemon_is_there_is_one_miss(own_daemon, lab_of):
    with lab_of(own_daemon) as lab:
        key = lab.key(1)
        lab.store([key], [lab.chunk(3)])
        call, raised = lab.connector._call, []

        async def fail(*arguments, **options):
            raise RuntimeError("for the test")

        lab.connector._failed = _listening(lab.connector._failed, raised)
        lab.connector._call = fail
        assert lab.run(lab.connector.batched_get([key])) == [None] and len(raised) == 1
        lab.connector._call = call
        assert lab.connector.stats()["breaker"]["trips"] == 0
        assert lab.take([lab.run(lab.connector.get(key))]) == [(CHUNK_BYTES, 3)]


def _listening(function, heard):
    def told(*arguments):
        heard.append(arguments)
        return function(*arguments)
    return told


def test_a_daemon_that_dies_again_and_again_while_chunks_move(own_daemon, lab_of):
    """Kills hit puts and gets under way: each round goes on until some of them have failed."""
    with lab_of(own_daemon) as lab:
        ended, wrong, turns, missed = threading.Event(), [], itertools.count(), []

        def move():
            for turn in turns:
                if ended.is_set():
                    return
                byte = turn % 251 + 1
                keys = lab.keys(*range(turn * COUNT, (turn + 1) * COUNT))
                lab.store(keys, [lab.chunk(byte) for _ in keys])
                got = lab.take(lab.run(lab.connector.batched_get(keys)))
                wrong.extend(one for one in got if one not in (None, (CHUNK_BYTES, byte)))
                missed.append(got.count(None))

        threads = [threading.Thread(target=move) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(3):
                before = len(missed)
                while len(missed) < before + 20 or missed[-1] != 0:
                    time.sleep(0.001)
                own_daemon.kill(signal.SIGKILL)
                while missed[-1] == 0:
                    time.sleep(0.001)
                own_daemon.start()
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        assert wrong == []
        assert works_again(lab, itertools.count(1 << 40))
        assert lab.pool_used() == 0


@pytest.mark.parametrize("sync", [False, True])
def test_a_storage_daemon_that_dies_between_contains_and_get(cluster, sync):
    if OLD and sync:
        pytest.skip("LMCache of 2025 has one kind")
    url = url_of(cluster.daemons["node"], "url", int(sync))
    url = url.replace("127.0.0.1:30001", cluster.manager_address)
    with Lab(url, save_chunk_meta=sync) as lab:
        keys = lab.keys(*range(4 * COUNT))
        lab.store(keys, [lab.chunk(1) for _ in keys])
        assert lab.connector.batched_contains(keys) == len(keys)
        cluster.daemons["b"].kill(signal.SIGKILL)
        got = lab.take(lab.run(lab.connector.batched_get(keys)))
        assert {None, (CHUNK_BYTES, 1)} == set(got), "those of the other one are there"
        assert not lab.connector.stats()["breaker"]["open"]
        cluster.daemons["b"].start()
        digests = itertools.count(100)
        end = time.monotonic() + 60
        while True:  # until both of them hold chunks again
            keys = lab.keys(*itertools.islice(digests, 2 * COUNT))
            lab.store(keys, [lab.chunk(2) for _ in keys])
            if lab.take(lab.run(lab.connector.batched_get(keys))) == [(CHUNK_BYTES, 2)] * len(keys):
                break
            assert time.monotonic() < end
        assert lab.pool_used() == 0


def test_closing_while_chunks_move(own_daemon, lab_of):
    with lab_of(own_daemon) as lab:
        ended, failures = threading.Event(), []

        def move():
            try:
                for turn in itertools.count():
                    if ended.is_set():
                        return
                    keys = lab.keys(*range(turn * COUNT, (turn + 1) * COUNT))
                    lab.store(keys, [lab.chunk(1) for _ in keys])
                    lab.take(lab.run(lab.connector.batched_get(keys)))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=move) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.1)
        lab.run(lab.connector.close())
        time.sleep(0.05)
        ended.set()
        for thread in threads:
            thread.join()
        assert failures == [] and lab.pool_used() == 0
