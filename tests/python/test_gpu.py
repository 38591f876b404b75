"""Memory of a GPU in Python, on the driver of the tests: it stands for NVIDIA's in this process and
in the daemon's helper."""

import contextlib
import ctypes
import os
import pathlib
import random
import re
import signal
import threading
import types

import pytest

import simm.gpu
from conftest import CONFIG, Daemon
from gpu_memory import Allocation, DeviceArray, Gpu
from simm import kv
from simm.results import NOT_FOUND

DRIVER = os.environ.get("SIMM_TEST_CUDA_DRIVER", "")
pytestmark = pytest.mark.skipif(not DRIVER, reason="no driver of the tests")
PAGE = 100_000
README = pathlib.Path(__file__).resolve().parents[2] / "python/README.md"


@pytest.fixture(scope="module")
def gpu():
    return Gpu(DRIVER)


def daemon_in(directory, enabled: str) -> Daemon:
    text = CONFIG.strip()[:-1] + ', "gpu": {"enabled": ' + enabled + "}}"
    return Daemon(directory, config=text)


@pytest.fixture(scope="module")
def gpu_daemon(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", os.path.dirname(DRIVER))
        running = daemon_in(tmp_path_factory.mktemp("gpu"), "true").start()
    yield running
    running.kill()


@pytest.fixture
def store(gpu_daemon, monkeypatch, clean_settings):
    monkeypatch.setenv("SIMM_SOCKET", gpu_daemon.socket)
    with kv.Store() as opened:
        yield opened


def rows_of(allocation: Allocation, first: int, count: int, length: int) -> DeviceArray:
    return DeviceArray(allocation.ptr + first, (count, length))


def test_pages_go_to_and_from_a_gpu(gpu, store, key):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    dice = random.Random(seed)
    allocation = Allocation(gpu)
    memory = DeviceArray(allocation.ptr, (allocation.size,))
    mr = kv.register_mr(memory)
    assert [piece[2] for piece in mr.pieces] == ["gpu"] and mr.size == allocation.size
    pages = [dice.randbytes(PAGE) for _ in range(8)]
    places = [dice.randrange(64) + i * (PAGE + 64) for i in range(8)]
    for page, place in zip(pages, places):
        allocation.seen[place:place + PAGE] = page
    views = [kv.BlockView.from_tensor(DeviceArray(allocation.ptr + place, (PAGE,)), mr)
             for place in places]
    keys = [f"{key}.{i}" for i in range(8)]
    assert store.mput(keys, views) == [0] * 8
    # Back in another order, between bytes that stay what they are.
    allocation.seen[:] = b"\xcd" * allocation.size
    keys.reverse()
    assert store.mget(keys, views) == [PAGE] * 8
    expected = bytearray(b"\xcd" * allocation.size)
    for page, place in zip(reversed(pages), places):
        expected[place:place + PAGE] = page
    assert allocation.seen[:] == expected
    # And as the host sees them.
    block = store.allocate(PAGE)
    assert store.get(keys[0], block.view()) == PAGE and bytes(block) == pages[7]
    assert store.get(key + ".none", views[0]) == NOT_FOUND
    assert kv.deregister_mr(mr)
    assert store.get(keys[0], views[0]) == -1004


def test_a_pointer_and_memory_that_is_named_before_the_store(gpu, gpu_daemon, monkeypatch, key,
                                                            clean_settings):
    monkeypatch.setenv("SIMM_SOCKET", gpu_daemon.socket)
    allocation = Allocation(gpu)
    allocation.seen[:4] = b"abcd"
    mr = kv.register_mr(allocation.ptr, allocation.size)
    with kv.Store() as store:
        assert mr.pieces[0][2] == "gpu"
        assert store.put(key, kv.BlockView.from_buffer(allocation.ptr, 4, mr)) == 0
        views = kv.Views([allocation.ptr + 10], [4], mr)
        assert store.mget([key], views) == [4]
    assert (allocation.seen[:4], allocation.seen[10:14]) == (b"abcd", b"abcd")
    kv.deregister_mr(mr)


def test_a_view_of_a_gpu_shows_no_bytes(gpu, store):
    allocation = Allocation(gpu)
    mr = kv.register_mr(DeviceArray(allocation.ptr, (1024,)))
    view = kv.BlockView.from_tensor(DeviceArray(allocation.ptr, (64, 4), "<f4"), mr)
    assert view.size == 1024 and view.ptr == allocation.ptr
    assert memoryview(view).nbytes == 0
    with pytest.raises(ValueError, match="memory of a GPU"):
        view.as_ref()
    kv.deregister_mr(mr)


@pytest.mark.parametrize("array, text", [
    (lambda at: DeviceArray(at, (4, 8), strides=(16, 1)), "not contiguous"),
    (lambda at: DeviceArray(at, (8, 4), "<f4", strides=(4, 32)), "not contiguous"),
    (lambda at: DeviceArray(at, (2048,)), "outside its region"),
    (lambda at: DeviceArray(at, (0,)), "at least 1 byte"),
])
def test_views_that_are_refused(gpu, store, array, text):
    allocation = Allocation(gpu)
    mr = kv.register_mr(DeviceArray(allocation.ptr, (1024,)))
    with pytest.raises(ValueError, match=text):
        kv.BlockView.from_tensor(array(allocation.ptr), mr)
    kv.deregister_mr(mr)


def test_strides_are_known(gpu, store):
    allocation = Allocation(gpu)
    at = allocation.ptr + 4096
    for array, size in ((DeviceArray(at, (4, 8), strides=(16, 1)), 56),
                        (DeviceArray(at, (4, 8), strides=(-16, 1)), 56),
                        (DeviceArray(at, (2, 4), "<f4", strides=(16, 4)), 32)):
        mr = kv.register_mr(array)
        assert mr.size == size
        kv.deregister_mr(mr)


@pytest.mark.parametrize("facts", [
    {}, {"data": (1 << 20, False)}, {"data": 5, "shape": (1,), "typestr": "|u1"},
    {"data": (4096, False), "shape": (-1,), "typestr": "|u1"},
    {"data": (4096, False), "shape": (1 << 40, 1 << 40), "typestr": "|u1"},
    {"data": (4096, False), "shape": (1,), "typestr": "x"},
    {"data": (4096, False), "shape": (2,), "typestr": "|u1", "strides": (1 << 62,)},
    {"data": (4096, False), "shape": (2,), "typestr": "|u1", "strides": ()},
    {"data": (4096, True), "shape": (1,), "typestr": "|u1"},
    None,
])
def test_an_interface_that_is_none(store, facts):
    class Odd:
        __cuda_array_interface__ = facts

    with pytest.raises(TypeError, match="memory of Odd"):
        kv.register_mr(Odd())


def test_memory_that_no_gpu_has_is_refused(gpu, store, caplog):
    """What says that it is of a GPU and is not must not be copied as if it were the host's."""
    host = ctypes.create_string_buffer(4096)
    for array in (DeviceArray(ctypes.addressof(host), (4096,)), DeviceArray(1 << 44, (4096,))):
        assert kv.register_mr(array) is None
        assert "kind gpu is for memory of a GPU" in caplog.text
        caplog.clear()
    malloc = ctypes.c_uint64()
    gpu.call("cuMemAlloc_v2", ctypes.byref(malloc), ctypes.c_size_t(1 << 21))
    assert kv.register_mr(DeviceArray(malloc.value, (4096,))) is None
    assert "cuMemCreate with POSIX descriptors" in caplog.text
    gpu.call("cuMemFree_v2", malloc)


def test_a_daemon_that_takes_none_says_what_to_do(gpu, tmp_path, monkeypatch, caplog,
                                                  clean_settings):
    running = daemon_in(tmp_path, "false").start()
    monkeypatch.setenv("SIMM_SOCKET", running.socket)
    try:
        with kv.Store():
            assert kv.register_mr(DeviceArray(Allocation(gpu).ptr, (4096,))) is None
            assert "gpu.enabled is off" in caplog.text
    finally:
        running.kill()


class _PluggableAllocator:
    """What torch makes of a library's path and two names, by the rules of its documentation: the
    functions are found by ctypes and called as `malloc(size, device, stream)` and
    `free(pointer, size, device, stream)`."""

    def __init__(self, path: str, malloc: str, free: str) -> None:
        library = ctypes.CDLL(path)
        self.malloc, self.free = getattr(library, malloc), getattr(library, free)
        self.malloc.restype, self.free.restype = ctypes.c_void_p, None
        self.malloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]

    def allocator(self):
        return self


