"""simm.lmcache's client for LMCache's multi-process server, against a real daemon: as LMCache's
adapter drives it (a descriptor is polled, completions are taken), and, with a checkout, driven by
that adapter itself."""

import ctypes
import mmap
import os
import select
import signal
import threading
import time

import numpy
import pytest

from conftest import CONFIG, Daemon
from simm.lmcache import SimmL2Client
from simm.store import Store

CHUNK = 64 << 10
CHUNKS = 64


class Server:
    """LMCache's side: a pool of memory, and buffers of it that nobody owns."""

    def __init__(self, client, shared=True):
        self.client = client
        flags = mmap.MAP_ANONYMOUS | (mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE)
        self.memory = mmap.mmap(-1, CHUNKS * CHUNK, flags)
        self.pool = numpy.frombuffer(self.memory, numpy.uint8)
        self.done = {}
        self._poller = select.poll()
        self._poller.register(client.event_fd(), select.POLLIN)

    def buffer(self, i, size=CHUNK):
        address = self.pool.ctypes.data + i * CHUNK
        return memoryview((ctypes.c_ubyte * size).from_address(address))

    def fill(self, i, byte):
        self.pool[i * CHUNK:(i + 1) * CHUNK] = byte
        return self.buffer(i)

    def has(self, i, byte, size=CHUNK):
        return bool((self.pool[i * CHUNK:i * CHUNK + size] == byte).all())

    def wait(self, number, timeout_s=60):
        """(ok, error, list of bool) of a batch."""
        deadline = time.monotonic() + timeout_s
        while number not in self.done:
            assert time.monotonic() < deadline, "no completion"
            if self._poller.poll(100):
                for done, ok, error, found in self.client.drain_completions():
                    assert done not in self.done, "completed twice"
                    self.done[done] = (ok, error, found)
        return self.done[number]


@pytest.fixture
def server(daemon, monkeypatch):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    made = Server(SimmL2Client(manager_address="127.0.0.1:30001"))
    yield made
    made.client.close()


def test_set_exists_get_and_delete(server, key):
    client = server.client
    keys = [f"{key}{i}" for i in range(8)]
    assert server.wait(client.submit_batch_exists(keys)) == (True, "", [False] * 8)
    buffers = [server.fill(i, i + 1) for i in range(5)]
    assert server.wait(client.submit_batch_set(keys[:5], buffers)) == (True, "", [True] * 5)
    assert server.wait(client.submit_batch_exists(keys)) == (True, "", [True] * 5 + [False] * 3)
    targets = [server.fill(8 + i, 0) for i in range(8)]
    ok, error, found = server.wait(client.submit_batch_get(keys, targets))
    assert (ok, error, found) == (False, "", [True] * 5 + [False] * 3)
    assert all(server.has(8 + i, i + 1) for i in range(5)) and server.has(13, 0)
    deleted = client.submit_batch_delete([keys[0], keys[7]])
    assert server.wait(deleted) == (True, "", [True, True]), "gone is gone"
    assert server.wait(client.submit_batch_exists(keys[:2]))[2] == [False, True]
    assert client.drain_completions() == []


def test_the_pool_is_registered_once_and_bytes_are_not_copied(server, key):
    client = server.client
    for i in range(20):
        assert server.wait(client.submit_batch_set([f"{key}{i}"], [server.fill(i, i)]))[0]
    assert len(client._pools._pools) == 1
    assert client.stats()["bytes_moved"] >= 20 * CHUNK
    assert client._pools._pools[0].pieces[0][2] in ("adopted", "staged")


def test_small_memory_is_registered_for_its_call(server, key):
    pages = [mmap.mmap(-1, mmap.PAGESIZE) for _ in range(6)]
    keys = [f"{key}{i}" for i in range(3)]
    client = server.client
    for page in pages[:3]:
        page[:] = b"\x07" * len(page)
    assert server.wait(client.submit_batch_set(keys, [memoryview(one) for one in pages[:3]]))[0]
    assert server.wait(client.submit_batch_get(keys, [memoryview(one) for one in pages[3:]]))[0]
    assert all(set(one[:]) == {7} for one in pages[3:])
    assert client._pools._pools == []


