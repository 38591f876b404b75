"""HiCacheSimm when its daemon is killed, stopped or not yet there: misses, no exception, never a
wrong byte, and everything is back with the daemon."""

import signal
import threading

import pytest

torch = pytest.importorskip("torch", reason="SGLang's interface is made of tensors")

import harness  # noqa: E402
from conftest import CONFIG, Daemon  # noqa: E402
from harness import (  # noqa: E402
    HiCacheSimm, PoolName, backend, config, fill, hashes, indices, moved, pool, transfer,
    wait_until)
from simm import kv as simm_kv  # noqa: E402


def works(one, host, keys) -> bool:
    return one.batch_set_v1(keys, indices(range(len(keys)), host)) == [True] * len(keys)


def all_miss(one, host, keys) -> bool:
    places = indices(range(len(keys)), host)
    no = [False] * len(keys)
    side = [transfer(PoolName.MAMBA, keys, None)]
    return (one.batch_get_v1(keys, places) == no and one.batch_set_v1(keys, places) == no
            and one.batch_exists(keys) == 0 and one.exists(keys[0]) is False
            and one.batch_get(keys, [torch.zeros(8)] * len(keys)) == [None] * len(keys)
            and one.batch_set(keys, [torch.zeros(8)] * len(keys)) is False
            and one.batch_exists_v2(keys, side).kv_hit_pages == 0
            and one.batch_get_v2(side) == {PoolName.MAMBA: no}
            and one.batch_set_v2(side) == {PoolName.MAMBA: no} and one.clear() is False)


@pytest.fixture(params=["shm", "default"])
def attached(own_daemon, request):
    host = pool("mha", allocator=request.param)
    one = backend(own_daemon.socket, host, model_name="faults")
    yield one, host
    one.close()


def test_killed_between_exists_and_get(own_daemon, attached):
    one, host = attached
    keys = hashes(8, "killed")
    fill(host, range(8), 1)
    assert works(one, host, keys) and one.batch_exists(keys) == 8
    own_daemon.kill()
    fill(host, range(8, 16), 77)
    before = [harness.content(host, page) for page in range(8, 16)]
    assert one.batch_get_v1(keys, indices(range(8, 16), host)) == [False] * 8
    assert [harness.content(host, page) for page in range(8, 16)] == before
    assert one.facts()["breaker"]["open"]
    asked = one.facts()["submissions"]
    for _ in range(20):
        assert all_miss(one, host, keys)
    refused = one.facts()["breaker"]["calls_refused"]
    assert one.facts()["submissions"] <= asked + 3 and refused >= 100  # the thread's looks
    own_daemon.start()
    wait_until(lambda: works(one, host, keys))
    assert one.batch_exists(keys) == 8  # it starts empty: what is there was put since
    assert all(one.batch_get_v1(keys, indices(range(8, 16), host)))
    assert all(moved(host, page, page + 8) for page in range(8))


def test_killed_during_gets_and_puts(own_daemon, attached):
    """A writer and a reader, as SGLang's two threads; every hit has the bytes of its key."""
    one, host = attached
    keys = hashes(16, "during")
    fill(host, range(16), 3)
    expected = [harness.content(host, page) for page in range(16)]
    stop, troubles, hits = threading.Event(), [], [0]

    def write() -> None:
        while not stop.is_set():
            one.batch_set_v1(keys, indices(range(16), host))

    def read() -> None:
        while not stop.is_set():
            fill(host, range(16, 32), 120)
            got = one.batch_get_v1(keys, indices(range(16, 32), host))
            for page, hit in enumerate(got):
                if hit and harness.content(host, 16 + page) != expected[page]:
                    troubles.append(page)
                hits[0] += hit

    def guarded(work) -> None:
        try:
            work()
        except BaseException as error:  # would end a thread of SGLang's
            troubles.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (write, read)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        seen = hits[0]
        wait_until(lambda seen=seen: hits[0] > seen + 100 or troubles)
        own_daemon.kill()
        wait_until(lambda: one.facts()["breaker"]["open"] or troubles)
        own_daemon.start()
    seen = hits[0]
    wait_until(lambda: hits[0] > seen + 100 or troubles)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert troubles == [] and one.facts()["breaker"]["trips"] >= 3


