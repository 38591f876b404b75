"""A cluster on loopback: a manager, storage daemons and a node, each a process that the test
may kill and start again."""

import pathlib
import random
import signal
import socket
import time
import urllib.request

from conftest import Daemon
from simm import kv


def free_addresses(count: int) -> list:
    """Different ones, free now. Each has to stay free while its daemon is away: no port that the
    kernel gives to outgoing connections (ip_local_port_range)."""
    held, first_of_kernel = [], 32768
    while len(held) < count:
        one = socket.socket()
        try:
            one.bind(("127.0.0.1", random.SystemRandom().randrange(10_000, first_of_kernel)))
            held.append(one)
        except OSError:  # somebody has it
            one.close()
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in held]
    for one in held:
        one.close()
    return addresses


class Cluster:
    """A storage daemon that dies loses its pages; it has its slots again when it is back."""

    def __init__(self, directory: pathlib.Path, detection_ms: int = 300,
                 storages: int = 2) -> None:
        secret = directory / "secret"
        secret.write_text("a secret of these tests, nobody else's")
        secret.chmod(0o600)
        self.manager_address, self._metrics = free_addresses(2)
        common = f'"cluster": {{"secret_file": "{secret}", "node_name": "%s"%s}}'
        at = f', "manager": "{self.manager_address}"'
        detection = f', "detection_ms": {detection_ms}'  # of a storage daemon that is silent
        roles = {
            "manager": ("manager", f'{common % ("m", "")}, "manager": {{"listen": '
                        f'"{self.manager_address}", "rejoin_grace_ms": 60000}}'),
            **{name: ("storage", f'{common % (name, at)}, "node": {{"pool_bytes": "64MiB"}}')
               for name in "abcd"[:storages]},
            "node": ("node", f'{common % ("n", at + detection)}, "node": {{"pool_bytes": "0", '
                     '"cache_linger_ms": 60000}, "session": {"handshake_ms": 60000}, '
                     f'"metrics": {{"listen": "{self._metrics}"}}')}
        self.daemons = {}
        for name, (role, config) in roles.items():
            (directory / name).mkdir()
            self.daemons[name] = Daemon(directory / name, role, "{" + config + "}")
        self.socket = self.daemons["node"].socket

    def start(self) -> "Cluster":
        for daemon in self.daemons.values():
            daemon.start()
        return self

    def wait_until_whole(self) -> None:
        """Until the node reaches every storage daemon. SIMM_SOCKET names the node."""
        end = time.monotonic() + 60
        keys = [f"whole{time.monotonic_ns()}.{i}" for i in range(64)]
        with self._store(end) as store:
            block = store.allocate(1)
            while store.mput(keys, [block.view()] * len(keys), timeout_ms=500,
                             ttl_ms=1000) != [0] * len(keys):
                assert time.monotonic() < end, (
                    self.daemons["node"].directory / "log").read_text(encoding="utf-8")
                time.sleep(0.02)

    @staticmethod
    def _store(end: float) -> kv.Store:
        while True:  # its socket may be there before anybody listens
            try:
                return kv.Store()
            except RuntimeError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def counter(self, name: str) -> int:
        """Of the node: the sum over its agents."""
        time.sleep(0.1)  # a page is kept for 50 ms
        with urllib.request.urlopen(f"http://{self._metrics}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines
                   if line.startswith((name + "{", name + " ")))

    def stop(self) -> None:
        for daemon in reversed(self.daemons.values()):
            daemon.kill(signal.SIGKILL)
