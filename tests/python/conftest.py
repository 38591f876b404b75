"""A real daemon for each test module, and Stores that talk to it."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from simm import kv
from stopped_process import stop_process

# What knows no torch is tested once, in the half of the suite that has none. run_pytest.py has
# imported it in the other half; programs of the tests import this file too, and need no torch.
collect_ignore = []
if "torch" in sys.modules:
    collect_ignore += ["vllm_connector", "vllm_tier", "hicache/test_exact_size.py",
                       "hicache/test_repair.py"]
    collect_ignore += [f"test_{what}.py" for what in (
        "async", "bad_input", "breaker", "bytes", "cluster_events", "data_calls", "deregister",
        "descriptors", "fork", "gpu", "key_follower", "lifetimes", "log", "pages", "profile",
        "readme", "run_pytest", "settings", "signals", "small_pools", "stopped", "traces",
        "untouched")]

SIMMD = os.environ.get("SIMM_TEST_SIMMD", "simmd")


def is_listening(path: str) -> bool:
    """Does anybody listen at that socket? Its file comes before that, and stays behind the dead."""
    accepts = "00010000"  # the flag of a socket that does
    with open("/proc/net/unix", encoding="utf-8") as sockets:
        return any(line.rstrip("\n").endswith(" " + path) and line.split()[3] == accepts
                   for line in sockets)


class Daemon:
    """simmd all, with a directory and a socket of its own."""

    def __init__(self, directory: pathlib.Path, role: str = "all", config: str = "{}") -> None:
        self.directory = directory
        self.socket = str(directory / "simm.sock")
        # What is there when it is.
        self._sign = (self.socket if role in ("all", "node")
                      else str(directory / "admin.sock"))
        self._arguments = [SIMMD, role, "--config", str(directory / "config.json")]
        text = config.strip()[1:-1].strip()
        (directory / "config.json").write_text(
            "{" + f'"run_directory": "{directory}"' + (", " + text if text else "") + "}")
        self._process = None

    def start(self) -> "Daemon":
        log = open(self.directory / "log", "a", encoding="utf-8")
        self._process = subprocess.Popen(self._arguments, stdout=log, stderr=log)
        log.close()
        deadline = time.monotonic() + 60
        while not is_listening(self._sign):
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError((self.directory / "log").read_text(encoding="utf-8"))
            time.sleep(0.02)
        return self

    def pid(self) -> int:
        return self._process.pid

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(60)
            self._process = None

    def tell(self, *command: str) -> dict:
        """What simmctl prints about it."""
        printed = subprocess.run(
            [re.sub("simmd$", "simmctl", SIMMD), "--admin", str(self.directory / "admin.sock"),
             "--json", *command], check=True, capture_output=True, timeout=60).stdout
        return json.loads(printed)

    def stats(self, part: str) -> dict:
        """Its counters whose names begin with the part's."""
        return self.tell("stats", part)

    def stop(self) -> None:
        """Returns when none of its threads runs any more."""
        stop_process(self._process.pid)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)


# A machine that is busy may take its time to attach.
CONFIG = '{"node": {"pool_bytes": "64MiB"}, "session": {"handshake_ms": 60000}}'


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    running = Daemon(tmp_path_factory.mktemp("simm"), config=CONFIG).start()
    yield running
    running.kill(signal.SIGTERM)


@pytest.fixture
def here(daemon, monkeypatch):
    """The daemon of the module, where libsimm looks for one."""
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    return daemon


@pytest.fixture
def own_daemon(tmp_path, monkeypatch):
    """One that the test may kill."""
    running = Daemon(tmp_path, config=CONFIG).start()
    monkeypatch.setenv("SIMM_SOCKET", running.socket)
    yield running
    running.kill()


@pytest.fixture
def vllm(request, monkeypatch):
    """The parts of vLLM that the test's module names `interface`, for as long as the test takes."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    request.module.interface.install()
    yield
    request.module.interface.forget()


@pytest.fixture
def detection_ms():
    """How long a silent storage daemon is waited for."""
    return 300


@pytest.fixture
def storages():
    """How many storage daemons a cluster has."""
    return 2


@pytest.fixture
def sections():
    """What the config of each daemon of a cluster, but the manager's, has besides."""
    return {}


@pytest.fixture
def stingy(tmp_path, monkeypatch, clean_settings):
    """One that makes next to nothing of its clients' untouched memory present."""
    text = CONFIG.strip()[:-1] + ', "memory": {"touch_budget_bytes": "8KiB"}}'
    running = Daemon(tmp_path, config=text).start()
    monkeypatch.setenv("SIMM_SOCKET", running.socket)
    yield running
    running.kill()


@pytest.fixture
def cluster(tmp_path, monkeypatch, clean_settings, detection_ms, storages, sections):
    from real_cluster import Cluster
    running = Cluster(tmp_path, detection_ms, storages, sections)
    monkeypatch.setenv("SIMM_SOCKET", running.socket)
    try:
        running.start().wait_until_whole()
        yield running
    finally:
        running.stop()


@pytest.fixture(autouse=True)
def clean_settings(monkeypatch):
    """Neither the environment nor the flags of another test decide."""
    from simm import flags, hints, log
    for name in ("SIMM_SOCKET", "SIMM_NAMESPACE", "SIMM_EXACT_SIZE", "SIMM_CLUSTER_MANAGER",
                 "SIMM_PROFILE", "FLEXKV_SIMM_CONFIG_PATH",
                 "SGLANG_HICACHE_SIMM_CONFIG_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(flags, "_values", {})
    monkeypatch.setattr(flags, "_told", set())
    monkeypatch.setattr(hints, "_told", set())
    monkeypatch.setattr(log, "_seen", {})
    monkeypatch.setattr(log, "_warned_in", 0)
    # The machine may be busy: a call that takes long is not what these tests are about.
    kv.set_flag("clnt_sync_req_timeout_ms", "20000")
    kv.set_flag("clnt_async_req_timeout_ms", "20000")


@pytest.fixture
def store(daemon, monkeypatch, clean_settings):
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    with kv.Store() as opened:
        yield opened


@pytest.fixture
def key(request):
    """A prefix that no other test uses."""
    return request.node.nodeid.replace("/", "_") + ":"


def fill(block, byte: int):
    """The block, every byte of which is `byte`."""
    memoryview(block)[:] = bytes([byte]) * len(block)
    return block


def run_python(text: str, **environment: str) -> subprocess.CompletedProcess:
    path = [os.environ.get("PYTHONPATH", ""), str(pathlib.Path(__file__).parent)]
    return subprocess.run([sys.executable, "-c", text],
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(path), **environment},
                          capture_output=True, text=True, timeout=120, check=False)
