#!/usr/bin/env python3
"""simmctl-publish.py: the events of keys of one namespace of a daemon, for routers, over ZeroMQ.
`simmctl events --publish` becomes this program; daemon/tools/simmctl/ADMIN.md has the wire.

A message is [topic, sequence, payload]: the sequence in 8 bytes, most significant first, the
payload by msgpack. Keys are hashes of 16 bytes; no token and no key is ever sent. What is lost on
the way clears the stream: whoever has an index of it begins anew. All is bounded, and a subscriber
that reads too slowly misses messages, which the sequence shows and a replay brings back."""
import argparse
import collections
import contextlib
import fcntl
import ipaddress
import itertools
import os
import pathlib
import signal
import stat
import struct
import subprocess
import sys
import time
from typing import Any, Deque, Dict, Iterator, List, Optional, Tuple

USAGE = 2
FAILED = 7
END = (-1).to_bytes(8, "big", signed=True)  # the sequence of the end of a replay
PRESENT = (-2).to_bytes(8, "big", signed=True)  # a question for what is there
KEYS_PER_MESSAGE_MAX = 1024
MESSAGES_KEPT = 10_000  # for replays,
BYTES_KEPT = 64 << 20  # and of these at most so many bytes
MESSAGES_AHEAD = 10_000  # of one subscriber; it misses those that follow
READ_BYTES = 1 << 20  # and in the pipe: what comes together is read together
F_SETPIPE_SZ = 1031  # of Linux; Python knows the name since 3.10
REPLAYS_PER_TURN = 16
WAKE_MS = 300  # a signal may have met another thread, and waits for this one
MEDIUM = "STORAGE"
STORED = "stored"
CLEARED = "cleared"
Events = List[Tuple[str, List[bytes]]]  # (stored|removed|cleared, hashes)


def refuse(message: str) -> "SystemExit":
    print(f"simmctl: {message}", file=sys.stderr)
    return SystemExit(USAGE)


def is_private(address: str) -> bool:
    """Only this host reads what is bound there."""
    if address.startswith("ipc://"):
        return len(address) > len("ipc://")
    if not address.startswith("tcp://"):
        return False
    host = address[len("tcp://"):].rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(name: str, address: str, curve: Optional[pathlib.Path]) -> None:
    if not address.startswith(("tcp://", "ipc://")):
        raise refuse(f"{name} {address!r}: write tcp://ADDRESS:PORT or ipc://PATH")
    if address.startswith("tcp://") and not address.rpartition(":")[2].isdigit():
        raise refuse(f"{name} {address!r}: a port is missing: write tcp://127.0.0.1:5557")
    if curve is None and not is_private(address):
        raise refuse(f"{name} {address!r}: others than this host could read which keys there are: "
                     "use 127.0.0.1, [::1] or ipc://PATH, or give keys with --curve DIRECTORY")


class Wire:
    """How events are written: as vLLM's maps, as its arrays, or as a pool's."""

    def __init__(self, wire: str, tenant: str) -> None:
        self.wire = wire
        self.tenant = tenant

    def batch(self, seconds: float, events: Events) -> List[Any]:
        if self.wire == "pool":
            return [int(seconds * 1000), [event for kind, keys in events
                                          for event in self._of_pool(kind, keys)], 0]
        return [seconds, [self._of_engine(kind, keys) for kind, keys in events], 0]

    def _of_pool(self, kind: str, keys: List[bytes]) -> List[Dict[str, Any]]:
        return [{"event_type": kind, "object_key": key.hex() or None, "tenant_id": self.tenant,
                 "group_id": None} for key in keys or [b""]]

    def _of_engine(self, kind: str, keys: List[bytes]) -> Any:
        is_map = self.wire == "maps"
        if kind == CLEARED:
            return {"type": "AllBlocksCleared"} if is_map else ["AllBlocksCleared"]
        if kind != STORED:
            if is_map:
                return {"type": "BlockRemoved", "block_hashes": keys, "medium": MEDIUM}
            return ["BlockRemoved", keys, MEDIUM]
        if is_map:
            return {"type": "BlockStored", "block_hashes": keys, "parent_block_hash": None,
                    "token_ids": [], "block_size": 0, "lora_id": None, "medium": MEDIUM,
                    "lora_name": None, "extra_keys": None, "group_idx": None,
                    "locality": "REMOTE"}
        return ["BlockStored", keys, None, [], 0, None, MEDIUM, None]