def test_a_daemon_that_starts_later(tmp_path):
    later = Daemon(tmp_path, config=CONFIG)
    host = pool("mla", allocator="shm")
    one = backend(later.socket, host, is_mla_model=True)
    keys = hashes(4, "late")
    fill(host, range(4), 5)
    try:
        assert all_miss(one, host, keys) and one.facts()["breaker"]["open"]
        later.start()
        wait_until(lambda: works(one, host, keys))
        assert one.batch_exists(keys) == 4
        assert all(one.batch_get_v1(keys, indices(range(8, 12), host)))
        assert all(moved(host, page, page + 8) for page in range(4))
    finally:
        one.close()
        later.kill(signal.SIGTERM)


@pytest.mark.parametrize("made", ["before", "after"])
def test_attached_while_the_daemon_is_away(own_daemon, made):
    """The process has a session with it, from a backend that was attached before."""
    host, side = pool("mla", allocator="shm"), pool("mamba", allocator="shm")
    first = backend(own_daemon.socket, pool("mla"), is_mla_model=True)
    keys = hashes(4, "away")
    fill(host, range(4), 5)
    changes = {"extra": {"interface_v1": 1, "socket": own_daemon.socket}, "is_mla_model": True}
    if made == "before":
        one = HiCacheSimm(config(**changes))
    own_daemon.kill()
    if made == "after":
        one = HiCacheSimm(config(**changes))
    one.register_mem_pool_host(host)
    one.register_mem_host_pool_v2(side, PoolName.MAMBA)
    try:
        assert all_miss(one, host, keys)
        own_daemon.start()
        wait_until(lambda: works(one, host, keys))
        assert all(one.batch_get_v1(keys, indices(range(8, 12), host)))
        assert all(moved(host, page, page + 8) for page in range(4))
        states = transfer(PoolName.MAMBA, keys, indices(range(4), side))
        assert one.batch_set_v2([states]) == {PoolName.MAMBA: [True] * 4}
    finally:
        one.close()
        first.close()


def test_closed_while_it_looks_for_a_daemon(tmp_path):
    def lookers() -> set:
        return {thread for thread in threading.enumerate() if thread.name == "simm-breaker"}

    before = lookers()
    one = backend(str(tmp_path / "none.sock"), pool("mla"), is_mla_model=True)
    assert one.facts()["breaker"]["open"] and lookers() - before
    one.close()
    wait_until(lambda: not lookers() - before)


def test_a_stopped_daemon_is_asked_twice_and_then_left_alone(own_daemon):
    simm_kv.set_flag("clnt_sync_req_timeout_ms", "300")
    host = pool("mla", allocator="shm")
    one = backend(own_daemon.socket, host, is_mla_model=True)
    keys = hashes(4, "stopped")
    try:
        assert works(one, host, keys)
        own_daemon.stop()
        assert one.batch_exists(keys) == 0 and one.batch_exists(keys) == 0
        assert one.facts()["breaker"]["open"]
        asked = one.facts()["submissions"]
        assert all_miss(one, host, keys) and one.facts()["submissions"] <= asked + 2
        own_daemon.go_on()
        wait_until(lambda: one.batch_exists(keys) == 4)
    finally:
        own_daemon.go_on()
        one.close()


@pytest.mark.parametrize("odd", [None, 7, "text", [1, None], [object()], object()],
                         ids=["none", "number", "text", "numbers", "objects", "object"])
def test_arguments_of_other_kinds_are_misses(own_daemon, odd):
    """An exception would end SGLang's storage thread."""
    one = backend(own_daemon.socket, pool("mla"), is_mla_model=True)
    try:
        assert one.batch_get_v2(odd) == {} and one.batch_set_v2(odd) == {}
        assert one.batch_exists_v2(odd, odd).kv_hit_pages == 0
        assert one.batch_exists(odd) == 0 and not one.set(odd, odd) and one.get(odd, odd) is None
        for call in (one.batch_get_v1, one.batch_set_v1, one.batch_get):
            assert not any(call(odd, odd))
        assert one.batch_set(odd, odd) is False and one.exists(odd) is False
    finally:
        one.close()
