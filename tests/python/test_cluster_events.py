"""A router that subscribes to the publishers of all storage daemons knows what the cluster holds:
what is stored, what is removed, and what a daemon has lost that died."""

import re
import signal
import subprocess
import time

import pytest

from conftest import SIMMD, fill
from simm.kv import Store

zmq = pytest.importorskip("zmq", reason="python3-zmq")
msgpack = pytest.importorskip("msgpack", reason="python3-msgpack")

KEYS = [f"routed{i}" for i in range(200)]


class Stream:
    """The publisher of one daemon, and a router's index of what it tells, read from its replay."""

    def __init__(self, context, daemon):
        place = f"ipc://{daemon.directory}"
        self._errors = open(daemon.directory / "publisher", "wb")
        self._process = subprocess.Popen(
            [re.sub("simmd$", "simmctl", SIMMD), "--admin", str(daemon.directory / "admin.sock"),
             "events", "--publish", f"{place}/p", "--replay", f"{place}/r", "--wire", "arrays",
             "--present"], stderr=self._errors)
        self._socket = context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.RCVTIMEO, 60_000)
        self._socket.connect(f"{place}/r")
        self._next = 0
        self.index = set()
        self.clears = 0

    def read(self):
        """What has been told since."""
        self._socket.send_multipart([b"", self._next.to_bytes(8, "big")])
        while True:
            _, sequence, payload = self._socket.recv_multipart()
            number = int.from_bytes(sequence, "big", signed=True)
            if number == -1:
                return
            assert number == self._next, "none is missing"
            self._next += 1
            for kind, *rest in msgpack.unpackb(payload)[1]:
                if kind == "AllBlocksCleared":
                    self.index.clear()
                    self.clears += 1
                elif kind == "BlockStored":
                    self.index.update(rest[0])
                else:
                    self.index.difference_update(rest[0])

    def end(self):
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)
        self._errors.close()


@pytest.fixture
def sections():
    return {"events": {"keys": "hashes"}}


@pytest.fixture
def streams(cluster):
    with zmq.Context() as context:
        made = [Stream(context, cluster.daemons[name]) for name in "ab"]
        yield made
        for stream in made:
            stream.end()
        context.destroy(linger=0)


def wait_for(streams, is_so):
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end, [len(stream.index) for stream in streams]
        for stream in streams:
            stream.read()
        time.sleep(0.01)


def test_all_streams_together_are_what_the_cluster_holds(cluster, streams):
    first, second = streams

    def is_whole(count):
        assert not first.index & second.index, "a key has one owner"
        return len(first.index | second.index) == count

    with Store() as store:
        views = [fill(store.allocate(64), 1).view()] * len(KEYS)
        # Those of the fixture live for a second.
        wait_for(streams, lambda: first.clears and second.clears and is_whole(0))
        assert store.mput(KEYS, views) == [0] * len(KEYS)
        wait_for(streams, lambda: is_whole(200))
        assert first.index and second.index
        assert store.mdelete(KEYS[:50]) == [0] * 50
        wait_for(streams, lambda: is_whole(150))
        left = set(second.index)
        cluster.daemons["a"].kill(signal.SIGKILL)
        wait_for(streams, lambda: not first.index)
        assert second.index == left, "the other one has lost nothing"
        cluster.daemons["a"].start()
        end = time.monotonic() + 60
        while store.mput(KEYS, views, timeout_ms=1000) != [0] * len(KEYS):
            assert time.monotonic() < end
        wait_for(streams, lambda: is_whole(200))