def parts_of(events: Events) -> Iterator[Events]:
    """Of a message each."""
    part: Events = []
    count = 0
    for kind, keys in events:
        while count + len(keys) > KEYS_PER_MESSAGE_MAX:
            room = KEYS_PER_MESSAGE_MAX - count
            yield part + [(kind, keys[:room])] if room else part
            part, count, keys = [], 0, keys[room:]
        if keys or kind == CLEARED:
            part.append((kind, keys))
            count += len(keys)
    if part:
        yield part


class Publisher:
    """The two sockets of a stream, and its last messages."""

    def __init__(self, options: argparse.Namespace, zmq: Any, pack: Any) -> None:
        self.zmq = zmq
        self.pack = pack
        self.wire = Wire(options.wire, options.tenant)
        self.topic = options.topic.encode()
        self.sequence = 0
        self.kept: Deque[Tuple[int, bytes]] = collections.deque()
        self.kept_bytes = 0
        self.present_wanted = False  # somebody has asked for what is there
        self.has_present = options.present
        self.context = zmq.Context()
        self.guard = None
        if options.curve is not None:
            self._guard(options.curve)
        self.out = self._bind(zmq.PUB, options.publish, options.curve)
        self.replay = None
        if options.replay:
            self.replay = self._bind(zmq.ROUTER, options.replay, options.curve)

    def _guard(self, curve: pathlib.Path) -> None:
        from zmq.auth.thread import ThreadAuthenticator
        self.guard = ThreadAuthenticator(self.context)
        self.guard.start()
        self.guard.configure_curve(domain="*", location=str(curve / "clients"))

    def _bind(self, kind: int, address: str, curve: Optional[pathlib.Path]) -> Any:
        made = self.context.socket(kind)
        made.setsockopt(self.zmq.LINGER, 0)
        made.setsockopt(self.zmq.SNDHWM, MESSAGES_AHEAD)
        if curve is not None:
            from zmq.auth import load_certificate
            public, secret = load_certificate(str(curve / "server.key_secret"))
            made.curve_publickey, made.curve_secretkey = public, secret
            made.curve_server = True
        before = os.umask(0o077)
        try:
            made.bind(address)
        except self.zmq.ZMQError as error:
            raise refuse(f"{address}: {error}") from None
        finally:
            os.umask(before)
        return made

    def send(self, seconds: float, events: Events) -> None:
        for part in parts_of(events):
            payload = self.pack(self.wire.batch(seconds, part))
            self.out.send_multipart((self.topic, self.sequence.to_bytes(8, "big"), payload))
            self.kept.append((self.sequence, payload))
            self.kept_bytes += len(payload)
            self.sequence += 1
            while len(self.kept) > MESSAGES_KEPT or self.kept_bytes > BYTES_KEPT:
                self.kept_bytes -= len(self.kept.popleft()[1])

    def answer_replays(self) -> None:
        """What is kept from a sequence on; or, for those who ask what is there, the sequence from
        which on that is told. A question that is none of the kind is dropped, and so is what its
        asker does not take."""
        for _ in range(REPLAYS_PER_TURN):
            try:
                frames = self.replay.recv_multipart(self.zmq.NOBLOCK)
            except self.zmq.Again:
                return
            if len(frames) != 3 or frames[1] != b"" or len(frames[2]) != 8:
                continue
            if frames[2] == PRESENT:
                if self.has_present:
                    self.present_wanted = True
                    self._reply(frames[0], self.sequence.to_bytes(8, "big"), b"")
                self._reply(frames[0], END, b"")
                continue
            start = int.from_bytes(frames[2], "big")
            for sequence, payload in self.kept:
                if sequence >= start:
                    self._reply(frames[0], sequence.to_bytes(8, "big"), payload)
            self._reply(frames[0], END, b"")

    def _reply(self, asker: bytes, sequence: bytes, payload: bytes) -> None:
        try:
            self.replay.send_multipart((asker, b"", sequence, payload), self.zmq.NOBLOCK)
        except self.zmq.ZMQError:
            pass  # it has gone, or does not read

    def close(self) -> None:
        """Removes what it is bound to. The thread that checks keys ends with the process."""
        self.out.close(0)
        if self.replay is not None:
            self.replay.close(0)