def torch_with(cuda) -> types.SimpleNamespace:
    return types.SimpleNamespace(cuda=cuda)


@pytest.fixture
def torch_is(monkeypatch):
    def use(torch) -> None:
        monkeypatch.setattr(simm.gpu, "torch_or_none", lambda: torch)
    simm.gpu.allocator.cache_clear()
    yield use
    simm.gpu.allocator.cache_clear()


def test_memory_of_the_allocator_is_taken(gpu, store, key, torch_is):
    memory = types.SimpleNamespace(CUDAPluggableAllocator=_PluggableAllocator)
    torch_is(torch_with(types.SimpleNamespace(memory=memory, MemPool=lambda own: ("pool", own))))
    own = simm.gpu.allocator()
    assert own is simm.gpu.allocator() and simm.gpu.pool() == ("pool", own)
    size = 3 << 20
    pointer = own.malloc(size, 0, None)
    assert pointer
    mr = kv.register_mr(pointer, size)
    assert [piece[2] for piece in mr.pieces] == ["gpu"]
    host = simm.alloc_tensor((PAGE,), "u1")
    host[:] = [i % 251 for i in range(PAGE)]
    on_host = kv.BlockView.from_tensor(host)
    on_gpu = kv.BlockView.from_buffer(pointer + size - PAGE, PAGE, mr)
    assert store.put(key, on_host) == 0 and store.get(key, on_gpu) == PAGE
    assert store.put(key + "/gpu", on_gpu) == 0
    host[:] = 0
    assert store.get(key + "/gpu", on_host) == PAGE
    assert [int(byte) for byte in host] == [i % 251 for i in range(PAGE)]
    kv.deregister_mr(mr)
    own.free(pointer, size, 0, None)
    assert kv.register_mr(DeviceArray(pointer, (size,))) is None  # nothing is there any more


