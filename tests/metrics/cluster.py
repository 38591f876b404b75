"""A small cluster of real daemons, whose numbers the tests of this folder read."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from free_port import free_port  # noqa: E402

ROLES = ("manager", "storage", "node")


def fetch(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode(), answer.headers


class Cluster:
    """A manager, a storage daemon and a node, each with its numbers on a port of its own.

    `metrics` adds to that section of all, `of_node` gives other sections of the node. Both are
    functions of the directory, since they may name files in it.
    """

    def __init__(self, bin_dir, metrics=None, of_node=None, environment=None):
        self.bin = pathlib.Path(bin_dir)
        self.home = tempfile.TemporaryDirectory(prefix="simm_metrics_")
        self.path = pathlib.Path(self.home.name)
        subprocess.run([self.bin / "simmctl", "secret", "create", self.path / "secret"], check=True,
                       stdout=subprocess.DEVNULL)
        self.manager = f"127.0.0.1:{free_port()}"
        self.metrics, self.of_node, self.environment = metrics, of_node, environment
        self.processes = []
        self.address = {}
        for role in ROLES:
            self.start(role, role)
        self.wait(lambda: 'simm_peers{state="connected"} 1' in self.page("node"))

    def start(self, role, name, **of_cluster):
        """One more daemon; other methods call it by its name."""
        joined = {"manager": self.manager, "secret_file": str(self.path / "secret")}
        config = {"run_directory": str(self.path / name), "metrics": {"listen": "0"},
                  "cluster": dict(joined, node_name=name, **of_cluster),
                  "namespaces": [{"name": "twice", "immutable": True, "replicas": 2}],
                  "node": {"pool_bytes": "64MiB" if role == "storage" else 0,
                           "hugepages": "off"}}
        if role == "manager":
            config["manager"] = {"listen": self.manager}
            del config["cluster"]["manager"]
        config["metrics"].update(self.metrics(self.path) if self.metrics else {})
        if role == "node" and self.of_node:
            config.update(self.of_node(self.path))
        (self.path / name).mkdir()
        file = self.path / f"{name}.json"
        file.write_text(json.dumps(config), encoding="utf-8")
        with open(self.path / f"{name}.log", "wb") as log:
            self.processes.append(
                subprocess.Popen([self.bin / "simmd", role, "--config", file], stderr=log,
                                 env=self.environment))
        self.wait(lambda: self.ctl(name, "status").returncode == 0)
        self.address[name] = json.loads(self.ctl(name, "--json", "status").stdout)["metrics"]

    def ctl(self, role, *arguments, stdin=b""):
        admin = self.path / role / "admin.sock"
        return subprocess.run([self.bin / "simmctl", "--admin", admin, *arguments], input=stdin,
                              capture_output=True, check=False, timeout=30)

    def object(self, command, key, stdin=b""):
        return subprocess.run([self.bin / "simmctl", command, key, "--socket",
                               self.path / "node" / "simm.sock"], input=stdin,
                              capture_output=True, check=False, timeout=30).returncode

    def wait(self, is_so):
        for _ in range(400):
            if is_so():
                return
            time.sleep(0.05)
        raise AssertionError("\n".join(f.read_text() for f in self.path.glob("*.log")))

    def page(self, role):
        return fetch(f"http://{self.address[role]}/metrics")[0]

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(timeout=20)
        self.home.cleanup()