class Feed:
    """`simmctl events --keys --runs` as events. It waits for a daemon that is away."""

    def __init__(self, options: argparse.Namespace) -> None:
        command = [options.simmctl]
        if options.admin:
            command += ["--admin", options.admin]
        command += ["events", "--keys", "--runs", f"--tenant={options.tenant}"]
        # An empty value has to be a word of its own, another one may begin with a dash.
        name = options.namespace
        command += [f"--namespace={name}"] if name else ["--namespace", ""]
        command += ["--present"] if options.present else []
        self.is_complete = False  # all that is there has been told
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.output = self.process.stdout
        os.set_blocking(self.output.fileno(), False)
        with contextlib.suppress(OSError):  # the user's pipes have a limit, and this is no need
            fcntl.fcntl(self.output.fileno(), F_SETPIPE_SZ, READ_BYTES)
        self.rest = b""

    def read(self) -> Optional[Events]:
        """What is there; None: it has ended."""
        try:
            chunk = os.read(self.output.fileno(), READ_BYTES)
        except BlockingIOError:
            return []
        if not chunk:
            return None
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        events = [self._event(line) for line in lines if line]
        return [event for event in events if event is not None]

    def _event(self, line: bytes) -> Optional[Tuple[str, List[bytes]]]:
        """What is cleared is worth nothing any more: it begins, there is a gap, or the daemon is
        away or another one."""
        kind, _, digits = line.decode().partition(" ")
        if kind == "complete":
            self.is_complete = True
            return None
        if kind == CLEARED:
            self.is_complete = False
            return CLEARED, []
        hashes = struct.iter_unpack("16s", bytes.fromhex(digits))
        return kind, list(itertools.chain.from_iterable(hashes))

    def tell_present(self) -> None:
        """All that is there is told again, between what happens."""
        self.is_complete = False
        self.process.send_signal(signal.SIGUSR1)

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait()


def parse(arguments: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simmctl events --publish", description=__doc__)
    parser.add_argument("--publish", required=True, metavar="ADDRESS")
    parser.add_argument("--replay", default="", metavar="ADDRESS")
    parser.add_argument("--wire", choices=("maps", "arrays", "pool"), default="maps")
    parser.add_argument("--topic", default="")
    parser.add_argument("--tenant", default="default")
    parser.add_argument("--namespace", default="")
    parser.add_argument("--present", action="store_true")
    parser.add_argument("--curve", type=pathlib.Path, metavar="DIRECTORY")
    parser.add_argument("--admin", default="")
    parser.add_argument("--simmctl", required=True)
    options = parser.parse_args(arguments)
    check_address("--publish", options.publish, options.curve)
    if options.replay:
        check_address("--replay", options.replay, options.curve)
    if options.curve is not None:
        check_curve(options.curve)
    return options


def check_curve(curve: pathlib.Path) -> None:
    secret = curve / "server.key_secret"
    if not secret.is_file() or not (curve / "clients").is_dir():
        raise refuse(f"--curve {curve}: server.key_secret and a directory clients with the public "
                     "keys of subscribers are needed, as zmq.auth.create_certificates makes them")
    if stat.S_IMODE(secret.stat().st_mode) & 0o077:
        raise refuse(f"--curve: {secret} may be read by others: chmod 600 {secret}")


def run(publisher: Publisher, feed: Feed, zmq: Any) -> int:
    poller = zmq.Poller()
    poller.register(feed.output.fileno(), zmq.POLLIN)
    if publisher.replay is not None:
        poller.register(publisher.replay, zmq.POLLIN)
    while True:
        poller.poll(WAKE_MS)
        if publisher.replay is not None:
            publisher.answer_replays()
        events = feed.read()
        if events is None:
            publisher.send(time.time(), [(CLEARED, [])])
            return feed.end()
        publisher.send(time.time(), events)
        # Those who ask while it is told wait for the next time: else it would never end.
        if publisher.present_wanted and feed.is_complete:
            publisher.present_wanted = False
            feed.tell_present()


def main() -> int:
    options = parse(sys.argv[1:])
    try:
        import msgpack
        import zmq
    except ImportError as error:
        print(f"simmctl: {error.name} is missing: install python3-zmq and python3-msgpack",
              file=sys.stderr)
        return FAILED

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    publisher = Publisher(options, zmq, msgpack.packb)
    feed = Feed(options)
    try:
        return run(publisher, feed, zmq)
    except KeyboardInterrupt:
        return 0
    finally:
        feed.end()
        publisher.close()


if __name__ == "__main__":
    try:
        CODE = main()
    except SystemExit as ended:
        CODE = ended.code  # type: ignore[assignment]
    sys.stderr.flush()
    os._exit(CODE)
