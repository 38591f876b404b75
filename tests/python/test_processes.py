"""Fork, spawn, threads, several processes, a daemon that dies, and the end of the interpreter."""

import asyncio
import multiprocessing
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

from conftest import fill, run_python
from simm import kv
from simm.results import UNREACHABLE


def test_a_forked_child_works_and_leaves_its_parent_alone(store, key):
    block = fill(store.allocate(4096), 1)
    assert store.put(key + "1", block.view()) == 0
    child = os.fork()
    if child == 0:
        ok = False
        try:
            target = store.allocate(4096)
            ok = store.get(key + "1", target.view()) == 4096 and bytes(target) == b"\1" * 4096
            ok = ok and store.put(key + "2", target.view()) == 0
            store.close()
        finally:
            os._exit(0 if ok else 1)
    assert store.put(key + "3", block.view()) == 0
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.mexists([key + "1", key + "2", key + "3"]) == [True] * 3
    assert ord(bytes(store.allocate(1))) == 0


def test_a_child_forked_while_threads_are_in_calls(store, key):
    stop = threading.Event()

    def work():
        while not stop.is_set():
            store.exists(key)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                os._exit(0 if store.exists(key) is False else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)


def rank(number: int, key: str, all_attached, all_put) -> None:
    """One of eight: everybody is attached before the first puts, and has put before the first
    gets what all the others have put."""
    kv.set_flag("clnt_sync_req_timeout_ms", "60000")
    with kv.Store() as store:
        blocks = [fill(store.allocate(50_000), 10 * number + i) for i in range(10)]
        all_attached.wait(100)
        names = [f"{key}{number}-{i}" for i in range(10)]
        assert store.mput(names, [block.view() for block in blocks]) == [0] * 10
        all_put.wait(100)
        for other in range(8):
            names = [f"{key}{other}-{i}" for i in range(10)]
            assert store.mget(names, [block.view() for block in blocks]) == [50_000] * 10
            for i, block in enumerate(blocks):
                assert bytes(block) == bytes([10 * other + i]) * 50_000


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_eight_processes_at_once(store, key, method):
    context = multiprocessing.get_context(method)
    barriers = [context.Barrier(8), context.Barrier(8)]
    ranks = [context.Process(target=rank, args=(n, key, *barriers)) for n in range(8)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(120)
    assert [process.exitcode for process in ranks] == [0] * 8
    assert store.exists(key + "7-9")


def test_threads_share_a_store(store, key):
    failed = []

    def work(number):
        block, target = fill(store.allocate(10_000), number), store.allocate(10_000)
        for i in range(30):
            name = f"{key}{number}-{i}"
            if store.put(name, block.view()) != 0 or store.get(name, target.view()) != 10_000 or \
                    bytes(target) != bytes(block):
                failed.append(name)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed


def test_the_interpreters_lock_is_not_held_in_a_call(own_daemon, key):
    kv.set_flag("clnt_sync_req_timeout_ms", "1000")
    with kv.Store() as store:
        ticks = []
        own_daemon.stop()
        try:
            caller = threading.Thread(target=store.exists, args=(key,))
            caller.start()
            while caller.is_alive():
                ticks.append(time.monotonic())
                time.sleep(0.01)
        finally:
            own_daemon.go_on()
        assert len(ticks) >= 4  # with the lock held it would be 2 at most


def test_a_daemon_that_dies_in_the_middle_of_a_call_and_comes_back(own_daemon, key):
    with kv.Store() as store:
        view = fill(store.allocate(1 << 20), 3).view()
        assert store.put(key, view) == 0
        results = []
        stop = threading.Event()

        def work():
            while not stop.is_set():
                results.append(store.get(key, view))

        worker = threading.Thread(target=work)
        worker.start()
        time.sleep(0.2)
        own_daemon.kill()
        deadline = time.monotonic() + 60
        while UNREACHABLE not in results and time.monotonic() < deadline:
            time.sleep(0.01)
        stop.set()
        worker.join(60)
        assert UNREACHABLE in results and set(results) <= {1 << 20, UNREACHABLE}
        assert store.exists(key) is False
        pathlib.Path(own_daemon.socket).unlink(missing_ok=True)
        own_daemon.start()
        while not store.ping() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert store.put(key, view) == 0 and store.exists(key)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_daemon_that_dies_while_a_call_waits_for_it(own_daemon, key, asynchronous):
    """The call ends because the daemon is gone, long before its deadline."""
    kv.set_flag("clnt_sync_req_timeout_ms", "600000")
    kv.set_flag("clnt_async_req_timeout_ms", "600000")
    with kv.Store() as store:
        blocks = [fill(store.allocate(1 << 20), 3) for _ in range(4)]
        keys = [f"{key}{i}" for i in range(4)]
        views = [block.view() for block in blocks]
        assert store.mput(keys, views) == [0] * 4
        own_daemon.stop()
        killer = threading.Timer(0.3, own_daemon.kill)
        killer.start()
        if asynchronous:
            results = asyncio.run(store.mget_async(keys, views))
        else:
            results = store.mget(keys, views)
        killer.join(60)
        assert results == [UNREACHABLE] * 4
        assert all(bytes(block) == b"\3" * (1 << 20) for block in blocks)


def test_a_child_forked_from_a_process_with_an_event_loop(store, key):
    async def in_parent():
        view = fill(store.allocate(4096), 1).view()
        assert await store.put_async(key + "1", view) == 0
        child = os.fork()
        if child == 0:
            done = []
            worker = threading.Thread(target=lambda: done.append(asyncio.run(in_child(view))))
            worker.start()  # in a thread of its own, because this one has a running loop
            worker.join(60)
            os._exit(0 if done == [True] else 1)
        assert await store.put_async(key + "3", view) == 0
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return status, await store.mexists_async([key + "1", key + "2", key + "3"])

    async def in_child(view):
        return await store.exists_async(key + "1") and bool(await store.put_async(key + "2", view))

    assert asyncio.run(in_parent()) == (0, [True] * 3)


@pytest.mark.parametrize("text", [
    "store = kv.Store(); block = store.allocate(4096); store.put('exit', block.view())",
    "store = kv.Store(); view = store.allocate(4096).view(); store.close()",
    "import atexit; store = kv.Store(); atexit.register(store.exists, 'exit')",
    "import threading; store = kv.Store()\n"
    "def work():\n"
    "    while True: store.mexists(['exit'] * 100)\n"
    "for _ in range(4): threading.Thread(target=work, daemon=True).start()\n"
    "import time; time.sleep(0.3)",
    "import asyncio; store = kv.Store()\n"
    "async def main(): asyncio.ensure_future(store.mexists_async(['exit'] * 100)); "
    "await asyncio.sleep(0)\n"
    "asyncio.run(main())",
    "import sys; store = kv.Store(); kv.keep = store; store.me = store; sys.store = store",
])
def test_the_interpreter_ends_in_any_order(daemon, text):
    ended = run_python("from simm import kv\n" + text, SIMM_SOCKET=daemon.socket)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_python_m_simm(daemon):
    def ask(socket):
        return subprocess.run([sys.executable, "-m", "simm"], capture_output=True, text=True,
                              env={**os.environ, "SIMM_SOCKET": socket}, timeout=120, check=False)
    asked = ask(daemon.socket)
    assert asked.returncode == 0 and daemon.socket in asked.stdout and "yes" in asked.stdout
    asked = ask(daemon.socket + ".not")
    assert asked.returncode == 1 and "not connected" in asked.stderr


def test_torch_is_imported_late_and_not_needed(daemon):
    """With a torch that can not be imported everything gives numpy arrays."""
    ended = run_python("""
import sys
from simm import kv
assert 'torch' not in sys.modules and 'numpy' not in sys.modules
sys.modules['torch'] = None
store = kv.Store()
block = store.allocate(4096)
array = block.as_ref()
assert type(array).__module__ == 'numpy' and array.shape == (4096,) and array.flags.writeable
array[:] = 7
assert store.put('no torch', block.view()) == 0
assert type(store.alloc_tensor((4, 4), 'float32')).__module__ == 'numpy'
""", SIMM_SOCKET=daemon.socket)
    assert (ended.returncode, ended.stderr) == (0, "")
