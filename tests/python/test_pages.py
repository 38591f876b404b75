"""on_page: each page of an asynchronous list is told once, as it ends, before the call does."""

import asyncio

import numpy
import pytest

from conftest import CONFIG, Daemon, fill
from simm import kv
from simm.results import INVALID_STATE, NOT_FOUND, UNREACHABLE

PAGE = 512


class Told:
    """What on_page was told, and whether the call had ended."""

    def __init__(self, error=None) -> None:
        self.results, self.error, self.call = {}, error, None

    def __call__(self, index, result) -> None:
        assert index not in self.results and not self.call.done()
        self.results[index] = result
        if self.error is not None and index == 1:
            raise self.error

    async def of(self, coroutine):
        self.call = asyncio.ensure_future(coroutine)
        return await self.call

    def check(self, results) -> None:
        assert [self.results[index] for index in range(len(results))] == results
        assert {type(one) for one in self.results.values()} == {type(one) for one in results}


def put_pages(store, key, count):
    keys = [f"{key}/{i}" for i in range(count)]
    views = [fill(store.allocate(PAGE), i % 251).view() for i in range(count)]
    return keys, views


def test_each_page_is_told_with_its_result(store, key):
    async def main():
        keys, views = put_pages(store, key, 300)
        told = Told()
        codes = await told.of(store.mput_async(keys, views, on_page=told))
        assert codes == [0] * 300
        told.check(codes)
        targets = [store.allocate(PAGE).view() for _ in keys]
        keys[7] = key + "absent"
        lost = numpy.zeros(PAGE, numpy.uint8)
        region = kv.register_mr(lost)
        targets[9] = kv.BlockView.from_buffer(lost.ctypes.data, PAGE, region)
        kv.deregister_mr(region)
        told, seen = Told(), {}

        def on_page(index, result):
            told(index, result)
            if result > 0:
                seen[index] = bytes(targets[index])

        lengths = await told.of(store.mget_async(keys, targets, on_page=on_page))
        told.check(lengths)
        assert lengths[7] == NOT_FOUND and lengths[9] == INVALID_STATE
        assert lengths.count(PAGE) == 298
        assert all(page == bytes(views[index]) for index, page in seen.items())
        assert len(seen) == 298
    asyncio.run(main())


def test_lists_that_are_taken_up_in_parts(store, key):
    async def main():
        keys, views = put_pages(store, key, 3)
        told = Told()
        many, places = keys * 3000, views * 3000
        lengths = await told.of(store.mget_async(many, places, on_page=told))
        assert set(lengths) == {NOT_FOUND}
        told.check(lengths)
    asyncio.run(main())


def test_a_page_that_a_thread_copies(store, key):
    async def main():
        pool = numpy.zeros(9 << 20, numpy.uint8)
        region = kv.register_mr(pool)
        told = Told()
        lengths = await told.of(store.mget_async(
            [key, key], [kv.BlockView.from_tensor(pool, region)] * 2, on_page=told))
        assert lengths == [NOT_FOUND] * 2
        told.check(lengths)
        kv.deregister_mr(region)
    asyncio.run(main())


def test_what_it_raises_comes_out_of_the_call_at_its_end(store, key):
    class Own(Exception):
        pass

    async def main():
        keys, views = put_pages(store, key, 20)
        told = Told(Own("page"))
        with pytest.raises(Own):
            await told.of(store.mput_async(keys, views, on_page=told))
        assert len(told.results) == 20
        assert await store.mexists_async(keys) == [True] * 20
    asyncio.run(main())


def test_what_ends_the_loop_costs_the_others_no_result(store, key):
    keys, views = put_pages(store, key, 20)
    loop = asyncio.new_event_loop()

    async def both():
        others = asyncio.ensure_future(store.mput_async(keys, views))
        told = Told(KeyboardInterrupt())
        mine = asyncio.ensure_future(told.of(store.mput_async(keys, views, on_page=told)))
        await asyncio.wait([others, mine])
        return others.result(), mine.result()

    task = loop.create_task(both())
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(task)
    assert loop.run_until_complete(task) == ([0] * 20, [0] * 20)
    loop.close()


def test_a_cancelled_call_ends_with_its_last_page(store, key):
    async def main():
        keys, views = put_pages(store, key, 100)
        told = Told()
        told.call = asyncio.ensure_future(store.mput_async(keys, views, on_page=told))
        await asyncio.sleep(0)
        told.call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await told.call
        assert sorted(told.results) == list(range(100))
    asyncio.run(main())


def test_while_the_daemon_is_away(tmp_path, monkeypatch):
    daemon = Daemon(tmp_path, config=CONFIG).start()
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    with kv.Store() as store:
        views = [store.allocate(PAGE).view() for _ in range(3)]
        daemon.kill()

        async def main():
            told = Told()
            lengths = await told.of(store.mget_async(["a", "b", "c"], views, on_page=told))
            assert lengths == [UNREACHABLE] * 3
            told.check(lengths)
        asyncio.run(main())
