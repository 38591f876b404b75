"""Registering memory, views of it, and how long it lives."""

import gc
import re
import mmap
import os
import time
import weakref

import numpy
import pytest

import simm
from conftest import fill
from simm import kv
from simm.kv import BlockView, deregister_mr, register_mr
from simm.results import INVALID_STATE, UNREACHABLE


def test_registered_memory_is_put_and_got(store, key):
    pool = numpy.arange(1 << 20, dtype=numpy.uint8)
    mr = register_mr(pool)
    assert mr is not None and mr.size == 1 << 20
    assert store.put(key, BlockView.from_buffer(pool.ctypes.data + 4096, 4096, mr)) == 0
    target = BlockView.from_tensor(pool[65536:65536 + 4096], mr)
    pool[65536:] = 0
    assert store.get(key, target) == 4096
    assert (pool[65536:65536 + 4096] == pool[4096:8192]).all()
    assert deregister_mr(mr) is True and deregister_mr(mr) is True


def test_memory_may_be_registered_before_the_first_store(daemon, monkeypatch, key):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    pool = numpy.ones(8192, dtype=numpy.uint8)
    mr = register_mr(pool)
    assert mr is not None
    with kv.Store() as store:
        assert mr.pieces[0][2] in ("adopted", "staged")
        assert store.put(key, BlockView.from_tensor(pool, mr)) == 0


def test_memory_that_is_named_while_the_daemon_is_away_is_registered_with_the_next(own_daemon, key):
    with kv.Store() as store:
        own_daemon.kill()
        memory = numpy.full(8192, 7, numpy.uint8)
        mr = register_mr(memory)
        assert mr is not None
        view = BlockView.from_tensor(memory[:4096], mr)
        assert store.put(key, view) == UNREACHABLE
        own_daemon.start()
        deadline = time.monotonic() + 60
        while store.ping(1000) != 0 and time.monotonic() < deadline:
            pass
        assert store.put(key, view) == 0
        memory[:4096] = 0
        assert store.get(key, view) == 4096 and (memory == 7).all()
        assert deregister_mr(mr)


def test_what_may_be_registered(store):
    array = numpy.zeros(4096, dtype=numpy.float32)
    assert register_mr(array).size == 16384
    assert register_mr(bytearray(100)).size == 100
    assert register_mr(memoryview(bytearray(100))).size == 100
    assert register_mr(None).size == 0
    pools = [numpy.zeros(100, numpy.uint8), None, (numpy.zeros(50, numpy.uint8),)]
    mr = register_mr(pools)
    assert mr.size == 150
    assert BlockView.from_tensor(pools[2][0], mr).size == 50
    assert register_mr(array.ctypes.data, 1000).size == 1000
    for wrong in (7, "text", object(), b"read-only"):
        with pytest.raises(TypeError):
            register_mr(wrong)


def test_memory_inside_a_region_shares_its_registration(store, key):
    pool = numpy.ones(8192, dtype=numpy.uint8)
    whole, part = register_mr(pool), register_mr(pool[100:200])
    assert deregister_mr(whole)
    assert store.put(key, BlockView.from_tensor(pool[100:200], part)) == 0
    assert deregister_mr(part)
    assert store.put(key, BlockView.from_tensor(pool[100:200], part)) == INVALID_STATE


def test_a_view_outside_its_region_is_an_error(store):
    pool = numpy.zeros(4096, dtype=numpy.uint8)
    mr = register_mr(pool)
    address = pool.ctypes.data
    for start, size in ((address - 1, 10), (address + 4090, 7), (address, 4097), (0, 1),
                        (address, 0), (2**64 - 1, 2), (address, 2**63)):
        with pytest.raises(ValueError):
            BlockView.from_buffer(start, size, mr)
    for start, size in ((-1, 10), (address, -1), (2**64, 1)):
        with pytest.raises(ValueError):
            BlockView.from_buffer(start, size, mr)
    with pytest.raises(ValueError):
        BlockView.from_tensor(numpy.zeros(16, dtype=numpy.uint8), mr)
    with pytest.raises(ValueError, match="contiguous"):
        BlockView.from_tensor(pool[::2], mr)


def test_memory_outside_every_region_is_refused(store, key, caplog):
    stray = numpy.zeros(64, dtype=numpy.uint8)
    assert store.put(key, BlockView.from_tensor(stray)) < 0
    assert "register the memory first" in caplog.text  # no call that Python has not


