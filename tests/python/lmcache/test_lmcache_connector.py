"""simm.lmcache's connector: what LMCache asks of a remote connector, against a real daemon."""

import asyncio
import itertools
import mmap
import os
import types

import pytest

torch = pytest.importorskip("torch")

import lmcache_lab
from lmcache_lab import CHUNK_BYTES, OLD, REAL, TOKEN_BYTES, TOKENS, Lab, url_of
from simm import kv

DIGESTS = itertools.count(0x1000)
WHOLE = CHUNK_BYTES


def plain(lab):
    return not lab.connector._described


@pytest.fixture(params=["described", "plain"])
def described(request):
    if OLD and request.param == "plain":
        pytest.skip("LMCache of 2025 always describes its chunks")
    return request.param == "described"


@pytest.fixture(params=["url-async", "url-sync", "plugin", "external"])
def lab(request, daemon, described, monkeypatch):
    kind, _, sync = request.param.partition("-")
    if OLD and kind != "external":
        pytest.skip("LMCache of 2025 has external:// only")
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    with Lab(url_of(daemon, kind, int(sync == "sync")), save_chunk_meta=described) as opened:
        yield opened
        assert opened.pool_used() == 0, "a chunk was not given back"


def some(count):
    return list(itertools.islice(DIGESTS, count))


def test_a_chunk_comes_back_as_it_was(lab):
    key = lab.key(next(DIGESTS))
    connector = lab.connector
    assert lab.run(connector.exists(key)) is False and connector.exists_sync(key) is False
    assert lab.run(connector.get(key)) is None
    chunk = lab.chunk(7)
    lab.run(connector.put(key, chunk))
    assert chunk.get_ref_count() == 1, "LMCache gives it up itself"
    lab.release([chunk])
    assert lab.run(connector.exists(key)) is True and connector.exists_sync(key) is True
    got = lab.run(connector.get(key))
    assert list(got.meta.shape) == [2, 2, TOKENS, 32]
    assert lab.take([got]) == [(WHOLE, 7)]


@pytest.mark.skipif(REAL, reason="LMCache's own pools are private memory")
def test_chunks_of_a_pool_that_nobody_touched(stingy, monkeypatch):
    class SharedAllocator(lmcache_lab.interface.Allocator):
        def __init__(self, size):
            super().__init__(1)
            self.buffer = torch.frombuffer(mmap.mmap(-1, size), dtype=torch.uint8)

    monkeypatch.setattr(lmcache_lab.interface, "Allocator", SharedAllocator)
    with Lab(url_of(stingy, "plugin")) as opened:
        keys = opened.keys(*some(8))
        opened.store(keys, [opened.chunk(i) for i in range(8)])
        got = [opened.run(opened.connector.get(keys[i % 8])) for i in range(64)]
        assert opened.take(got) == [(WHOLE, i % 8) for i in range(64)]


def test_a_part_of_a_chunk_comes_back_with_its_own_shape(lab):
    key = lab.key(next(DIGESTS))
    lab.store([key], [lab.chunk(9, tokens=5)])
    got = lab.run(lab.connector.get(key))
    assert list(got.meta.shape) == [2, 2, 5, 32]
    assert lab.take([got]) == [(5 * TOKEN_BYTES, 9)]


def test_batches_have_holes_and_prefixes_do_not(lab):
    keys = lab.keys(*some(6))
    stored = [0, 1, 3, 5]
    lab.store([keys[i] for i in stored], [lab.chunk(i + 1) for i in stored])
    connector = lab.connector
    assert connector.batched_contains(keys) == 2
    assert lab.run(connector.batched_async_contains("id", keys, pin=True)) == 2
    assert connector.batched_contains(keys[:2]) == 2 and connector.batched_contains([]) == 0
    assert lab.take(lab.run(connector.batched_get(keys))) == [
        (WHOLE, i + 1) if i in stored else None for i in range(6)]
    assert lab.take(lab.run(connector.batched_get_non_blocking("id", keys))) == [
        (WHOLE, 1), (WHOLE, 2)]
    assert lab.run(connector.batched_get([])) == []


def test_a_chunk_that_is_there_is_left_alone(lab):
    key = lab.key(next(DIGESTS))
    lab.store([key], [lab.chunk(1)])
    lab.store([key], [lab.chunk(2)])
    assert lab.take([lab.run(lab.connector.get(key))]) == [(WHOLE, 1)]


