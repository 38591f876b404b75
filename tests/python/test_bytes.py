"""Values without views: put() of bytes, get_bytes(), length()."""

import threading

import numpy
import pytest

from conftest import fill
from simm import kv
from simm.results import INVALID_STATE, NOT_FOUND


@pytest.mark.parametrize("data", [b"x", b"hello" * 999, bytearray(70_000),
                                  memoryview(b"0123456789")[2:5]],
                         ids=["one", "bytes", "bytearray", "memoryview"])
def test_what_was_put_comes_back(store, key, data):
    assert store.put(key, data) == 0
    assert store.length(key) == len(data)
    assert store.get_bytes(key) == bytes(data)


def test_views_of_several_dimensions_are_their_bytes(store, key):
    numbers = numpy.arange(12, dtype="int16").reshape(3, 4)
    assert store.put(key, memoryview(numbers)) == 0
    assert store.get_bytes(key) == numbers.tobytes()


def test_the_bytes_are_read_before_put_returns(store, key):
    data = bytearray(b"before")
    assert store.put(key, data) == 0
    data[:] = b"behind"
    assert store.get_bytes(key) == b"before"


def test_what_is_absent(store, key):
    assert store.get_bytes(key) is None
    assert store.length(key) == NOT_FOUND
    block = fill(store.allocate(100), 1)
    store.put(key, block.view())
    assert store.mlength([key, key + "absent"]) == [100, NOT_FOUND]


def test_no_value_is_empty(store, key):
    with pytest.raises(ValueError, match="1 byte"):
        store.put(key, b"")
    assert store.length(key) == NOT_FOUND


def test_a_closed_store_answers_codes(store, key):
    closed = kv.Store()
    closed.close()
    assert closed.put(key, b"data") == INVALID_STATE
    assert closed.get_bytes(key) is None


def test_a_value_that_is_replaced_meanwhile_is_whole(store, key):
    values = [bytes([i]) * (1000 * i) for i in range(1, 6)]
    store.put(key, values[0])
    done = threading.Event()

    def replace():
        turn = 0
        while not done.is_set():
            store.put(key, values[turn % len(values)])
            turn += 1

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        read = [store.get_bytes(key) for _ in range(300)]
    finally:
        done.set()
        writer.join()
    found = [value for value in read if value is not None]
    assert len(found) > 200 and all(value in values for value in found)
