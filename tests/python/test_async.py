"""The coroutines: same results, no threads, and memory that is never touched behind one's back."""

import asyncio
import collections
import threading
import time

import numpy
import pytest

from conftest import CONFIG, Daemon, fill
from simm import kv
from simm.events import EventChannel
from simm.results import INVALID_ARGUMENT, INVALID_STATE, NOT_FOUND, UNREACHABLE


def test_coroutines_have_the_results_of_the_calls(store, key):
    async def main():
        source, target = fill(store.allocate(5000), 7), store.allocate(5000)
        assert await store.put_async(key, source.view()) == 0
        assert await store.exists_async(key) is True
        got = await store.get_async(key, target.view())
        assert got == 5000 and got and bytes(target) == bytes(source)
        assert await store.delete_async(key) == 0
        missed = await store.delete_async(key)
        assert missed == NOT_FOUND and not missed
        assert await store.exists_async(key) is False
    asyncio.run(main())


def test_lists(store, key):
    async def main():
        keys = [f"{key}{i}" for i in range(2000)]
        views = [fill(store.allocate(64), i % 251).view() for i in range(2000)]
        assert await store.mput_async(keys, views) == [0] * 2000
        assert await store.mexists_async(keys) == [True] * 2000
        targets = [store.allocate(64).view() for _ in keys]
        assert await store.mget_async(keys, targets) == [64] * 2000
        assert bytes(targets[1999]) == bytes(views[1999])
        assert await store.mdelete_async(keys) == [0] * 2000
        assert await store.mget_async([key], []) == [INVALID_ARGUMENT]
        assert await store.mget_async([], []) == []
        with pytest.raises(TypeError):
            await store.put_async(b"key", views[0])
    asyncio.run(main())


def test_many_at_once_without_a_thread(store, key):
    async def main():
        threads = threading.active_count()
        views = [fill(store.allocate(512), i % 251).view() for i in range(1000)]
        puts = [store.put_async(f"{key}{i}", views[i]) for i in range(1000)]
        assert all(await asyncio.gather(*puts))
        targets = [store.allocate(512).view() for _ in range(1000)]
        gets = [store.get_async(f"{key}{i}", targets[i]) for i in range(1000)]
        assert await asyncio.gather(*gets) == [512] * 1000
        assert all(bytes(a) == bytes(b) for a, b in zip(views, targets))
        assert threading.active_count() == threads
    asyncio.run(main())


def test_nothing_runs_while_nothing_is_pending(store, key):
    async def main():
        await store.exists_async(key)
        before = time.process_time()
        await asyncio.sleep(1)
        assert time.process_time() - before < 0.2
    asyncio.run(main())


def test_one_store_in_several_loops_and_threads(store, key):
    errors = []

    async def main(name):
        block = fill(store.allocate(256), 1)
        for i in range(20):
            if await store.put_async(f"{key}{name}{i}", block.view()) != 0:
                errors.append(name)

    for _ in range(2):
        threads = [threading.Thread(target=lambda n=n: asyncio.run(main(n))) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert not errors and len(store.mexists([f"{key}3{i}" for i in range(20)])) == 20


def test_a_cancelled_get_has_ended_when_it_raises(store, key):
    async def main():
        big = 8 << 20
        assert await store.put_async(key, fill(store.allocate(big), 1).view()) == 0
        for _ in range(20):
            target = store.allocate(big)
            task = asyncio.ensure_future(store.get_async(key, target.view()))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            target.as_ref()[:] = 2  # ours again: nothing writes to it any more
            await asyncio.sleep(0.005)
            assert bytes(target) == b"\2" * big
        assert await store.get_async(key, target.view()) == big
    asyncio.run(main())


def test_a_deadline_of_the_caller(store, key):
    async def main():
        async def forever():
            while True:
                await store.exists_async(key)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(forever(), 0.2)
        assert await store.exists_async(key) is False
    asyncio.run(main())


def test_a_region_deregistered_with_work_in_flight(store, key):
    """Asking for it waits for the operations on its memory; what comes later is refused."""
    async def main():
        pool = numpy.ones(16 << 20, numpy.uint8)
        mr = kv.register_mr(pool)
        views = [kv.BlockView.from_tensor(pool[i << 20:(i + 1) << 20], mr) for i in range(16)]
        keys = [f"{key}{i}" for i in range(16)]
        assert await store.mput_async(keys, views) == [0] * 16
        tasks = [asyncio.ensure_future(store.mget_async(keys, views)) for _ in range(4)]
        await asyncio.sleep(0)
        assert kv.deregister_mr(mr)
        pool[:] = 2  # ours again: nothing writes to it any more
        for results in await asyncio.gather(*tasks):
            assert set(results) <= {1 << 20, INVALID_STATE}
        assert (pool == 2).all()
        assert await store.mget_async(keys, views) == [INVALID_STATE] * 16
    asyncio.run(main())


def test_closing_gives_what_is_pending_its_results(daemon, monkeypatch, key):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)

    async def main():
        store = kv.Store()
        view = fill(store.allocate(1 << 20), 1).view()
        tasks = [asyncio.ensure_future(store.put_async(f"{key}{i}", view)) for i in range(20)]
        await asyncio.sleep(0)
        store.close()
        results = await asyncio.gather(*tasks)
        assert set(results) <= {0, INVALID_STATE}
        assert await store.put_async(key, view) == INVALID_STATE
        assert await store.exists_async(key) is False
    asyncio.run(main())


