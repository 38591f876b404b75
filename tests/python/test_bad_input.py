"""What callers do wrong: wrong types raise with the remedy, everything else is a code, and nothing
breaks."""

import logging
import threading

import numpy
import pytest

from conftest import fill
from simm import kv
from simm.kv import BlockView, deregister_mr, register_mr
from simm.results import INVALID_ARGUMENT, INVALID_STATE


@pytest.mark.parametrize("ptrs, sizes, error, text", [
    (7, b"x", TypeError, "ptrs: int: give a list"), ("a", "b", TypeError, "ptrs: str: give a list"),
    ([1], 5, TypeError, "sizes: int: give a list"), ([1, 2], [1], ValueError, "ptrs: 2, sizes: 1"),
    ([None], [1], TypeError, r"ptrs\[0\] = None"), ([1], [0.5], TypeError, r"sizes\[0\] = 0.5"),
    ([1, -1], [1, 1], ValueError, r"ptrs\[1\] = -1"),
    ([1], [1 << 64], ValueError, r"sizes\[0\] = 18446744073709551616")])
def test_lists_that_are_no_places_of_pages_are_named(ptrs, sizes, error, text):
    with pytest.raises(error, match=text):
        kv.Views(ptrs, sizes)
    assert list(iter("ab")) == ["a", "b"], "no error is left behind"


def test_numbers_of_numpy_are_places_of_pages(store):
    block = fill(store.allocate(8192), 3)
    at = numpy.array([block.ptr, block.ptr + 4096], numpy.uint64)
    assert kv.Views(list(at), list(numpy.full(2, 4096))).sizes == [4096] * 2
    assert kv.Views(at, numpy.full(2, 4096)).sizes == [4096] * 2


def test_a_list_that_shrinks_while_it_is_read_is_taken_as_it_was():
    class Shrinks:
        def __index__(self):
            del ptrs[1:]
            return 1 << 20

    ptrs = [Shrinks()] * 1000
    assert len(kv.Views(ptrs, [1] * 1000)) == 1000


def test_wrong_types_raise(store):
    view = store.allocate(8).view()
    with pytest.raises(TypeError, match="decode"):
        store.put(b"key", view)
    for wrong in (None, 7, ["key"]):
        with pytest.raises(TypeError, match="str"):
            store.exists(wrong)
    for wrong in (None, 7, b"12345678", numpy.zeros(8, numpy.uint8), store.allocate(8)):
        with pytest.raises(TypeError, match="BlockView"):
            store.get("key", wrong)
    for wrong in (None, 7, "key", b"key"):
        with pytest.raises(TypeError, match="list"):
            store.mget(wrong, [view])
        with pytest.raises(TypeError, match="list"):
            store.mget(["key"], wrong)
        with pytest.raises(TypeError, match="list"):
            store.mexists(wrong)
    with pytest.raises(TypeError):
        store.mput(["a", b"b"], [view, view])
    with pytest.raises(ValueError, match=r"offsets\[0\] = -1"):
        store.get_range("key", view, -1)
    with pytest.raises(TypeError, match=r"offsets\[1\] = None"):
        store.mget_range(["a", "b"], [view, view], [0, None])
    with pytest.raises(TypeError):
        deregister_mr("region")
    with pytest.raises(TypeError):
        BlockView.from_tensor("text", None)
    assert deregister_mr(None) is False


class Broken:
    def __iter__(self):
        raise OSError("the list's own trouble")


def test_a_wrong_argument_is_named_with_its_value(store):
    view = store.allocate(8).view()
    for name in ("timeout_ms", "lease_ms"):
        for wrong in (1.5, "1", None):
            with pytest.raises(TypeError, match=f"{name} = .*whole number of milliseconds") as said:
                store.mget(["key"] * 100_000, [view] * 100_000, **{name: wrong})
            assert len(str(said.value)) < 200
        for wrong in (-1, 1 << 32, 10**30):
            with pytest.raises(ValueError, match=f"{name} = .*from 0 to 4294967295"):
                store.get("key", view, **{name: wrong})
        with pytest.raises(TypeError, match=f"{name} = None:"):
            store.get("key", view, **{name: None})
    with pytest.raises(TypeError, match="ttl_ms = str"):
        store.put("key", view, ttl_ms="7")
    with pytest.raises(OSError, match="own trouble"):
        store.mexists(Broken())
    with pytest.raises(TypeError, match="size = 1.5"):
        store.allocate(1.5)
    with pytest.raises(ValueError, match="numa_node = -5"):
        store.alloc_tensor(8, numa_node=-5)
    with pytest.raises(TypeError, match="shape = 'ab'"):
        store.alloc_tensor("ab")
    with pytest.raises(ValueError, match="shape = .*below 0"):
        store.alloc_tensor((-1, -4))


def test_numpy_integers_are_numbers(store, key):
    number = numpy.int64
    block = fill(store.allocate(number(100)), 7)
    assert store.put(key, block.view(), ttl_ms=number(60_000), timeout_ms=number(1000)) == 0
    assert store.mget_range([key], [block.view()], [number(40)], lease_ms=number(5)) == [60]
    assert len(store.alloc_tensor(number(12))) == 12


