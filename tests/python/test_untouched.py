"""Memory that nobody has touched: the daemon makes little of it present, so the library does."""

import mmap
import os

import numpy
import pytest

from conftest import fill
from simm import kv
from simm.kv import BlockView, register_mr

PAGE = 4096
COUNT = 64


def anonymous(tmp_path, size):
    return numpy.frombuffer(mmap.mmap(-1, size), numpy.uint8)


def of_file(tmp_path, size, directory=None):
    path = os.path.join(directory or tmp_path, f"pool-{os.getpid()}")
    with open(path, "w+b") as file:
        os.unlink(path)
        file.truncate(size)
        return numpy.frombuffer(mmap.mmap(file.fileno(), size), numpy.uint8)


def of_shm(tmp_path, size):
    return of_file(tmp_path, size, "/dev/shm")


def of_memfd(tmp_path, size):
    descriptor = os.memfd_create("pool")
    os.truncate(descriptor, size)
    pool = numpy.frombuffer(mmap.mmap(descriptor, size), numpy.uint8)
    os.close(descriptor)
    return pool


def test_memory_allocated_for_each_get(stingy):
    with kv.Store() as store:
        block = store.allocate(1 << 20)
        fill(block, 7)
        assert store.put("k", block.view()) == 0
        for _ in range(100):
            target = store.allocate(1 << 20)
            assert store.get("k", target.view()) == 1 << 20


@pytest.mark.parametrize("make", [anonymous, of_memfd, of_shm])
def test_a_pool_that_nobody_touched(stingy, tmp_path, make):
    pool = make(tmp_path, COUNT * PAGE * 64)
    mr = register_mr(pool)
    views = [BlockView.from_tensor(pool[i * 64 * PAGE:i * 64 * PAGE + PAGE], mr)
             for i in range(COUNT)]
    with kv.Store() as store:
        kinds = {piece[2] for piece in mr.pieces}
        # Sessions of earlier tests may have lost their daemons: they hold the pool as staged.
        assert "adopted" in kinds or os.geteuid() != 0
        half = COUNT // 2
        assert store.mput([f"k{i}" for i in range(half)], views[:half]) == [0] * half
        assert store.mget([f"k{i}" for i in range(half)], views[half:]) == [PAGE] * half
        made = store.stats()["bytes_made_present"]
        assert made > 0 or "adopted" not in kinds