def test_a_loop_that_is_closed_with_work_in_flight(store, key):
    view = fill(store.allocate(1 << 20), 1).view()
    loop = asyncio.new_event_loop()
    task = loop.create_task(store.put_async(key, view))
    loop.call_soon(loop.stop)
    loop.run_forever()
    task.cancel()
    loop.run_until_complete(asyncio.wait([task]))
    loop.close()
    assert store.put(key, view) == 0


class LoopOfAThread(asyncio.SelectorEventLoop):
    """Knows which threads touch it."""

    def __init__(self):
        self.threads = set()
        super().__init__()

    def call_soon_threadsafe(self, *arguments, **options):
        self.threads.add(threading.get_ident())
        return super().call_soon_threadsafe(*arguments, **options)

    def remove_reader(self, fd):
        self.threads.add(threading.get_ident())
        return super().remove_reader(fd)


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_loop_that_stands_while_another_thread_closes_its_store(daemon, key, monkeypatch,
                                                                  goes_on):
    """Its own thread goes on with the loop, or closes it, at any moment: nobody else touches it."""
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    store = kv.Store()
    view = fill(store.allocate(1 << 20), 1).view()
    stands, closed = threading.Event(), threading.Event()
    ends = []

    def run():
        loop = LoopOfAThread()
        task = loop.create_task(store.put_async(key, view))
        loop.run_until_complete(asyncio.sleep(0))
        channel = store._channels[loop]._channel
        is_pending = not task.done()  # nearly always
        stands.set()
        closed.wait()
        if goes_on:
            ends.append(loop.run_until_complete(task))
            loop.run_until_complete(asyncio.sleep(0))
            assert not is_pending or channel.fileno() == -1
        loop.close()
        task._log_destroy_pending = False
        ends.append(loop.threads <= {threading.get_ident()})

    thread = threading.Thread(target=run)
    thread.start()
    stands.wait()
    store.close()
    closed.set()
    thread.join()
    assert ends == ([0, True] if goes_on else [True])


def test_a_loop_sleeps_while_a_stopped_daemon_keeps_its_call(own_daemon, key, monkeypatch):
    """The call's deadline has passed. Memory that may not be taken back waits for the daemon."""
    turns = []
    seen = EventChannel._on_readable
    monkeypatch.setattr(EventChannel, "_on_readable", lambda self: (turns.append(1), seen(self)))

    async def main(store, target):
        own_daemon.stop()
        task = asyncio.ensure_future(store.get_async(key, target.view(), timeout_ms=50))
        try:
            while store.attached:
                await asyncio.sleep(0.05)
            before = len(turns)
            await asyncio.sleep(1)
            assert not task.done() and len(turns) - before < 300
        finally:
            own_daemon.go_on()
        await task

    with kv.Store() as store:
        target = fill(store.allocate(1 << 20, wait_if_stopped=True), 1)
        assert store.put(key, target.view()) == 0
        asyncio.run(main(store, target))


def test_the_first_call_of_a_loop_while_the_daemon_is_away(own_daemon, key):
    with kv.Store() as store:
        view = store.allocate(8).view()
        own_daemon.kill()
        assert asyncio.run(store.exists_async(key)) is False
        assert asyncio.run(store.get_async(key, view)) == -2300
        assert asyncio.run(store.mput_async([key, key], [view, view])) == [-2300] * 2
        own_daemon.start()
        assert asyncio.run(store.put_async(key, view)) in (0, -2300)


class DiedUnnoticed:
    """The connection of a daemon that has died, and nobody has noticed yet."""

    attached = True

    def __init__(self, connection):
        self._connection = connection

    def __getattr__(self, name):
        return getattr(self._connection, name)


def test_the_first_call_of_a_loop_just_when_the_daemon_has_died(own_daemon, key):
    with kv.Store() as store:
        view = store.allocate(8).view()
        own_daemon.kill()
        store._connection = DiedUnnoticed(store._connection)
        assert asyncio.run(store.get_async(key, view)) == UNREACHABLE


class RestartedMeanwhile(DiedUnnoticed):
    """The connection of a daemon that dies before the first channel, and is back behind that."""

    def __init__(self, connection, daemon):
        super().__init__(connection)
        self._daemon = daemon

    def open_channel(self):
        daemon, self._daemon = self._daemon, None
        if daemon is None:
            return self._connection.open_channel()
        daemon.kill()
        try:
            return self._connection.open_channel()
        finally:
            daemon.start()
            while self._connection.ping(60_000) != 0:
                time.sleep(0.01)


def test_the_first_call_of_a_loop_while_the_daemon_is_restarted(own_daemon, key):
    with kv.Store() as store:
        view = store.allocate(8).view()
        store._connection = RestartedMeanwhile(store._connection, own_daemon)
        assert asyncio.run(store.get_async(key, view)) == NOT_FOUND