def test_arguments_without_effect_are_said(store, caplog):
    with kv.Store("host:1", namespace="a"):
        assert "Store('host:1', namespace): arguments have no effect" in caplog.text


def test_keys_of_every_length(store, key):
    view = fill(store.allocate(8), 1).view()
    longest = "k" * 1024
    assert store.put(longest, view) == 0 and store.exists(longest)
    assert store.put("", view) == INVALID_ARGUMENT
    assert store.put("k" * 1025, view) == INVALID_ARGUMENT
    assert store.put("ü" * 512, view) == 0 and store.put("ü" * 513, view) == INVALID_ARGUMENT
    assert store.exists("") is False and store.exists("k" * 1025) is False


def test_a_nul_is_a_byte_of_a_key_like_any_other(store, key):
    view = fill(store.allocate(8), 1).view()
    assert store.put(key + "a\0b", view) == 0
    assert store.mexists([key + "a\0b", key + "a", key + "a\0c"]) == [True, False, False]


def test_a_text_without_a_utf8_form(store, key):
    view = fill(store.allocate(8), 1).view()
    assert store.mput([key + "1", "\ud800", key + "2"], [view] * 3) == [0, INVALID_ARGUMENT, 0]


def test_a_closed_store(daemon, monkeypatch, key):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    store = kv.Store()
    view = store.allocate(8).view()
    store.close()
    store.close()
    assert store.put(key, view) == INVALID_STATE and store.mget([key], [view]) == [INVALID_STATE]
    assert store.exists(key) is False and store.delete(key) == INVALID_STATE
    assert store.mget([key, key], [view]) == [INVALID_STATE] * 2
    assert store.stats()["closed"] is True and store.ping() == INVALID_STATE
    for allocate in (store.allocate, lambda size: store.alloc_tensor((size,))):
        with pytest.raises(RuntimeError, match="closed"):
            allocate(1 << 30)


def test_a_deregistered_region(store, key):
    pool = numpy.zeros(8192, numpy.uint8)
    mr = register_mr(pool)
    view = BlockView.from_tensor(pool, mr)
    other = fill(store.allocate(8), 1).view()
    assert deregister_mr(mr)
    assert store.mput([key, key + "2"], [view, other]) == [INVALID_STATE, 0]


def test_a_region_deregistered_with_work_in_flight(store, key):
    pool = numpy.ones(16 << 20, numpy.uint8)
    mr = register_mr(pool)
    views = [BlockView.from_tensor(pool[i << 20:(i + 1) << 20], mr) for i in range(16)]
    keys = [f"{key}{i}" for i in range(16)]
    assert store.mput(keys, views) == [0] * 16
    seen = set()
    running = threading.Event()

    def work():
        while INVALID_STATE not in seen:
            seen.update(store.mget(keys, views))
            running.set()

    worker = threading.Thread(target=work)
    worker.start()
    running.wait(60)
    assert deregister_mr(mr)
    worker.join(60)
    assert not worker.is_alive() and seen <= {1 << 20, INVALID_STATE}


def test_a_list_of_a_million_keys(store):
    keys = [f"absent{i}" for i in range(1_000_000)]
    found = store.mexists(keys, timeout_ms=120_000)
    assert len(found) == 1_000_000 and not any(found)


def test_failures_are_logged_once_with_field_value_and_remedy(store, caplog):
    view = store.allocate(8).view()
    with caplog.at_level(logging.WARNING, logger="simm"):
        for _ in range(5):
            assert store.put("", view) == INVALID_ARGUMENT
    assert len(caplog.records) == 1 and "key" in caplog.text


def test_a_miss_is_not_logged(store, key, caplog):
    assert not store.get(key, store.allocate(8).view())
    assert not caplog.records


def test_results_do_not_depend_on_a_broken_logger(store, monkeypatch, capsys):
    class Broken(logging.Handler):
        def emit(self, record):
            raise OSError("full")
    handler = Broken()
    logging.getLogger("simm").addHandler(handler)
    monkeypatch.setattr("sys.unraisablehook", lambda arguments: None)
    try:
        assert store.put("", store.allocate(8).view()) == INVALID_ARGUMENT
    finally:
        logging.getLogger("simm").removeHandler(handler)


@pytest.mark.parametrize("offset", [2**30 + 1, 2**31, 2**32, 2**63, 2**64 - 1])
def test_an_offset_behind_every_value_ends_nobodys_session(store, key, offset):
    view = fill(store.allocate(8), 1).view()
    assert store.put(key, view) == 0
    before = store.stats()["attaches"]
    for _ in range(20):
        assert store.get_range(key, view, offset) == INVALID_ARGUMENT
        assert store.get(key, view) == 8
    assert store.get_range(key, view, 2**30) == INVALID_ARGUMENT  # the daemon's answer
    assert store.stats()["attaches"] == before
