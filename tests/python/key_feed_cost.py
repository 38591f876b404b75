#!/usr/bin/python3
"""What events of keys cost a daemon, by hand:

    SIMM_TEST_SIMMD=build/release/bin/simmd PYTHONPATH=build/release/python \
        /usr/bin/python3 tests/python/key_feed_cost.py [SECONDS]

A process puts small objects at a steady rate into a full pool, so that each put is two events.
CPU time of the daemon's threads is told for each 100,000 events a second, in percent of a core:
without a follower and with one, in turn; the follower is a process of its own. Rates that the
machine does not reach are said as they are."""

import multiprocessing
import os
import pathlib
import statistics
import sys
import tempfile
import time

from conftest import Daemon
from simm.kv import KeyChange, Store

CONFIG = ('{"node": {"pool_bytes": "16MiB"}, "threading": {"data_agents": 1}, '
          '"store": {"lease_default_ms": 1}, "events": {"keys": "hashes"}}')
PUTS_PER_S = 50_000
BATCH = 1000
ROUNDS = 5


def threads_of(pid):
    """CPU seconds by thread name."""
    spent = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        name, rest = (task / "stat").read_text(encoding="utf-8").split("(", 1)[1].rsplit(")", 1)
        fields = rest.split()
        ticks = int(fields[11]) + int(fields[12])
        spent[name] = spent.get(name, 0) + ticks / os.sysconf("SC_CLK_TCK")
    return spent


def follow(ends, counts):
    with Store() as store, store.follow_keys() as follower:
        events = losses = 0
        while not ends.is_set():
            for change, _, _ in follower.read_plain(20):
                events += 1
                losses += change == KeyChange.unsure
        used = os.times()
        counts.put((events, losses - 1, used.user + used.system))


def put_steadily(store, views, seconds, first):
    """How many were put."""
    begin_s = time.monotonic()
    count = 0
    while time.monotonic() < begin_s + seconds:
        keys = [f"k{first + count + i}" for i in range(BATCH)]
        store.mput(keys, views)
        count += BATCH
        time.sleep(max(0, begin_s + count / PUTS_PER_S - time.monotonic()))
    return count


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 4
    with tempfile.TemporaryDirectory() as home:
        daemon = Daemon(pathlib.Path(home), config=CONFIG).start()
        os.environ["SIMM_SOCKET"] = daemon.socket
        results = {False: [], True: []}
        try:
            with Store() as store:
                views = [store.allocate(64).view() for _ in range(BATCH)]
                first = put_steadily(store, views, 6, 0)  # the pool is full
                for number in range(2 * ROUNDS):
                    is_followed = number % 2 == 1
                    results[is_followed].append(
                        measure(daemon, store, views, seconds, first, is_followed))
                    first += 10_000_000
        finally:
            daemon.kill()
    for is_followed, rows in results.items():
        print("followed" if is_followed else "alone   ", " ".join(
            f"{name}={statistics.median(row[name] for row in rows):.2f}" for name in rows[0]))


def measure(daemon, store, views, seconds, first, is_followed):
    ends, counts = multiprocessing.Event(), multiprocessing.SimpleQueue()
    other = multiprocessing.Process(target=follow, args=(ends, counts))
    if is_followed:
        other.start()
        while daemon.stats("key_events").get("key_events.subscribers", 0) == 0:
            time.sleep(0.01)
    before = threads_of(daemon.pid())
    begin_s = time.monotonic()
    puts = put_steadily(store, views, seconds, first)
    taken_s = time.monotonic() - begin_s
    after = threads_of(daemon.pid())
    row = {"puts_per_s": puts / taken_s}
    told = 2 * puts  # stored, and evicted
    for name in sorted(after):
        spent = after[name] - before.get(name, 0)
        if spent > 0.02:
            row[name + "_percent"] = 100 * spent / (told / 100_000)
    if is_followed:
        ends.set()
        events, losses, used_s = counts.get()
        other.join()
        row.update(events_per_put=events / puts, losses=losses,
                   follower_percent=100 * used_s / (events / 100_000))
    return row


if __name__ == "__main__":
    main()
