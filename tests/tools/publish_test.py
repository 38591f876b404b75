#!/usr/bin/env python3
"""simmctl events --publish: publish_test.py BIN_DIR. Frames byte by byte, and an index that a
subscriber makes of the stream of a real daemon, in every format."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import time
import unittest

try:
    import msgpack
    import zmq
    import zmq.auth
except ImportError as missing:
    print(f"skipped: {missing.name} is not installed (python3-zmq, python3-msgpack)")
    sys.exit(77)

from key_events_test import BIN, WAIT_S, Daemon

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from free_port import free_port  # noqa: E402

KEY = "00112233445566778899aabbccddeeff"
OTHER = "ff112233445566778899aabbccddee00"


def publish_module():
    spec = importlib.util.spec_from_file_location("publish", BIN / "simmctl-publish.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


publish = publish_module()


class GoldenFrames(unittest.TestCase):
    """What subscribers of others have to read: it must not change."""
    events = [("stored", [bytes.fromhex(KEY), bytes.fromhex(OTHER)]),
              ("removed", [bytes.fromhex(KEY)]), ("cleared", [])]

    def packed(self, wire):
        return msgpack.packb(publish.Wire(wire, "blue").batch(1.5, self.events)).hex()

    def test_arrays(self):
        self.assertEqual(
            self.packed("arrays"),
            "93cb3ff80000000000009398ab426c6f636b53746f72656492c410" + KEY + "c410" + OTHER +
            "c09000c0a753544f52414745c093ac426c6f636b52656d6f76656491c410" + KEY +
            "a753544f5241474591b0416c6c426c6f636b73436c656172656400")

    def test_maps(self):
        stored, removed, cleared = publish.Wire("maps", "blue").batch(1.5, self.events)[1]
        self.assertEqual(list(stored), ["type", "block_hashes", "parent_block_hash", "token_ids",
                                        "block_size", "lora_id", "medium", "lora_name",
                                        "extra_keys", "group_idx", "locality"])
        self.assertEqual((stored["type"], stored["block_hashes"], stored["token_ids"]),
                         ("BlockStored", [bytes.fromhex(KEY), bytes.fromhex(OTHER)], []))
        self.assertEqual(msgpack.packb(removed).hex(),
                         "83a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391c410" +
                         KEY + "a66d656469756da753544f52414745")
        self.assertEqual(msgpack.packb(cleared).hex(),
                         "81a474797065b0416c6c426c6f636b73436c6561726564")

    def test_pool(self):
        batch = publish.Wire("pool", "blue").batch(1.5, self.events)
        self.assertEqual((batch[0], batch[2]), (1500, 0))
        self.assertEqual([event["event_type"] for event in batch[1]],
                         ["stored", "stored", "removed", "cleared"])
        self.assertEqual(batch[1][0], {"event_type": "stored", "object_key": KEY,
                                       "tenant_id": "blue", "group_id": None})

    def test_order_is_kept_where_a_key_changes_often(self):
        key = [bytes.fromhex(KEY)]
        events = [("stored", key), ("removed", key), ("stored", key)]
        batch = publish.Wire("arrays", "blue").batch(0, events)
        self.assertEqual([event[0] for event in batch[1]],
                         ["BlockStored", "BlockRemoved", "BlockStored"])

    def test_a_message_has_a_bounded_number_of_keys(self):
        keys = [number.to_bytes(16, "big") for number in range(3000)]
        events = [("stored", keys[:1000]), ("removed", keys[1000:2900]), ("cleared", []),
                  ("stored", keys[2900:])]
        parts = list(publish.parts_of(events))
        told = [(kind, key) for part in parts for kind, of in part for key in of]
        self.assertEqual(told, [("stored", key) for key in keys[:1000]] +
                         [("removed", key) for key in keys[1000:2900]] +
                         [("stored", key) for key in keys[2900:]])
        self.assertEqual([sum(len(of) for _, of in part) for part in parts], [1024, 1024, 952])
        self.assertEqual([kind for part in parts for kind, _ in part].count("cleared"), 1)
        self.assertEqual(list(publish.parts_of([])), [])
        self.assertEqual(list(publish.parts_of([("cleared", [])])), [[("cleared", [])]])


class Addresses(unittest.TestCase):
    def refused(self, *arguments):
        done = subprocess.run([BIN / "simmctl", "events", *arguments], capture_output=True,
                              check=False, timeout=WAIT_S)
        self.assertEqual(done.returncode, 2, (arguments, done.stderr))
        return done.stderr.decode()

    def test_what_other_hosts_reach_is_refused_without_keys(self):
        for address in ("tcp://0.0.0.0:5557", "tcp://*:5557", "tcp://192.0.2.1:5557",
                        "tcp://[::]:5557", "tcp://localhost.example:5557"):
            self.assertIn("--curve", self.refused("--publish", address), address)
            self.assertIn("--curve", self.refused("--publish", "tcp://127.0.0.1:1", "--replay",
                                                  address), address)
        for address in ("tcp://127.0.0.1", "tcp://127.0.0.1:", "udp://127.0.0.1:1", "x"):
            self.assertIn("write tcp://", self.refused("--publish", address), address)

    def test_keys_that_others_may_read_are_refused(self):
        daemon = Daemon()
        try:
            (daemon.path / "clients").mkdir()
            said = self.refused("--publish", "tcp://0.0.0.0:1", "--curve", daemon.home.name)
            self.assertIn("server.key_secret", said)
            zmq.auth.create_certificates(daemon.home.name, "server")
            (daemon.path / "server.key_secret").chmod(0o644)
            said = self.refused("--publish", "tcp://0.0.0.0:1", "--curve", daemon.home.name)
            self.assertIn("chmod 600", said)
        finally:
            daemon.stop()


class Publisher:
    def __init__(self, daemon, *arguments):
        self.errors = open(daemon.path / "publisher", "wb")
        self.process = subprocess.Popen(
            [BIN / "simmctl", "--admin", daemon.admin, "events", *arguments], stderr=self.errors)

    def end(self):
        self.process.terminate()
        code = self.process.wait(WAIT_S)
        self.errors.close()
        return code


class Subscriber:
    """An index of a stream, as a router keeps one."""

    def __init__(self, address, replay=None, **curve):
        self.context = zmq.Context()
        self.socket = self._connect(zmq.SUB, address, curve)
        self.socket.setsockopt(zmq.SUBSCRIBE, b"")
        self.replay_socket = replay and self._connect(zmq.DEALER, replay, curve)
        self.index = set()
        self.next = None
        self.gaps = 0
        self.clears = 0
        self.removals = 0
        self.last = ""

    def _connect(self, kind, address, curve):
        made = self.context.socket(kind)
        made.setsockopt(zmq.LINGER, 0)
        made.setsockopt(zmq.RCVTIMEO, WAIT_S * 1000)
        for name, value in curve.items():
            setattr(made, name, value)
        made.connect(address)
        return made

    def begin(self):
        """Until the publisher has begun its stream, with a clear."""
        end = time.monotonic() + WAIT_S
        while self.next is None:
            assert time.monotonic() < end
            self.replay(0)

    def replay(self, start):
        """Everything that is kept from there on."""
        self.replay_socket.send_multipart([b"", start.to_bytes(8, "big")])
        while True:
            empty, sequence, payload = self.replay_socket.recv_multipart()
            assert empty == b""
            number = int.from_bytes(sequence, "big", signed=True)
            if number == -1:
                assert payload == b""
                return
            self.take(number, payload)

    def present(self):
        """Asks what is there: the number of the message from which on that is told; None: never."""
        self.replay_socket.send_multipart([b"", (-2).to_bytes(8, "big", signed=True)])
        answer = None
        while True:
            empty, sequence, payload = self.replay_socket.recv_multipart()
            assert (empty, payload) == (b"", b"")
            number = int.from_bytes(sequence, "big", signed=True)
            if number == -1:
                return answer
            answer = number

    def read(self):
        """The next message. What came before the subscription did, or was missed, is asked for."""
        if not self.socket.poll(200):
            return self.replay(self.next)
        topic, sequence, payload = self.socket.recv_multipart()
        assert topic == b"topic"
        number = int.from_bytes(sequence, "big")
        if number > self.next:
            self.replay(self.next)
        self.take(number, payload)

    def take(self, number, payload):
        if self.next is not None and number < self.next:
            return  # by replay already
        if self.next is not None and number > self.next:
            self.gaps += 1
            self.index.clear()
        self.next = number + 1
        stamp, events, rank = msgpack.unpackb(payload)
        assert rank == 0 and stamp > 1e9
        for event in events:
            self.apply(*self.parts(event))

    @staticmethod
    def parts(event):
        """(stored|removed|cleared, keys) of every format."""
        if isinstance(event, list):
            return {"BlockStored": "stored", "BlockRemoved": "removed",
                    "AllBlocksCleared": "cleared"}[event[0]], event[1] if len(event) > 1 else []
        if "type" in event:
            return Subscriber.parts([event["type"], event.get("block_hashes", [])])
        keys = [bytes.fromhex(event["object_key"])] if event["object_key"] else []
        return event["event_type"], keys

    def apply(self, kind, keys):
        self.last = kind
        if kind == "cleared":
            self.clears += 1
            self.index.clear()
        for key in keys:
            assert len(key) == 16
            if kind == "stored":
                self.index.add(key)
            else:
                self.removals += 1
                self.index.discard(key)

    def until(self, is_so):
        end = time.monotonic() + WAIT_S
        while not is_so():
            assert time.monotonic() < end, (self.index, self.next, self.clears, self.removals)
            self.read()

    def end(self):
        self.context.destroy(linger=0)


class Streams(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon()
        self.ends = []

    def tearDown(self):
        for end in reversed(self.ends):
            end()
        self.daemon.stop()

    def publisher(self, *arguments):
        made = Publisher(self.daemon, *arguments, "--topic", "topic", "--tenant", "red")
        self.ends.append(made.end)
        return made

    def subscriber(self, *arguments, **curve):
        made = Subscriber(*arguments, **curve)
        self.ends.append(made.end)
        return made

    def test_an_index_of_the_stream_is_the_pool(self):
        for wire in ("maps", "arrays", "pool"):
            with self.subTest(wire):
                out = f"ipc://{self.daemon.path}/out.{wire}"
                replay = f"ipc://{self.daemon.path}/replay.{wire}"
                self.publisher("--publish", out, "--replay", replay, "--wire", wire)
                router = self.subscriber(out, replay)
                router.begin()
                self.assertEqual((router.clears, router.index), (1, set()))
                self.assertEqual(os.stat(f"{self.daemon.path}/out.{wire}").st_mode & 0o077, 0)
                keys = [f"{wire}{number}" for number in range(24)]
                for key in keys:  # of which 16 MiB hold less
                    self.daemon.put(key, b"x" * (1 << 20))
                self.daemon.put("other tenant", b"y", socket="blue.sock")
                self.daemon.put("other space", b"y", "--namespace", "space")
                self.daemon.delete(keys[-1])
                self.daemon.put(keys[-1], b"z")
                # What this stream has told: all that is there, but for what was there before.
                self.daemon.put("last", b"z")
                self.daemon.delete("last")
                there = {key for key in keys if self.daemon.ctl(
                    "exists", key, "--socket", self.daemon.path / "simm.sock").returncode == 0}
                self.assertLess(len(there), len(keys))
                router.until(lambda: router.last == "removed" and
                             len(router.index) == len(there))
                self.assertEqual((router.gaps, router.clears), (0, 1))

    def test_a_router_that_was_away_gets_what_it_missed(self):
        out, replay = f"tcp://127.0.0.1:{free_port()}", f"tcp://127.0.0.1:{free_port()}"
        self.publisher("--publish", out, "--replay", replay)
        first = self.subscriber(out, replay)
        first.begin()
        for number in range(5):
            self.daemon.put(f"k{number}", b"x")
        first.until(lambda: len(first.index) == 5)
        late = self.subscriber(out, replay)
        late.begin()
        self.assertEqual(late.index, first.index)
        self.assertEqual((late.clears, late.gaps), (1, 0))

    def test_a_router_that_starts_late_gets_what_is_there(self):
        out, replay = f"ipc://{self.daemon.path}/o", f"ipc://{self.daemon.path}/r"
        for number in range(5):
            self.daemon.put(f"before{number}", b"x")
        self.publisher("--publish", out, "--replay", replay, "--present")
        first = self.subscriber(out, replay)
        first.begin()
        first.until(lambda: len(first.index) == 5)  # that nobody has stored since
        for number in range(5):
            self.daemon.put(f"k{number}", b"x")
        self.daemon.delete("before0")
        first.until(lambda: first.last == "removed" and len(first.index) == 9)
        for _ in range(2):
            late = self.subscriber(out, replay)
            late.next = late.present()
            late.until(lambda: len(late.index) == 9)
            self.assertEqual((late.index, late.clears, late.gaps), (first.index, 0, 0))
        self.daemon.delete("k0")
        late.until(lambda: len(late.index) == 8)
        first.until(lambda: len(first.index) == 8)
        self.assertEqual((first.clears, first.gaps), (1, 0))

    def test_a_publisher_that_does_not_tell_what_is_there_says_so(self):
        out, replay = f"ipc://{self.daemon.path}/o", f"ipc://{self.daemon.path}/r"
        self.publisher("--publish", out, "--replay", replay)
        self.assertIsNone(self.subscriber(out, replay).present())

    def test_questions_to_the_replay_that_make_no_sense_harm_nobody(self):
        out, replay = f"ipc://{self.daemon.path}/o", f"ipc://{self.daemon.path}/r"
        self.publisher("--publish", out, "--replay", replay)
        hostile = self.subscriber(out, replay)
        hostile.begin()
        for frames in ([b"x"], [b"", b"short"], [b"", b"x" * 8, b"more"], [b"x", b"12345678"],
                       [b"", b"y" * 100_000]):
            hostile.replay_socket.send_multipart(frames)
        for _ in range(200):  # asks, and never reads
            hostile.replay_socket.send_multipart([b"", bytes(8)])
        good = self.subscriber(out, replay)
        self.daemon.put("k", b"x")
        good.begin()
        good.until(lambda: len(good.index) == 1)

    def test_the_daemons_end_and_its_next_life_clear_the_stream(self):
        out, replay = f"ipc://{self.daemon.path}/o", f"ipc://{self.daemon.path}/r"
        self.publisher("--publish", out, "--replay", replay)
        router = self.subscriber(out, replay)
        router.begin()
        self.daemon.put("k", b"x")
        router.until(lambda: len(router.index) == 1)
        self.daemon.end_process(kill=True)
        router.until(lambda: router.clears == 2)  # away,
        self.assertEqual(router.index, set())
        self.daemon.start()
        router.until(lambda: router.clears == 3)  # and another one
        self.daemon.put("k2", b"x")
        router.until(lambda: len(router.index) == 1)
        self.assertEqual(router.gaps, 0)

    def test_curve_lets_in_those_whose_keys_are_there(self):
        (self.daemon.path / "clients").mkdir()
        (self.daemon.path / "outside").mkdir()
        zmq.auth.create_certificates(self.daemon.home.name, "server")
        zmq.auth.create_certificates(self.daemon.path / "clients", "router")
        zmq.auth.create_certificates(self.daemon.path / "outside", "stranger")
        (self.daemon.path / "server.key_secret").chmod(0o600)
        port, replay = free_port(), free_port()
        self.publisher("--publish", f"tcp://0.0.0.0:{port}", "--replay",
                       f"tcp://0.0.0.0:{replay}", "--curve", self.daemon.home.name)
        server, _ = zmq.auth.load_certificate(str(self.daemon.path / "server.key"))

        def keys(path):
            public, secret = zmq.auth.load_certificate(str(self.daemon.path / path))
            return {"curve_serverkey": server, "curve_publickey": public,
                    "curve_secretkey": secret}

        at = (f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{replay}")
        router = self.subscriber(*at, **keys("clients/router.key_secret"))
        router.begin()
        stranger = self.subscriber(*at, **keys("outside/stranger.key_secret"))
        plain = self.subscriber(*at)
        self.daemon.put("k", b"x")
        router.until(lambda: len(router.index) == 1)
        for other in (stranger, plain):
            self.assertEqual(other.socket.poll(300), 0)

    def test_where_events_are_off_it_says_so_and_ends(self):
        daemon = Daemon("off")
        try:
            done = subprocess.run(
                [BIN / "simmctl", "--admin", daemon.admin, "events", "--publish",
                 f"ipc://{daemon.path}/o"], capture_output=True, check=False, timeout=WAIT_S)
            self.assertEqual(done.returncode, 7)
            self.assertIn(b'events.keys is "off"', done.stderr)
        finally:
            daemon.stop()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