def test_another_size_is_a_miss_and_a_set_does_not_replace(server, key):
    client = server.client
    assert server.wait(client.submit_batch_set([key], [server.fill(0, 1)]))[0]
    assert server.wait(client.submit_batch_set([key], [server.fill(1, 2)]))[0]
    assert server.wait(client.submit_batch_get([key], [server.buffer(2, 100)]))[2] == [False]
    assert server.wait(client.submit_batch_set([key + "short"], [server.buffer(0, 100)]))[0]
    assert server.wait(client.submit_batch_get([key + "short"], [server.buffer(2)]))[2] == [False]
    assert server.wait(client.submit_batch_get([key], [server.buffer(2)]))[2] == [True]
    assert server.has(2, 1)


def test_keys_of_any_length_and_what_makes_no_sense(server, key):
    client = server.client
    long = [key + "x" * 3000 + str(i) for i in range(2)]
    assert server.wait(client.submit_batch_set(long, [server.fill(i, i + 1) for i in range(2)]))[0]
    assert server.wait(client.submit_batch_get(long[::-1], [server.buffer(2), server.buffer(3)]))[0]
    assert server.has(2, 2) and server.has(3, 1)
    ok, error, found = server.wait(client.submit_batch_set([key], ["no memory"]))
    assert not ok and error and found == [False]
    for parameters in ({"lease_ms": -1}, {"timeout_ms": "1"}):
        with pytest.raises(ValueError, match="milliseconds"):
            SimmL2Client(**parameters)


