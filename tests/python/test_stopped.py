"""Shared memory while the daemon is stopped in the middle of a call."""

import mmap
import os
import threading
import time

import numpy
import pytest

from conftest import fill
from simm import kv

PAGE = 4096


def get_while_stopped(own_daemon, store, key, view):
    """The get's result. The daemon is stopped while the get is on its way, and goes on after it."""
    own_daemon.stop()
    try:
        return store.get(key, view, timeout_ms=50)
    finally:
        own_daemon.go_on()


def wait_until_attached(store):
    """The next session is tried for after a wait; until then calls fail at once."""
    until_s = time.monotonic() + 60
    while store.ping(20_000) != 0 and time.monotonic() < until_s:
        time.sleep(0.01)


def taken_back_warnings(caplog):
    return [record for record in caplog.records if "are private now" in record.getMessage()]


def test_shared_memory_that_becomes_private_is_said_once(own_daemon, key, caplog):
    with kv.Store() as store:
        block = fill(store.allocate(PAGE), 7)
        assert store.put(key, block.view()) == 0
        for _ in range(2):
            other = fill(store.allocate(17 << 20), 5)  # memory of its own
            assert get_while_stopped(own_daemon, store, key, other.view()) == -1002
            wait_until_attached(store)
            assert store.get(key, other.view()) == PAGE
        assert store.stats()["taken_back"] >= 2
        assert len(taken_back_warnings(caplog)) == 1
        assert "wait_if_stopped=True" in taken_back_warnings(caplog)[0].getMessage()


@pytest.mark.parametrize("way", ["register_mr", "allocate", "alloc_tensor"])
def test_memory_stays_shared_where_a_call_may_wait(own_daemon, key, caplog, way):
    with kv.Store() as store:
        assert store.put(key, fill(store.allocate(PAGE), 7).view()) == 0
        if way == "register_mr":
            fd = os.memfd_create("pool")
            os.ftruncate(fd, PAGE)
            memory = numpy.frombuffer(mmap.mmap(fd, PAGE), numpy.uint8)
            mr = kv.register_mr(memory, fds=[fd], wait_if_stopped=True)
            assert kv.register_mr(memory) is not None
        elif way == "allocate":
            memory = numpy.frombuffer(store.allocate(PAGE, wait_if_stopped=True), numpy.uint8)
            mr = None
        else:
            memory = store.alloc_tensor((PAGE,), "uint8", wait_if_stopped=True)
            mr = None
        view = kv.BlockView.from_tensor(memory, mr)
        own_daemon.stop()
        results = []
        caller = threading.Thread(target=lambda: results.append(
            store.get(key, view, timeout_ms=50)))
        caller.start()
        caller.join(1)  # five times as long as one that takes back
        waited = caller.is_alive()
        own_daemon.go_on()
        caller.join(60)
        assert waited and results and store.stats()["taken_back"] == 0
        wait_until_attached(store)
        assert store.get(key, view) == PAGE and (memory == 7).all()
        assert not taken_back_warnings(caplog)


def test_a_wish_to_wait_is_not_dropped_silently(store, caplog):
    memory = numpy.zeros(PAGE, numpy.uint8)
    first = kv.register_mr(memory)
    assert kv.register_mr(memory[:4096], wait_if_stopped=True) is None
    assert "wait_if_stopped = True" in caplog.text
    assert kv.deregister_mr(first)
    assert kv.register_mr(memory[:4096], wait_if_stopped=True).pieces