@pytest.mark.parametrize("torch, text", [
    (None, "no torch of 2.0"),
    (torch_with(types.SimpleNamespace(memory=types.SimpleNamespace())), "no torch of 2.0"),
    (torch_with(types.SimpleNamespace(
        memory=types.SimpleNamespace(CUDAPluggableAllocator=_PluggableAllocator))),
     "no torch.cuda.MemPool"),
])
def test_a_torch_without_pools_says_what_to_do(torch_is, torch, text):
    torch_is(torch)
    with pytest.raises(RuntimeError, match=text):
        simm.gpu.pool()


@pytest.fixture
def lender(gpu, tmp_path, monkeypatch, clean_settings):
    """A daemon that takes leases; this process has a region on its GPU."""
    monkeypatch.setenv("LD_LIBRARY_PATH", os.path.dirname(DRIVER))
    text = CONFIG.strip()[:-1] + """, "gpu": {"enabled": true, "reserve_bytes": "64MiB"},
        "tenants": [{"name": "default", "gpu_lend": "all"}]}"""
    running = Daemon(tmp_path, config=text).start()
    monkeypatch.setenv("SIMM_SOCKET", running.socket)
    with kv.Store() as opened:
        allocation = Allocation(gpu)
        mr = kv.register_mr(DeviceArray(allocation.ptr, (allocation.size,)))
        yield running, opened, mr, allocation
        kv.deregister_mr(mr)
    running.kill()


def gpu_figures(running):
    return running.tell("gpus")[0]


def test_an_engine_lends_while_it_sleeps(lender, key):
    """The sleep of an engine: what it frees is lent, and free again before it wakes."""
    running, store, mr, allocation = lender
    view = kv.BlockView.from_buffer(allocation.ptr, PAGE, mr)
    allocation.seen[:PAGE] = bytes(i % 251 for i in range(PAGE))
    assert store.put(key, view) == 0
    with simm.gpu.lend(64 << 20, device=0) as lease:
        assert lease.bytes == 64 << 20 and "67108864" in repr(lease)
        for _ in range(3):
            assert store.get(key, view) == PAGE
        assert gpu_figures(running)["tier_hits"] == 1
        assert gpu_figures(running)["lent_bytes"] == 64 << 20
    assert lease.bytes == 0
    assert gpu_figures(running)["tier_bytes"] == gpu_figures(running)["leases"] == 0
    lease.reclaim()
    # What nobody keeps is reclaimed.
    simm.gpu.lend(64 << 20, device="GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a000")
    assert gpu_figures(running)["leases"] == 0