def test_batches_of_many_threads_complete_once_each(server, key):
    client, numbers, lock = server.client, {}, threading.Lock()

    def submit(thread):
        for turn in range(25):
            name = f"{key}{thread}-{turn}"
            number = client.submit_batch_exists([name, name])
            with lock:
                numbers[number] = thread

    threads = [threading.Thread(target=submit, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(numbers) == 200
    assert all(server.wait(number) == (True, "", [False, False]) for number in numbers)


def test_close_during_use_waits_for_the_buffers(daemon, monkeypatch, key):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    client = SimmL2Client()
    server = Server(client)
    keys = [f"{key}{i}" for i in range(32)]
    client.submit_batch_set(keys, [server.fill(i, i) for i in range(32)])
    client.close()
    server.pool[:] = 0xEE  # nobody reads it any more
    client.close()
    assert client.drain_completions() == []
    client.submit_batch_exists(keys)  # is of no consequence
    with Store() as store:
        block = store.allocate(CHUNK)
        for i, name in enumerate(keys):
            if store.get(name, block.view()) > 0:
                assert set(bytes(block)) == {i}, name


def test_close_waits_for_a_daemon_that_is_slow(own_daemon, key):
    """Stopped, it reads the buffers later: they must be as they were until close() returns."""
    client = SimmL2Client(timeout_ms=60_000)
    server = Server(client)
    assert server.wait(client.submit_batch_set([key], [server.fill(0, 1)]))[0]
    open_before = len(os.listdir("/proc/self/fd"))
    keys = [f"{key}{i}" for i in range(32)]
    own_daemon.stop()
    client.submit_batch_set(keys, [server.fill(i, i + 1) for i in range(32)])
    closed = threading.Event()

    def close():
        client.close()
        server.pool[:] = 0xEE
        closed.set()

    closing = threading.Thread(target=close)
    closing.start()
    try:
        assert not closed.wait(0.5), "the daemon has read nothing yet"
    finally:
        own_daemon.go_on()
        closing.join()
    # The channel's, the poller's, and the two of the pipe.
    assert len(os.listdir("/proc/self/fd")) <= open_before - 4
    with Store() as store:
        block = store.allocate(CHUNK)
        for i, name in enumerate(keys):
            assert store.get(name, block.view()) == CHUNK and set(bytes(block)) == {i + 1}, name


def test_the_pool_stays_the_one_that_others_map_beside_a_stopped_daemon(own_daemon, key):
    """A GPU has pinned it, and other processes may map it: a buffer does not say so."""
    client = SimmL2Client(timeout_ms=300)
    server = Server(client)
    try:
        assert server.wait(client.submit_batch_set([key], [server.fill(0, 7)]))[0]
        own_daemon.stop()
        try:
            number = client.submit_batch_get([key], [server.fill(1, 0)])
            ends_s = time.monotonic() + 1.2
            while time.monotonic() < ends_s:
                server.done.update((done[0], done) for done in client.drain_completions())
                assert number not in server.done, "the daemon may still write there"
                time.sleep(0.02)
        finally:
            own_daemon.go_on()
        server.wait(number)
        assert client.stats()["taken_back"] == 0
        while not server.wait(client.submit_batch_get([key], [server.fill(1, 0)]))[0]:
            pass  # the session is looked for by a thread
        assert server.has(1, 7)
    finally:
        client.close()


def test_a_daemon_that_starts_late_and_one_that_dies(tmp_path, monkeypatch, key):
    daemon = Daemon(tmp_path, config=CONFIG)
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    client = SimmL2Client()
    server = Server(client)
    try:
        ok, error, found = server.wait(client.submit_batch_exists([key]))
        assert not ok and "unreachable" in error and found == [False]
        assert server.wait(client.submit_batch_set([key], [server.fill(0, 1)]))[2] == [False]

        def store_and_fetch(byte):
            deadline = time.monotonic() + 60
            while not server.wait(client.submit_batch_set([key], [server.fill(0, byte)]))[0]:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert server.wait(client.submit_batch_get([key], [server.fill(1, 0)]))[2] == [True]
            assert server.has(1, byte)

        daemon.start()
        store_and_fetch(3)
        assert server.wait(client.submit_batch_exists([key]))[2] == [True]
        daemon.kill(signal.SIGKILL)  # between a lookup and its load
        ok, error, found = server.wait(client.submit_batch_get([key], [server.buffer(2)]))
        assert not ok and error and found == [False]
        daemon.start()
        store_and_fetch(4)
        stats = client.stats()
        assert stats["breaker"]["trips"] >= 1 and not stats["breaker"]["open"]
    finally:
        client.close()
        daemon.kill()


@pytest.mark.skipif(not os.environ.get("SIMM_LMCACHE_CHECKOUT"),
                    reason="SIMM_LMCACHE_CHECKOUT names no checkout")
def test_driven_by_lmcaches_own_adapter(daemon, monkeypatch):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    import torch
    from lmcache_lab import CHUNK_BYTES, OLD, REAL, Lab
    if OLD or not REAL:
        pytest.skip("LMCache of 2025 has no L2 adapters")
    from lmcache.v1.distributed.api import ObjectKey
    from lmcache.v1.distributed.l2_adapters import native_plugin_l2_adapter as plugin
    config = plugin.NativePluginL2AdapterConfig.from_dict({
        "type": "native_plugin", "module_path": "simm.lmcache", "class_name": "SimmL2Client",
        "adapter_params": {"namespace": "l2"}})
    adapter = plugin._create_native_plugin_l2_adapter(config)
    keys = [ObjectKey(chunk_hash=bytes([i]) * 32, model_name="m", kv_rank=0) for i in range(6)]

    def result(fd, query, task):
        assert select.select([fd], [], [], 30)[0]
        found = query(task)
        while found is None:
            time.sleep(0.01)
            found = query(task)
        return [found.test(i) for i in range(6)]

    with Lab("simm://127.0.0.1:30001/") as lab:
        chunks = [lab.chunk(i + 1) for i in range(6)]
        task = adapter.submit_store_task(keys[:4], chunks[:4])
        assert select.select([adapter.get_store_event_fd()], [], [], 30)[0]
        stored = adapter.pop_completed_store_tasks()[task]
        assert stored.is_successful() and stored.bytes_transferred() == 4 * CHUNK_BYTES
        task = adapter.submit_lookup_and_lock_task(keys, {})
        assert result(adapter.get_lookup_and_lock_event_fd(), adapter.query_lookup_and_lock_result,
                      task) == [True] * 4 + [False] * 2
        targets = [lab.chunk(0) for _ in range(6)]
        task = adapter.submit_load_task(keys, targets)
        assert result(adapter.get_load_event_fd(), adapter.query_load_result,
                      task) == [True] * 4 + [False] * 2
        assert [int(torch.frombuffer(one.byte_array, dtype=torch.uint8).max())
                for one in targets] == [1, 2, 3, 4, 0, 0]
        adapter.delete(keys[:1])
        task = adapter.submit_lookup_and_lock_task(keys, {})
        assert result(adapter.get_lookup_and_lock_event_fd(), adapter.query_lookup_and_lock_result,
                      task) == [False] + [True] * 3 + [False] * 2
        adapter.close()
        lab.release(chunks + targets)