def test_remove_ping_list_and_names(lab):
    key, connector = lab.key(next(DIGESTS)), lab.connector
    lab.store([key], [lab.chunk(1)])
    assert connector.remove_sync(key) is True and connector.remove_sync(key) is False
    assert connector.exists_sync(key) is False
    assert connector.support_ping() and lab.run(connector.ping()) == 0
    assert lab.run(connector.list()) == []
    assert connector.stats()["attached"] and not connector.stats()["breaker"]["open"]
    assert "Simm" in repr(connector)
    connector.post_init()


def test_a_key_of_any_length_and_two_models(lab):
    digest = next(DIGESTS)
    keys = [lab.key(digest, model) for model in ("m" * 5000, "m" * 5000 + "n", "small", "smaller")]
    lab.store(keys, [lab.chunk(i + 1) for i in range(4)])
    assert lab.take(lab.run(lab.connector.batched_get(keys))) == [
        (WHOLE, i + 1) for i in range(4)]


def test_what_has_another_size_or_no_meaning_is_a_miss(lab):
    from simm.lmcache.keys import key_of
    from simm.store import Store
    keys = lab.keys(*some(4))
    with Store() as other:
        for key, size in zip(keys, (TOKEN_BYTES + 1, 3, CHUNK_BYTES + 4096, 200)):
            block = other.allocate(size)
            memoryview(block)[:] = b"\xff" * size
            assert other.put(key_of(key), block.view()) == 0
    assert lab.take(lab.run(lab.connector.batched_get(keys))) == [None] * 4


def test_a_header_that_is_not_that_of_the_bytes_behind_it_is_a_miss(lab):
    if plain(lab):
        pytest.skip("there is no header")
    from simm.lmcache.chunk import header_of
    from simm.lmcache.keys import key_of
    from simm.store import Store
    whole, part = lab.chunk(1), lab.chunk(1, tokens=5)
    headers = [header_of(whole), header_of(part), header_of(whole)]
    lengths = list(headers[0])
    lengths[0] ^= 1  # the first number of a header is the length
    headers[2] = bytes(lengths)
    headers.append(headers[1][:4] + headers[0][4:])
    lab.release([whole, part])
    keys = lab.keys(*some(4))
    with Store() as other:
        for key, header, size in zip(keys, headers, (WHOLE - 1, 5 * TOKEN_BYTES - 8,
                                                WHOLE + 1, 5 * TOKEN_BYTES)):
            block = other.allocate(len(header) + size)
            memoryview(block)[:len(header)] = header
            assert other.put(key_of(key), block.view()) == 0
    assert lab.take(lab.run(lab.connector.batched_get(keys))) == [None] * 4


def test_memory_outside_the_pool_is_copied(lab):
    """What a serializer makes is no part of the pool."""
    key = lab.key(next(DIGESTS))
    inside, outside = lab.chunk(5), lab.chunk(6)
    outside.raw_data = outside.raw_data.clone()
    lab.store([lab.key(next(DIGESTS)), key], [inside, outside])
    assert lab.take([lab.run(lab.connector.get(key))]) == [(WHOLE, 6)]
    pool, lab.connector._pool = lab.connector._pool, None  # as if it had been refused
    try:
        assert lab.take([lab.run(lab.connector.get(key))]) == [(WHOLE, 6)]
    finally:
        lab.connector._pool = pool


def test_a_pool_without_room_is_a_miss_and_blocks_nobody(daemon, described, monkeypatch):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    with Lab(url_of(daemon, "url"), pool_bytes=8 * CHUNK_BYTES, save_chunk_meta=described) as lab:
        keys = lab.keys(*some(4))
        lab.store(keys, [lab.chunk(i) for i in range(4)])
        held = [lab.chunk(0) for _ in range(6)]

        turns, seen, allocate = [0], [], lab.backend.allocate

        def look(*form, **options):
            one = allocate(*form, **options)
            seen.append((turns[0], one))
            return one

        monkeypatch.setattr(lab.backend, "allocate", look)
        monkeypatch.setattr(lab.connector, "_backend", lab.backend)

        async def get_and_look():
            got = asyncio.ensure_future(lab.connector.batched_get(keys))
            while not got.done():
                turns[0] += 1
                await asyncio.sleep(0)
            return await got

        got = lab.run(get_and_look())
        waits = {turn for turn, one in seen if one is None}
        assert len(waits) > 3, "the event loop stood still while there was no room"
        assert [one is not None for one in got] == [True, True, False, False]
        assert lab.take(got)[:2] == [(WHOLE, 0), (WHOLE, 1)]
        lab.release(held)
        assert lab.pool_used() == 0


