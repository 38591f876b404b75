#!/usr/bin/python3
"""What events of keys cost a daemon, by hand:

    SIMM_TEST_SIMMD=build/release/bin/simmd PYTHONPATH=build/release/python \
        /usr/bin/python3 tests/python/key_feed_cost.py [SECONDS [ROUNDS [PUTS_PER_S]]]

A process puts small objects at a steady rate into a full pool, so that each put is two events.
CPU time of the daemon's threads is told for each 100,000 events a second, in percent of a core:
without a follower, with one, and with `simmctl events --publish` and a subscriber, in turn. The
follower is a process of its own, and so are publisher and subscriber. Rates that the machine does
not reach are said as they are."""

import multiprocessing
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from conftest import SIMMD, Daemon
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
        counts.put((events, losses, used.user + used.system))


def subscribe(address, is_there, ends, counts):
    import msgpack
    import zmq
    socket = zmq.Context().socket(zmq.SUB)
    socket.setsockopt(zmq.SUBSCRIBE, b"")
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.RCVTIMEO, 100)
    socket.connect(address)
    events = losses = 0
    while not ends.is_set():
        try:
            frames = socket.recv_multipart()
        except zmq.Again:
            continue
        if not is_there.is_set():
            is_there.set()
            losses = 1  # of its begin, as of a session's
            continue
        for event in msgpack.unpackb(frames[2])[1]:
            events += len(event.get("block_hashes", ()))
            losses += event["type"] == "AllBlocksCleared"
    counts.put((events, losses, 0.0))


class Follower:
    """Follows in a process of its own, from the begin of a round on."""

    def __init__(self, daemon):
        self.ends, self.counts = multiprocessing.Event(), multiprocessing.SimpleQueue()
        self.process = multiprocessing.Process(target=follow, args=(self.ends, self.counts))
        self.process.start()
        while daemon.stats("key_events").get("key_events.subscribers", 0) == 0:
            time.sleep(0.01)

    def end(self):
        """Events, losses, CPU seconds."""
        self.ends.set()
        told = self.counts.get()
        self.process.join()
        return told


class Publisher(Follower):
    """`simmctl events --publish`; what it told is what a subscriber has heard."""

    def __init__(self, daemon):
        address = f"ipc://{daemon.directory}/events"
        self.ends, self.counts = multiprocessing.Event(), multiprocessing.SimpleQueue()
        is_there = multiprocessing.Event()
        self.process = multiprocessing.Process(
            target=subscribe, args=(address, is_there, self.ends, self.counts))
        self.process.start()
        self.publisher = subprocess.Popen(
            [re.sub("simmd$", "simmctl", SIMMD), "--admin", str(daemon.directory / "admin.sock"),
             "events", "--publish", address])
        while daemon.stats("key_events").get("key_events.subscribers", 0) == 0:
            time.sleep(0.01)
        with Store() as store:  # a subscriber misses what is sent before it is connected
            while not is_there.is_set():
                store.put("first", b"first")
                time.sleep(0.01)
        self.before_s = self._cpu_s()

    def _cpu_s(self):
        pid = self.publisher.pid
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
        return sum(sum(threads_of(each).values()) for each in [pid, *map(int, children.split())])

    def end(self):
        used_s = self._cpu_s() - self.before_s
        self.publisher.terminate()
        self.publisher.wait(60)
        events, losses, _ = super().end()
        return events, losses, used_s


def put_steadily(store, views, seconds, first, puts_per_s=PUTS_PER_S):
    """How many were put."""
    begin_s = time.monotonic()
    count = 0
    while time.monotonic() < begin_s + seconds:
        keys = [f"k{first + count + i}" for i in range(BATCH)]
        store.mput(keys, views)
        count += BATCH
        time.sleep(max(0, begin_s + count / puts_per_s - time.monotonic()))
    return count


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 4
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    rate = int(sys.argv[3]) if len(sys.argv) > 3 else PUTS_PER_S
    with tempfile.TemporaryDirectory() as home:
        daemon = Daemon(pathlib.Path(home), config=CONFIG).start()
        os.environ["SIMM_SOCKET"] = daemon.socket
        results = {"alone": [], "followed": [], "published": []}
        kinds = {"alone": None, "followed": Follower, "published": Publisher}
        try:
            with Store() as store:
                views = [store.allocate(64).view() for _ in range(BATCH)]
                first = put_steadily(store, views, 6, 0)  # the pool is full
                for _ in range(rounds):
                    for name, kind in kinds.items():
                        results[name].append(
                            measure(daemon, store, views, seconds, first, kind, rate))
                        first += 10_000_000
        finally:
            daemon.kill()
    for name, rows in results.items():
        print(f"{name:9}", " ".join(
            f"{of}={statistics.median(row[of] for row in rows if of in row):.2f}"
            for of in rows[0]))


def measure(daemon, store, views, seconds, first, kind, rate):
    follower = kind and kind(daemon)
    before = threads_of(daemon.pid())
    begin_s = time.monotonic()
    puts = put_steadily(store, views, seconds, first, rate)
    taken_s = time.monotonic() - begin_s
    after = threads_of(daemon.pid())
    row = {"puts_per_s": puts / taken_s}
    told = 2 * puts  # stored, and evicted
    for name in sorted(after):
        spent = after[name] - before.get(name, 0)
        if spent > 0.02:
            row[name + "_percent"] = 100 * spent / (told / 100_000)
    if follower:
        time.sleep(0.5)  # what is on its way
        events, losses, used_s = follower.end()
        row.update(events_per_put=events / puts, losses=losses - 1,
                   follower_percent=100 * used_s / (max(events, 1) / 100_000))
    return row


if __name__ == "__main__":
    main()
