"""A program that mixes everything that begins and ends an object's life, at random: registrations,
calls, cancelled calls, closed loops, forks, signals, threads, Stores, the daemon itself.

It compares the bytes of every get, has canaries around every page, fills memory that was
deregistered and looks later whether it stayed so. At the end of each epoch everything is let go:
descriptors, threads and memory must be what they were. A watchdog dumps all threads when no step
was made for 60 s, but for the time in which a thread was only waiting for a CPU.

    lifetimes.py [--seed N] [--steps N | --long] [--exit-at N] [--no-fork]

--steps: else 2,400, of which SIMM_ROUNDS_PERCENT takes a part. --long: a million steps, or 30
minutes; each epoch prints how many are done, and those of several seeds add up. --exit-at: the
interpreter ends behind that step, whatever is under way. --no-fork: under ASan, whose allocator can
not be used in a child that was forked while another thread held its lock.
SIMM_TEST_SIMMD names the daemon.
"""

import argparse
import asyncio
import collections
import contextlib
import faulthandler
import gc
import mmap
import os
import pathlib
import random
import signal
import sys
import tempfile
import threading
import time

import numpy

from conftest import Daemon
from simm import kv

SLOT, CANARY, SLOTS, POOLS, KEYS = 1 << 16, 64, 8, 6, 24
GUARD, GONE = 0x5A, 0xAB
WORKERS = 3
STEPS_IN_EPOCH = 600
LONG_STEPS, LONG_S = 1_000_000, 1800
WATCHDOG_S = 60
GROWTH_MAX = 48 << 20
# Absent, no daemon, closed or deregistered, late, full of what is leased.
FAILURES = {-4003, -2300, -1004, -1002, -4006}
CONFIG = '{"node": {"pool_bytes": "64MiB"}, "session": {"handshake_ms": 60000}}'
COUNT = numpy.arange(SLOT // 8, dtype=numpy.uint64)


class Watchdog(threading.Thread):
    """Ends the process when the main thread has made no step for WATCHDOG_S. The kernel knows how
    long each thread was ready and had no CPU: that time of a busy machine does not count."""

    LOOK_S = 2

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.steps, self.pids = 0, [os.getpid()]

    def waits_s(self) -> dict:
        """How long each thread of this process and of the daemon has waited for a CPU so far."""
        found = {}
        for pid in self.pids:
            for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
                with contextlib.suppress(OSError):
                    found[path] = int(path.read_text(encoding="ascii").split()[1]) / 1e9
        return found

    def run(self) -> None:
        steps, counted_s, since_s = self.steps, 0.0, time.monotonic()
        last_s, waits = since_s, self.waits_s()
        while counted_s < WATCHDOG_S:
            # Of another thread, which needs no lock of the interpreter.
            faulthandler.dump_traceback_later(WATCHDOG_S, exit=True)
            time.sleep(self.LOOK_S)
            now_s, before, waits = time.monotonic(), waits, self.waits_s()
            starved_s = max((waits[one] - before.get(one, 0.0) for one in waits), default=0.0)
            counted_s += max(0.0, now_s - last_s - starved_s)
            last_s = now_s
            if self.steps != steps:
                steps, counted_s, since_s = self.steps, 0.0, now_s
        print(f"no step for {last_s - since_s:.0f} s, in {counted_s:.0f} s of which no thread "
              "waited for a CPU", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(all_threads=True)
        for pid in self.pids[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os._exit(1)


class Own(Exception):
    """What the signal's handler raises."""


class Pool:
    """Memory with pages between canaries."""

    def __init__(self, store, kind: str, waits: bool) -> None:
        size = SLOTS * (SLOT + 2 * CANARY)
        self.block = self.mr = None
        if kind == "block":
            self.block = store.allocate(size, wait_if_stopped=waits)
            self.bytes = numpy.frombuffer(memoryview(self.block), numpy.uint8)
        elif kind == "shared":
            self.bytes = numpy.frombuffer(mmap.mmap(-1, size), numpy.uint8)
        else:
            self.bytes = numpy.empty(size, numpy.uint8)
        self.bytes[:] = GUARD
        if kind != "block":
            self.mr = kv.register_mr(self.bytes, wait_if_stopped=waits)
        self.free, self.lost = list(range(SLOTS)), 0
        self.open, self.filled = True, False

    def page(self, slot: int, size: int):
        start = slot * (SLOT + 2 * CANARY) + CANARY
        return self.bytes[start:start + size]

    def view(self, slot: int, size: int):
        page = self.page(slot, size)
        return kv.BlockView.from_buffer(page.ctypes.data, size, self.mr)

    def check(self) -> None:
        for slot in range(SLOTS):
            start = slot * (SLOT + 2 * CANARY)
            before = self.bytes[start:start + CANARY]
            behind = self.bytes[start + CANARY + SLOT:start + 2 * CANARY + SLOT]
            assert (before == GUARD).all() and (behind == GUARD).all(), "a canary is dead"
            if self.filled:
                page = self.page(slot, SLOT)
                assert (page == GONE).all(), "memory was written after deregister_mr()"


class Key:
    """One thread at a time puts it; anybody gets it."""

    def __init__(self, number: int) -> None:  # no epoch has another's
        self.number, self.name = number, f"key{number}"
        self.size = SLOT if number % 4 == 0 else 4096
        self.writer = threading.Lock()
        self.version = self.stored = 0

    def fill(self, page, version: int) -> None:
        words = page.view(numpy.uint64)
        words[:] = COUNT[:len(words)] ^ numpy.uint64(self.number << 32 | version)

    def check(self, page, oldest: int) -> None:
        words = page.view(numpy.uint64) ^ COUNT[:self.size // 8]
        tag = int(words[0])
        assert (words == words[0]).all() and tag >> 32 == self.number, f"{self.name}: wrong bytes"
        assert oldest <= tag & 0xFFFFFFFF <= self.version, f"{self.name}: an older value"


class World:
    """What one epoch's threads share."""

    def __init__(self, daemon: Daemon, watchdog: Watchdog, seed: int, epoch: int, steps: int,
                 exit_at: int) -> None:
        self.watchdog = watchdog
        self.daemon, self.seed, self.exit_at = daemon, f"{seed}/{epoch}", exit_at
        self.lock = threading.Condition()
        self.left, self.done = steps, 0
        self.kills = self.compared = 0
        self.store = kv.Store()
        self.pools, self.gone = [], collections.deque(maxlen=4)
        self.keys = [Key(KEYS * epoch + number) for number in range(KEYS)]
        self.failure, self.may_raise = None, False

    # --- slots ---

    def take(self, rng):
        with self.lock:
            pools = [pool for pool in self.pools if pool.open and pool.free]
            if not pools:
                return None, 0
            pool = rng.choice(pools)
            return pool, pool.free.pop(rng.randrange(len(pool.free)))

    def give_back(self, pool: Pool, slot: int) -> None:
        pool.check()
        with self.lock:
            pool.free.append(slot)
            self.lock.notify_all()

    # --- steps ---

    def register(self, rng) -> None:
        with self.lock:
            if sum(pool.open for pool in self.pools) >= POOLS:
                return
        try:
            pool = Pool(self.store, rng.choice(["block", "shared", "private"]), rng.random() < .3)
        except RuntimeError:  # closed, or no daemon
            return
        with self.lock:
            if pool.block is not None or pool.mr is not None:
                self.pools.append(pool)

    def deregister(self, rng) -> None:
        with self.lock:
            pools = [pool for pool in self.pools if pool.open]
            if len(pools) < 2:
                return
            pool = rng.choice(pools)
            pool.open = False
            self.pools.remove(pool)
        if pool.mr is None:
            return  # a block: dropped with its last user
        kv.deregister_mr(pool.mr)
        with self.lock:
            # Those whose calls have ended still look at the bytes.
            assert self.lock.wait_for(lambda: len(pool.free) + pool.lost == SLOTS, WATCHDOG_S)
        for slot in range(SLOTS):
            pool.page(slot, SLOT)[:] = GONE
        pool.filled = True
        with self.lock:
            evicted = self.gone[0] if len(self.gone) == self.gone.maxlen else None
            self.gone.append(pool)
        if evicted is not None:
            evicted.check()

    def get(self, rng) -> None:
        pool, slot = self.take(rng)
        if pool is None:
            return
        key = rng.choice(self.keys)
        kills, oldest = self.kills, key.stored
        code = self.store.get(key.name, pool.view(slot, key.size))
        self.look(key, pool, slot, code, oldest, kills)
        self.give_back(pool, slot)

    def look(self, key, pool, slot, code, oldest, kills) -> None:
        if code == key.size:
            key.check(pool.page(slot, key.size), oldest if kills == self.kills else 0)
            self.compared += 1  # about: threads may do so at once
        else:
            assert code in FAILURES, f"get: {int(code)}"

    def put(self, rng) -> None:
        pool, slot = self.take(rng)
        if pool is None:
            return
        key = rng.choice(self.keys)
        with key.writer:
            key.version += 1
            version, kills = key.version, self.kills
            key.fill(pool.page(slot, key.size), version)
            code = self.store.put(key.name, pool.view(slot, key.size))
            assert code == 0 or code in FAILURES, f"put: {int(code)}"
            if code == 0 and kills == self.kills:
                key.stored = version
        self.give_back(pool, slot)

    def get_list(self, rng) -> None:
        taken = [(pool, slot) for pool, slot in (self.take(rng) for _ in range(5)) if pool]
        keys = [rng.choice(self.keys) for _ in taken]
        kills, before = self.kills, [key.stored for key in keys]
        views = [pool.view(slot, key.size) for key, (pool, slot) in zip(keys, taken)]
        codes = self.store.mget([key.name for key in keys], views)
        for key, (pool, slot), code, oldest in zip(keys, taken, codes, before):
            self.look(key, pool, slot, code, oldest, kills)
            self.give_back(pool, slot)

    async def get_async(self, rng, key, pool, slot) -> None:
        kills, oldest = self.kills, key.stored
        code = await self.store.get_async(key.name, pool.view(slot, key.size))
        self.look(key, pool, slot, code, oldest, kills)

    def loop(self, rng) -> None:
        """Some of its calls are cancelled; afterwards their pages are free."""
        async def main():
            tasks = []
            for pool, slot in taken:
                call = self.get_async(rng, rng.choice(self.keys), pool, slot)
                tasks.append(asyncio.ensure_future(call))
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            for task in tasks:
                if rng.random() < 0.5:
                    task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result

        taken = [(pool, slot) for pool, slot in (self.take(rng) for _ in range(4)) if pool]
        try:
            asyncio.run(main())
        finally:
            for pool, slot in taken:
                pool.page(slot, SLOT)[:] = GUARD
                self.give_back(pool, slot)

    def closed_loop(self, rng) -> None:
        """Closed with a call in flight, whose page is used by nobody until deregister_mr()."""
        pool, slot = self.take(rng)
        if pool is None:
            return
        key = rng.choice(self.keys)
        loop = asyncio.new_event_loop()
        view = pool.view(slot, key.size)
        task = loop.create_task(self.store.get_async(key.name, view))
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        task._log_destroy_pending = False
        del task, loop
        if rng.random() < 0.5:
            gc.collect()
        with self.lock:
            pool.lost += 1
            self.lock.notify_all()

    def collect(self, rng) -> None:
        gc.collect()

    # --- steps of the main thread ---

    def fork(self, rng) -> None:
        """The child has a session of its own, and the parent's memory."""
        key = rng.choice(self.keys)
        kills, oldest = self.kills, key.stored
        child = os.fork()
        if child == 0:
            ended = 1
            try:
                # The watchdog's thread is the parent's.
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(WATCHDOG_S)
                memory = numpy.frombuffer(memoryview(self.store.allocate(SLOT)), numpy.uint8)
                view = kv.BlockView.from_buffer(memory.ctypes.data, key.size)
                code = self.store.get(key.name, view)
                if code == key.size:
                    key.version += 1000  # the parent goes on
                    key.check(memory[:key.size], 0)
                ended = 0 if code == key.size or code in FAILURES else 2
            except RuntimeError:  # closed, or no daemon
                ended = 0
            finally:
                if ended:
                    print(f"child: {ended}: {sys.exc_info()[1]!r}", file=sys.stderr, flush=True)
                os._exit(ended)
        assert os.waitpid(child, 0)[1] == 0, "the child failed"

    def signal(self, rng) -> None:
        """The handler raises, in the call or behind it: then the page is free."""
        pool, slot = self.take(rng)
        if pool is None:
            return
        key, view = rng.choice(self.keys), pool.view(slot, SLOT)
        try:
            self.may_raise = True
            signal.setitimer(signal.ITIMER_REAL, rng.choice([1e-5, 1e-4, 1e-3]))
            for _ in range(20):
                self.store.get(key.name, view)
            self.may_raise = False
        except Own:
            pass
        self.may_raise = False
        pool.page(slot, SLOT)[:] = GUARD
        self.give_back(pool, slot)

    def raise_own(self, *_) -> None:
        if self.may_raise:
            self.may_raise = False
            raise Own

    def reopen(self, rng) -> None:
        try:
            before, self.store = self.store, kv.Store()
        except RuntimeError:
            return
        if rng.random() < 0.5:
            before.close()

    def kill_daemon(self, rng) -> None:
        if rng.random() < 0.8:
            return
        # What was stored before is gone, and may be found until then.
        self.kills += 1
        self.daemon.kill()
        for key in self.keys:
            with key.writer:
                key.stored = 0
        self.daemon.start()
        self.watchdog.pids[1:] = [self.daemon.pid()]
        self.kills += 1

    # --- running ---

    OF_ALL = (["get"] * 6 + ["put"] * 6 + ["get_list"] * 2 + ["register"] * 2
              + ["deregister", "loop", "loop", "closed_loop", "collect"])
    OF_MAIN = ["fork", "signal", "signal", "reopen", "kill_daemon"]

    def next_step(self) -> bool:
        with self.lock:
            self.left -= 1
            self.done += 1
            if self.done == self.exit_at:
                self.left = 0
            return self.left >= 0 and self.failure is None

    def work(self, number: int) -> None:
        rng = random.Random(f"{self.seed}/{number}")
        steps = self.OF_ALL + (self.OF_MAIN if number == 0 else [])
        try:
            while self.next_step():
                getattr(self, rng.choice(steps))(rng)
                if number == 0:
                    self.watchdog.steps += 1
        except BaseException as error:
            if self.failure is None:
                self.failure = error
            raise

    def run(self) -> None:
        signal.signal(signal.SIGALRM, self.raise_own)
        self.register(random.Random(self.seed))
        threads = [threading.Thread(target=self.work, args=(number,), daemon=True)
                   for number in range(1, WORKERS + 1)]
        for thread in threads:
            thread.start()
        self.work(0)
        if self.exit_at:
            print("leaving", flush=True)
            sys.exit(0)  # the other threads are in the middle of it
        for thread in threads:
            thread.join()
        if self.failure is not None:
            raise self.failure
        self.end()

    def end(self) -> None:
        for pool in [*self.pools, *self.gone]:
            if pool.mr is not None:
                kv.deregister_mr(pool.mr)
            pool.check()
        self.pools.clear()
        self.gone.clear()
        self.store.close()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def state() -> dict:
    with open("/proc/self/statm", encoding="ascii") as statm:
        pages = int(statm.read().split()[1])
    return {"descriptors": len(os.listdir("/proc/self/fd")), "threads": threading.active_count(),
            "bytes": pages * mmap.PAGESIZE}


def run(directory: str, options: argparse.Namespace) -> None:
    steps = LONG_STEPS if options.long else options.steps
    print(f"seed {options.seed}: lifetimes.py --seed {options.seed} --steps {steps}", flush=True)
    until_s = time.monotonic() + (LONG_S if options.long else float("inf"))
    os.environ["SIMM_SOCKET"] = os.path.join(directory, "simm.sock")
    watchdog = Watchdog()
    watchdog.start()
    daemon = Daemon(pathlib.Path(directory), config=CONFIG).start()
    watchdog.pids.append(daemon.pid())
    try:
        states, compared, done = [], 0, 0
        while steps > 0 and time.monotonic() < until_s:
            now = min(steps, STEPS_IN_EPOCH)
            world = World(daemon, watchdog, options.seed, len(states), now, options.exit_at)
            world.run()
            compared += world.compared
            del world
            steps -= now
            done += now
            gc.collect()
            states.append(state())
            print(f"{done} steps:", states[-1], flush=True)
        # The first epochs load modules and fill caches.
        first, last = states[min(1, len(states) - 1)], states[-1]
        assert (first["descriptors"], first["threads"]) == (last["descriptors"], last["threads"])
        assert last["bytes"] - first["bytes"] <= GROWTH_MAX, f"{first}, then {last}"
        print(f"flat, {compared} pages compared", flush=True)
    finally:
        daemon.kill()


def main() -> None:
    percent = int(os.environ.get("SIMM_ROUNDS_PERCENT", "100"))
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--steps", type=int, default=4 * STEPS_IN_EPOCH * percent // 100)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--exit-at", type=int, default=0)
    parser.add_argument("--no-fork", action="store_true")
    options = parser.parse_args()
    if options.no_fork:
        World.OF_MAIN = [step for step in World.OF_MAIN if step != "fork"]
    # A sanitizer's runtime is for this interpreter. The daemon brings its own.
    os.environ.pop("LD_PRELOAD", None)
    with tempfile.TemporaryDirectory() as directory:
        run(directory, options)


if __name__ == "__main__":
    main()
