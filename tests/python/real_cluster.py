"""A cluster on loopback: a manager, storage daemons and a node, each a process that the test
may kill and start again."""

import json
import pathlib
import signal
import sys
import time
import urllib.request

from conftest import Daemon
from simm import kv

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from free_port import free_ports  # noqa: E402


def free_addresses(count: int) -> list:
    return [f"127.0.0.1:{port}" for port in free_ports(count)]


class Cluster:
    """A storage daemon that dies loses its pages; it has its slots again when it is back."""

    def __init__(self, directory: pathlib.Path, detection_ms: int, storages: int,
                 sections: dict) -> None:
        """detection_ms: how long the node and, a second at least, the manager wait for a storage
        daemon that is silent; then its pages are misses at once. The sections are part of the
        config of each daemon but the manager."""
        secret = directory / "secret"
        secret.write_text("a secret of these tests, nobody else's")
        secret.chmod(0o600)
        self.manager_address, self._metrics = free_addresses(2)
        common = f'"cluster": {{"secret_file": "{secret}", "node_name": "%s"%s}}'
        at = f', "manager": "{self.manager_address}"'
        detection = f', "detection_ms": {detection_ms}'  # of a storage daemon that is silent
        more = "".join(f', "{name}": {json.dumps(of)}' for name, of in sections.items())
        roles = {
            "manager": ("manager", f'{common % ("m", "")}, "manager": {{"listen": '
                        f'"{self.manager_address}", "rejoin_grace_ms": 60000, '
                        f'"member_timeout_ms": {max(1000, detection_ms)}}}'),
            **{name: ("storage", f'{common % (name, at)}, "node": {{"pool_bytes": "64MiB"}}'
                       f'{more}')
               for name in "abcd"[:storages]},
            "node": ("node", f'{common % ("n", at + detection)}, "node": {{"pool_bytes": "0", '
                     '"cache_linger_ms": 60000}, "session": {"handshake_ms": 60000}, '
                     f'"metrics": {{"listen": "{self._metrics}"}}{more}')}
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
        """Until every storage daemon has slots, all daemons know the same map, and the node reaches
        every storage daemon. SIMM_SOCKET names the node."""
        end = time.monotonic() + 60
        while not self._has_one_map():
            assert time.monotonic() < end, (
                self.daemons["manager"].directory / "log").read_text(encoding="utf-8")
            time.sleep(0.02)
        keys = [f"whole{time.monotonic_ns()}.{i}" for i in range(64)]
        with self._store(end) as store:
            block = store.allocate(1)
            while store.mput(keys, [block.view()] * len(keys), timeout_ms=500,
                             ttl_ms=1000) != [0] * len(keys):
                assert time.monotonic() < end, (
                    self.daemons["node"].directory / "log").read_text(encoding="utf-8")
                time.sleep(0.02)

    def _has_one_map(self) -> bool:
        told = self.daemons["manager"].tell("nodes")
        return len(told["nodes"]) == len(self.daemons) - 1 and all(
            each["map_epoch"] == told["epoch"] and (each["slots"] > 0 or each["role"] == "node")
            for each in told["nodes"])

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