def test_memory_is_asked_for_once_for_all_chunks_of_a_size(lab, monkeypatch):
    """But for a last one, a header of which says that it is shorter."""
    keys = lab.keys(*some(5))
    lab.store(keys, [*(lab.chunk(i) for i in range(4)), lab.chunk(4, tokens=5)])
    asked = []
    allocate = lab.backend.allocate
    monkeypatch.setattr(lab.backend, "allocate", lambda *form, **options: asked.append(form) or
                        allocate(*form, **options))
    got = lab.run(lab.connector.batched_get(keys))
    assert lab.take(got) == [*((WHOLE, i) for i in range(4)), (5 * TOKEN_BYTES, 4)]
    assert len(asked) == (0 if plain(lab) else 1)


def test_what_lmcache_itself_raises_is_a_miss_and_keeps_no_memory(lab, monkeypatch):
    key = lab.key(1)
    lab.store([key], [lab.chunk(3, TOKENS // 2)])

    def fail(*_):
        raise RuntimeError("of the test")

    monkeypatch.setattr(type(lab.connector), "reshape_partial_chunk", fail, raising=False)
    monkeypatch.setattr("simm.lmcache.chunk.form_of", fail)
    assert lab.run(lab.connector.batched_get([key, lab.key(2)])) == [None, None]
    assert lab.pool_used() == 0
    nameless = types.SimpleNamespace(to_string=fail)
    assert lab.run(lab.connector.batched_get([nameless])) == [None]
    assert lab.connector.batched_contains([nameless]) == 0
    assert lab.connector.remove_sync(nameless) is False
    put = lab.chunk(1)
    lab.run(lab.connector.batched_put([nameless], [put]))
    lab.release([put])


def test_a_forked_child_stages_in_memory_of_its_own(daemon, monkeypatch):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    from simm.lmcache.staging import Staging
    with kv.Store() as store:
        staging = Staging(store)
        blocks = [staging.take(4096) for _ in range(3)]
        staging.give(blocks)
        child = os.fork()
        if child == 0:
            ok = False
            try:
                ok = staging.take(4096).ptr not in [block.ptr for block in blocks]
            finally:
                os._exit(0 if ok else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert staging.take(4096).ptr in [block.ptr for block in blocks]


def test_a_get_that_is_cancelled_gives_its_memory_back(lab):
    keys = lab.keys(*some(8))
    lab.store(keys, [lab.chunk(1) for _ in keys])

    async def cancel(after):
        task = asyncio.ensure_future(lab.connector.batched_get(keys))
        for _ in range(after):
            await asyncio.sleep(0)
        task.cancel()
        try:
            return lab.take(await task)
        except asyncio.CancelledError:
            return None

    for after in range(1, 6):
        assert lab.run(cancel(after)) in (None, [(WHOLE, 1)] * 8)
        assert lab.pool_used() == 0


@pytest.mark.skipif(OLD, reason="LMCache of 2025 has external:// only")
@pytest.mark.parametrize("url, said", [
    ("simm://127.0.0.1:30001/?use_sync=2", "use_sync"),
    ("simm://127.0.0.1:30001/?sync=1", "sync: one of use_sync"),
    ("simm:///", "names no manager"), ("simm://h:99999/", "h:99999")])
def test_a_url_that_makes_no_sense_says_so(daemon, monkeypatch, url, said):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    with pytest.raises(ValueError, match=said):
        Lab(url)


def test_after_close_everything_is_a_miss(daemon, monkeypatch):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    with Lab(url_of(daemon, "url")) as lab:
        key, connector = lab.key(next(DIGESTS)), lab.connector
        lab.store([key], [lab.chunk(1)])
        lab.run(connector.close())
        assert lab.run(connector.exists(key)) is False and connector.exists_sync(key) is False
        assert lab.run(connector.get(key)) is None
        lab.store([key], [lab.chunk(1)])
        assert lab.run(connector.ping()) < 0 and connector.remove_sync(key) is False


@pytest.mark.skipif(OLD, reason="LMCache of 2025 has one setting: the environment's")
def test_namespaces_are_apart(daemon, monkeypatch):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    url = "simm://127.0.0.1:30001/?namespace="
    with Lab(url + "first") as first, Lab(url + "second") as second:
        key = first.key(next(DIGESTS))
        first.store([key], [first.chunk(1)])
        assert first.connector.exists_sync(key) and not second.connector.exists_sync(key)
        second.store([key], [second.chunk(2)])
        assert first.take([first.run(first.connector.get(key))]) == [(WHOLE, 1)]
        assert second.take([second.run(second.connector.get(key))]) == [(WHOLE, 2)]