def test_views_keep_the_memory_alive(store, key):
    view = fill(store.allocate(4096), 5).view()
    gc.collect()
    assert store.put(key, view) == 0
    mr = register_mr(numpy.full(4096, 6, dtype=numpy.uint8))  # nobody else holds the array
    view = BlockView.from_buffer(mr.pieces[0][0], 4096, mr)
    del mr
    gc.collect()
    assert store.get(key, view) == 4096
    tensor = view.as_ref()
    del view
    gc.collect()
    assert int(tensor[0]) == 5 and int(tensor[-1]) == 5


class Pool(numpy.ndarray):
    """An array that may have attributes, as a tensor has."""


def self_registered(size):
    pool = numpy.zeros(size, numpy.uint8).view(Pool)
    pool.mr = register_mr(pool)
    return pool


def test_memory_that_refers_to_its_own_region_goes(store, key):
    pools = [weakref.ref(self_registered(1 << 16)) for _ in range(8)]
    regions = [weakref.ref(pool().mr) for pool in pools]
    kept = pools[0]()
    gc.collect()
    assert [pool() is not None for pool in pools] == [True] + [False] * 7
    assert [region() is not None for region in regions] == [True] + [False] * 7
    # What is still in use is still registered, a view's region too.
    assert store.put(key, BlockView.from_tensor(kept, kept.mr)) == 0
    view = BlockView.from_buffer(kept.ctypes.data, 1 << 16, kept.mr)
    del kept
    gc.collect()
    assert store.get(key, view) == 1 << 16
    del view
    gc.collect()
    assert pools[0]() is None and regions[0]() is None


def test_a_region_that_two_share_keeps_its_memory(store, key):
    pool = self_registered(1 << 16)
    pool.mine, other = pool.mr, register_mr(pool[:4096])
    address = pool.ctypes.data
    gone = weakref.ref(pool)
    del pool
    gc.collect()
    assert gone() is not None  # `other` lies in its registration
    assert store.put(key, BlockView.from_buffer(address, 4096, other)) == 0
    deregister_mr(gone().mr)
    assert store.get(key, BlockView.from_buffer(address, 4096, other)) == 4096


def test_a_bytearray_may_grow_when_its_region_is_deregistered(store, key):
    memory = bytearray(4096)
    mr = register_mr(memory)
    with pytest.raises(BufferError):
        memory.extend(b"more")
    view = BlockView.from_buffer(mr.pieces[0][0], 4096, mr)
    assert deregister_mr(mr)
    with pytest.raises(BufferError):  # the view has the bytes still
        memory.extend(b"more")
    del view
    assert deregister_mr(mr)
    memory.extend(b"more")
    assert mr.pieces[0][1:] == (4096, "deregistered", "deregister_mr() was called")
    assert mr.closed and mr.size == 4096


def test_blocks_are_zeroed_writable_and_outlive_their_store(daemon, monkeypatch):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    with kv.Store() as store:
        blocks = [store.allocate(size) for size in (1, 4096, 100_000, 20 << 20)]
    gc.collect()
    for block in blocks:
        assert not bytes(block.as_ref()[:1].numpy() if hasattr(block.as_ref(), "numpy")
                         else block.as_ref()[:1])[0]
        block.as_ref()[-1] = 3
        assert memoryview(block)[-1] == 3 and block.view().size == len(block)


def test_a_thousand_blocks_are_few_regions(store, key):
    blocks = [store.allocate(500) for _ in range(5000)]
    assert len({block.ptr for block in blocks}) == 5000
    assert store.put(key, blocks[-1].view()) == 0


def test_tensors_of_shared_memory(store, key):
    array = store.alloc_tensor((4, 256), numpy.float32)
    assert array.shape == (4, 256) and array.dtype == numpy.float32 and not array.any()
    array[2] = 1.5
    assert store.put(key, BlockView.from_tensor(array[2])) == 0
    assert store.get(key, BlockView.from_tensor(array[3])) == 1024
    assert (array[3] == 1.5).all()


def test_wrong_sizes(store):
    for size in (0, -1):
        with pytest.raises(ValueError):
            store.allocate(size)
    with pytest.raises(TypeError):
        store.allocate("4096")
    with pytest.raises(ValueError):
        store.alloc_tensor((0, 5))
    with pytest.raises(RuntimeError):
        store.allocate(1 << 60)