class SleepingEngine:
    """The calls of vLLM and of SGLang that the manual's hooks make. An engine has its memory until
    it sleeps, and takes it again when it wakes: nobody may have it then."""

    def __init__(self, running):
        self.running, self.calls = running, []

    def note(self, name):
        figures = gpu_figures(self.running)
        self.calls.append((name, figures["leases"], figures["tier_bytes"]))

    def sleep(self, level):
        self.note(f"sleep {level}")

    def wake_up(self):
        self.note("wake_up")

    def release_memory_occupation(self):
        self.note("release")

    def resume_memory_occupation(self):
        self.note("resume")


@pytest.mark.parametrize("hooks, calls", [(("sleep", "wake"), ("sleep 1", "wake_up")),
                                          (("release", "resume"), ("release", "resume"))])
def test_the_hooks_of_the_manual_lend_and_reclaim(lender, key, hooks, calls):
    """The functions of README.md, with engines that do nothing else."""
    running, store, mr, allocation = lender
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    manual = {"simm": simm}
    exec(next(block for block in blocks if "def sleep(llm" in block), manual)
    view = kv.BlockView.from_buffer(allocation.ptr, PAGE, mr)
    assert store.put(key, view) == 0
    engine = SleepingEngine(running)
    lease = manual[hooks[0]](engine, 64 << 20)
    assert gpu_figures(running)["lent_bytes"] == 64 << 20
    for _ in range(3):
        assert store.get(key, view) == PAGE
    assert gpu_figures(running)["tier_hits"] == 1
    manual[hooks[1]](engine, lease)
    # Nothing is lent before the engine has freed it, and nothing when the engine takes it again.
    assert engine.calls == [(call, 0, 0) for call in calls]


def test_other_threads_go_on_while_a_lease_ends(lender):
    """The end of a lease waits for a helper that is stopped. A thread lets the helper go on as soon
    as the lease is over: without that the daemon kills the helper, after a second of silence."""
    running = lender[0]

    def awake(helper: int) -> None:
        while gpu_figures(running)["leases"] != 0:
            pass
        with contextlib.suppress(ProcessLookupError):
            os.kill(helper, signal.SIGCONT)

    for _ in range(5):  # beside other tests a thread may come too late
        while gpu_figures(running)["helper"] < 0:
            pass
        lease = simm.gpu.lend(64 << 20, notice_ms=10_000)
        helper = gpu_figures(running)["helper"]
        assert helper > 0  # -1 is every process of the machine
        os.kill(helper, signal.SIGSTOP)
        thread = threading.Thread(target=awake, args=(helper,))
        thread.start()
        del lease
        thread.join()
        if gpu_figures(running)["helper"] == helper:
            return
    pytest.fail("no thread ran while a lease ended")


@pytest.mark.parametrize("size, options, kind, text", [
    (1 << 20, {}, ValueError, "bytes = 1048576: lend from 67108864 bytes"),
    (-1, {}, ValueError, "size = -1"),
    ("much", {}, TypeError, "size = 'much'"),
    (64 << 20, {"notice_ms": 0}, ValueError, "notice_ms = 0: from 1 to 10000"),
    (64 << 20, {"device": "cuda"}, ValueError, 'gpu = "cuda"'),
    (64 << 20, {"device": 5}, ValueError, "gpu = 5: this process has no such GPU"),
    (1 << 50, {}, ValueError, "gpu.lend_bytes_max = 68719476736"),
])
def test_what_can_not_be_lent(lender, size, options, kind, text):
    with pytest.raises(kind, match=text):
        simm.gpu.lend(size, **options)


def test_a_daemon_that_takes_no_leases_says_why(gpu_daemon, store):
    with pytest.raises(RuntimeError, match="name it in tenants.*gpu_lend"):
        simm.gpu.lend(64 << 20)
