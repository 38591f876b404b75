"""deregister_mr(): when it has returned, nothing writes into the memory any more."""

import mmap
import os
import threading
import time

import numpy
import pytest

from conftest import fill
from simm import _native, kv
from simm.kv import BlockView, deregister_mr, register_mr

PAGE = 1 << 20
PAGES = 4


def private_memory():
    return numpy.zeros(PAGES * PAGE, numpy.uint8), []


def shared_memory():
    fd = os.memfd_create("pool")
    os.ftruncate(fd, PAGES * PAGE)
    memory = numpy.frombuffer(mmap.mmap(fd, PAGES * PAGE), numpy.uint8)
    memory[:] = 0
    return memory, [fd]


def put_pages(store, key):
    block = fill(store.allocate(PAGE), 3)
    keys = [f"{key}{i}" for i in range(PAGES)]
    assert store.mput(keys, [block.view()] * PAGES) == [0] * PAGES
    return keys


def wait_for_submissions(store, more_than):
    deadline = time.monotonic() + 60
    while store.stats()["submissions"] <= more_than:
        assert time.monotonic() < deadline
        time.sleep(0.001)


class Reader(threading.Thread):
    """Gets twice: once before the daemon stops, which makes the lane's staging memory."""

    def __init__(self, store, keys, views):
        super().__init__()
        self._call = (store, keys, views)
        self.is_warm, self.may_go_on = threading.Event(), threading.Event()

    def run(self):
        store, keys, views = self._call
        store.mget(keys, views)
        self.is_warm.set()
        self.may_go_on.wait(60)
        store.mget(keys, views)


class Writer(threading.Thread):
    """Deregisters, and then uses the memory for something else."""

    def __init__(self, mr, memory):
        super().__init__()
        self._mr, self._memory = mr, memory

    def run(self):
        deregister_mr(self._mr)
        self._memory[:] = 0xAB


@pytest.mark.parametrize("memory_of", [private_memory, shared_memory])
@pytest.mark.parametrize("registered", ["once", "twice", "inside another", "around another",
                                        "two threads deregister"])
def test_what_was_deregistered_is_not_written(own_daemon, key, memory_of, registered):
    memory, fds = memory_of()
    with kv.Store() as store:
        keys = put_pages(store, key)
        mine, others = memory, []
        if registered == "twice":
            others.append(register_mr(memory, fds=fds))
        if registered == "inside another":
            others.append(register_mr(memory, fds=fds))
            mine = memory[:-PAGE]
        mr = register_mr(mine, fds=fds)
        if registered == "around another":
            others.append(register_mr(memory[PAGE:2 * PAGE]))
        pages = len(mine) // PAGE
        views = [BlockView.from_tensor(mine[i * PAGE:(i + 1) * PAGE], mr) for i in range(pages)]
        reader = Reader(store, keys[:pages], views)
        reader.start()
        assert reader.is_warm.wait(60)
        before = store.stats()["submissions"]
        own_daemon.stop()
        writers = [Writer(mr, mine)]
        if registered == "two threads deregister":
            writers.insert(0, threading.Thread(target=deregister_mr, args=(mr,)))
        try:
            reader.may_go_on.set()
            wait_for_submissions(store, before)
            for writer in writers:
                writer.start()
                while not mr.closed:
                    time.sleep(0.001)
            writers[-1].join(0.3)  # what waits for nothing has written after that time
        finally:
            own_daemon.go_on()
        for thread in (reader, *writers):
            thread.join(60)
        store.ping()
        assert (mine == 0xAB).all()
        assert all(mr.pieces for mr in others)


def test_the_loops_own_thread_may_deregister(own_daemon, key):
    """Nobody else takes the batch on: deregister_mr() does, and the loop still gets its results."""
    memory = numpy.zeros(PAGES * PAGE, numpy.uint8)
    with kv.Store() as store:
        keys = put_pages(store, key)
        mr, other = register_mr(memory), register_mr(memory)
        views = [BlockView.from_tensor(memory[i * PAGE:(i + 1) * PAGE], mr) for i in range(PAGES)]
        channel = store.open_channel()
        for _ in range(4):  # makes the lanes' staging memory
            channel.start(_native.Operation.get, keys, views)
        assert [results for _, results in channel.finish()] == [[PAGE] * PAGES] * 4
        own_daemon.stop()
        ticket = channel.start(_native.Operation.get, keys, views)
        later = threading.Timer(0.3, own_daemon.go_on)
        later.start()
        deregister_mr(mr)
        memory[:] = 0xAB
        later.join(60)
        assert channel.finish() == [(ticket, [PAGE] * PAGES)]
        assert (memory == 0xAB).all() and not other.closed
        channel.close()


def test_others_go_on_with_the_memory(store, key):
    """A deregistration waits for the calls that had begun, not for those that come later."""
    memory = numpy.zeros(PAGE, numpy.uint8)
    mr, other = register_mr(memory), register_mr(memory)
    assert store.put(key, BlockView.from_tensor(memory, other)) == 0
    stop = threading.Event()

    def work():
        while not stop.is_set():
            assert store.get(key, BlockView.from_tensor(memory, other)) == PAGE

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    waiter = threading.Thread(target=deregister_mr, args=(mr,))
    waiter.start()
    waiter.join(60)
    ended = not waiter.is_alive()
    stop.set()
    for thread in threads:
        thread.join(60)
    assert ended and store.get(key, BlockView.from_tensor(memory, mr)) == -1004
    assert store.get(key, BlockView.from_tensor(memory, other)) == PAGE
