"""A daemon of another version: it takes what a client says first, keeps it, and gives one answer.
The messages are real ones: `capnp` of the package capnproto encodes and decodes them."""

import pathlib
import re
import socket
import subprocess
import threading

SCHEMA = pathlib.Path(__file__).parent.parent.parent / "ipc" / "schema" / "attach.capnp"


def _capnp(verb: str, message: str, data: bytes) -> bytes:
    done = subprocess.run(["capnp", verb, str(SCHEMA), message], input=data, check=True,
                          capture_output=True, timeout=60)
    return done.stdout


class FakeDaemon:
    """Listens at `path`. `answer`: the text of a DaemonMessage, or the bytes to send as they are.

    With `descriptors` the answer carries that many, as a Welcome does.
    """

    def __init__(self, path: str, answer, descriptors: int = 0) -> None:
        self.hello = ""  # the text of what the client said
        self._answer = answer if isinstance(answer, bytes) else _capnp(
            "encode", "DaemonMessage", answer.encode())
        self._descriptors = descriptors
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        peer, _ = self._listener.accept()
        with peer:
            self.hello = _capnp("decode", "ClientMessage", peer.recv(65536)).decode()
            socket.send_fds(peer, [self._answer], [peer.fileno()] * self._descriptors)
            peer.recv(65536)  # until the client goes, or says more than it should

    def close(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        self._listener.close()


def layout_version() -> int:
    """That of the tree."""
    text = (SCHEMA.parent.parent / "layout.h").read_text(encoding="utf-8")
    return int(re.search(r"kLayoutVersion = (\d+);", text).group(1))