def test_views_are_the_pages_of_a_list(store, key):
    block = store.allocate(8 * 4096)
    for i in range(8):
        memoryview(block)[i * 4096:(i + 1) * 4096] = bytes([i + 1]) * 4096
    mr = kv.register_mr(block)
    keys = [f"{key}{i}" for i in range(4)]
    addresses = [block.ptr + i * 4096 for i in range(8)]
    for region in (mr, None):
        assert store.mput(keys, kv.Views(addresses[:4], [4096] * 4, region)) == [0] * 4
        assert store.mget(keys[::-1], kv.Views(addresses[4:], [4096] * 4, region)) == [4096] * 4
        assert [memoryview(block)[i * 4096] for i in range(8)] == [1, 2, 3, 4, 4, 3, 2, 1]
    assert len(kv.Views(addresses, [1] * 8)) == 8
    assert store.mget(keys, kv.Views(addresses[:3], [4096] * 3, mr)) == [-1000] * 4
    assert store.mget_range(keys[:1], kv.Views(addresses[:1], [1], mr), [4095]) == [1]
    with pytest.raises(ValueError, match="outside its region"):
        kv.Views([block.ptr + 8 * 4096 - 1], [2], mr)
    with pytest.raises(ValueError, match="sizes: 1"):
        kv.Views(addresses[:2], [1], mr)
    with pytest.raises(ValueError, match="at least 1 byte"):
        kv.Views(addresses[:1], [0], mr)
    with pytest.raises(TypeError):
        kv.Views(["a"], [1], mr)
    views = kv.Views(addresses[:1], [4096], mr)
    assert kv.deregister_mr(mr) and store.mget(keys[:1], views) == [-1004]


@pytest.mark.parametrize("offset", [0, 8192])
def test_a_memory_file_is_handed_over_if_it_is_the_one_that_is_mapped(store, key, offset):
    size = 64 * 1024
    mapped, other = os.memfd_create("mapped"), os.memfd_create("other")
    for fd in (mapped, other):
        os.ftruncate(fd, 4 * size)
    memory = numpy.frombuffer(mmap.mmap(mapped, size, offset=offset), numpy.uint8)
    mr = kv.register_mr(memory, fds=[-1, other, mapped])
    os.close(mapped)  # a duplicate was taken
    assert [piece[2] for piece in mr.pieces] == ["shared"]
    memory[:] = 7
    assert store.put(key, kv.BlockView.from_tensor(memory[:4096], mr)) == 0
    memory[:4096] = 0
    assert store.get(key, kv.BlockView.from_tensor(memory[:4096], mr)) == 4096
    assert (memory == 7).all() and not any(os.pread(other, 4 * size, 0))
    assert kv.deregister_mr(mr)
    strange = kv.register_mr(numpy.zeros(size, numpy.uint8), fds=[other])
    assert [piece[2] for piece in strange.pieces] == ["staged"]
    os.close(other)


def test_a_tensor_without_a_store_at_hand(daemon, monkeypatch, store, key):
    monkeypatch.setattr("simm.host_memory._store", [])
    rows = simm.alloc_tensor((4, 1024), "float32", hugepages=True, numa=0)
    assert rows.shape == (4, 1024) and rows.dtype == numpy.float32 and not rows.any()
    rows[1] = 5
    assert store.put(key, BlockView.from_tensor(rows[1])) == 0
    assert store.get(key, BlockView.from_tensor(rows[2])) == 4096 and (rows[2] == 5).all()
    more = simm.alloc_tensor((8,))
    del rows
    gc.collect()
    assert len(more) == 8
    with pytest.raises(ValueError, match="at least one element"):
        simm.alloc_tensor((0, 4))


def test_a_tensor_without_a_daemon_says_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr("simm.host_memory._store", [])
    monkeypatch.setenv("SIMM_SOCKET", str(tmp_path / "none.sock"))
    with pytest.raises(RuntimeError, match="simmd"):
        simm.alloc_tensor((8,))


def resident_kib(address):
    """Of the mapping that the address is in."""
    inside = False
    with open("/proc/self/smaps", encoding="utf-8") as smaps:
        for line in smaps:
            found = re.match("([0-9a-f]+)-([0-9a-f]+) ", line)
            if found:
                inside = int(found[1], 16) <= address < int(found[2], 16)
            elif inside and line.startswith("Rss:"):
                return int(line.split()[1])
    raise AssertionError(f"{address:#x} is not mapped")


@pytest.mark.parametrize("size,in_use", [(1 << 20, 64), (4096, 512), (1 << 20, 200)])
def test_one_block_keeps_little_more_than_itself(store, size, in_use):
    blocks = [fill(store.allocate(size), 1) for _ in range(in_use)]
    kept = blocks[in_use // 2]
    del blocks
    gc.collect()
    limit = max(8 << 20, size * in_use // 4)
    assert bytes(kept) == b"\1" * size and resident_kib(kept.ptr) <= limit >> 10