@pytest.fixture
def roomy(tmp_path, monkeypatch, clean_settings):
    """A Store whose daemon has room for all that a test puts."""
    running = Daemon(tmp_path, config=CONFIG.replace("64MiB", "256MiB")).start()
    monkeypatch.setenv("SIMM_SOCKET", running.socket)
    with kv.Store() as opened:
        yield opened
    running.kill()


class Recorder:
    """Stands for the native channel of a loop, and keeps what each turn of the loop gives it."""

    def __init__(self, channel):
        self._channel = channel
        self._turn = 0
        self.keys, self.longest = collections.Counter(), 0
        asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self):
        self._turn += 1
        asyncio.get_running_loop().call_soon(self._next_turn)

    def start(self, operation, keys, views=None, *offsets, **options):
        self.keys[self._turn] += len(keys)
        sizes = views.sizes if isinstance(views, kv.Views) else [len(view) for view in views or ()]
        self.longest = max([self.longest, *sizes])
        return self._channel.start(operation, keys, views, *offsets, **options)

    def __getattr__(self, name):
        return getattr(self._channel, name)


async def recorded(store):
    await store.exists_async("none")
    channel = store._events()
    channel._channel = Recorder(channel._channel)
    return channel._channel


def test_a_long_list_is_taken_up_in_parts(roomy, key):
    """One part in a turn of the loop: others have their turns between them."""
    store = roomy

    async def main():
        seen = await recorded(store)
        pool = numpy.arange(20000 * 8, dtype=numpy.uint8)
        mr = kv.register_mr(pool)
        starts = [pool.ctypes.data + 8 * i for i in range(20000)]
        keys = [f"{key}{i}" for i in range(20000)]
        views = [kv.BlockView.from_buffer(start, 8, mr) for start in starts]
        assert await store.mput_async(keys, views) == [0] * 20000
        assert await store.mexists_async(keys) == [True] * 20000
        expected = pool.copy()
        pool[:] = 0
        assert await store.mget_async(keys, kv.Views(starts, [8] * 20000, mr)) == [8] * 20000
        assert (pool == expected).all()
        tail = [4] * 20000
        assert await store.mget_range_async(keys, views, tail) == tail
        assert (pool.reshape(-1, 8)[:, :4] == expected.reshape(-1, 8)[:, 4:]).all()
        assert await store.mdelete_async(keys, timeout_ms=60000) == [0] * 20000
        assert max(seen.keys.values()) <= 4096 and sum(seen.keys.values()) == 100000
        with pytest.raises(TypeError, match="keys\\[19999\\]"):
            await store.mexists_async(keys[:-1] + [1])
    asyncio.run(main())


def test_a_long_list_that_is_cancelled_has_ended_when_it_raises(roomy, key):
    store = roomy

    async def main():
        pool = numpy.ones(20000 * 1024, numpy.uint8)
        mr = kv.register_mr(pool)
        views = kv.Views([pool.ctypes.data + 1024 * i for i in range(20000)], [1024] * 20000, mr)
        keys = [f"{key}{i}" for i in range(20000)]
        assert await store.mput_async(keys, views) == [0] * 20000
        for turns in (0, 1, 3, 6):
            task = asyncio.ensure_future(store.mget_async(keys, views))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            pool[:] = 2  # ours again: nothing writes to it any more
            await asyncio.sleep(0.005)
            assert (pool == 2).all()
    asyncio.run(main())


def test_a_page_too_long_for_a_turn_is_copied_by_a_thread(roomy, key):
    store = roomy

    async def main():
        seen = await recorded(store)
        size = 12 << 20
        pool = numpy.full(size, 7, numpy.uint8)
        mr = kv.register_mr(pool)
        view = kv.BlockView.from_tensor(pool, mr)
        assert await store.put_async(key, view) == 0
        pool[:] = 0
        assert await store.mget_async([key], [view]) == [size] and (pool == 7).all()
        assert await store.mget_async([key] * 2, [view]) == [INVALID_ARGUMENT] * 2
        task = asyncio.ensure_future(store.get_async(key, view))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        pool[:] = 2  # ours again: nothing writes to it any more
        await asyncio.sleep(0.005)
        assert (pool == 2).all() and seen.longest <= 8 << 20
        late = asyncio.ensure_future(store.get_async(key, view))
        await asyncio.sleep(0)
        store.close()
        assert await late in (size, INVALID_STATE)
        assert await store.get_async(key, view) == INVALID_STATE
    asyncio.run(main())


def test_the_first_long_page_of_a_loop_while_the_daemon_is_away(own_daemon, key):
    async def main(store):
        await store.exists_async(key)
        pool = numpy.ones(12 << 20, numpy.uint8)
        mr = kv.register_mr(pool)
        view = kv.BlockView.from_tensor(pool, mr)
        own_daemon.kill()
        assert await store.put_async(key, view) == -2300
        own_daemon.start()
        while await store.put_async(key, view) != 0:
            await asyncio.sleep(0.05)

    with kv.Store() as store:
        asyncio.run(main(store))
