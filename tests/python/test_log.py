"""set_log: what libsimm says goes to Python's logging, once, in calls, and never breaks one."""

import logging
import subprocess
import sys

import pytest

from conftest import CONFIG, Daemon
from simm import kv


class Kept(logging.Handler):
    def __init__(self, error=None) -> None:
        super().__init__()
        self.said, self.error = [], error

    def emit(self, record) -> None:
        self.said.append((record.levelno, record.getMessage()))
        if self.error is not None:
            raise self.error

    def count(self, level, part):
        return sum(said == level and part in text for said, text in self.said)


@pytest.fixture
def logger():
    mine = logging.getLogger("of a test")
    mine.setLevel(logging.INFO)
    mine.propagate = False
    yield mine
    kv.set_log(None)
    mine.handlers.clear()


@pytest.fixture
def daemon(tmp_path, monkeypatch):
    daemon = Daemon(tmp_path, config=CONFIG).start()
    monkeypatch.setenv("SIMM_SOCKET", daemon.socket)
    yield daemon
    daemon.kill()


def until_back(store):
    while not store.ping():
        pass


def test_a_lost_session_and_the_next_one(daemon, logger):
    kept = Kept()
    logger.addHandler(kept)
    with kv.Store() as store:
        kv.set_log(logger)
        until_back(store)
        assert kept.said == []
        daemon.kill()
        for _ in range(50):
            assert not store.exists("key")
        assert kept.count(logging.WARNING, "is lost") == 1
        daemon.start()
        until_back(store)
        assert kept.count(logging.INFO, "another session") == 1
        kv.set_log(None)
        before = len(kept.said)
        daemon.kill()
        assert not store.exists("key")
        daemon.start()
        until_back(store)
        assert len(kept.said) == before
        with pytest.raises(TypeError, match="give a logging.Logger, or None"):
            kv.set_log("stderr")


def test_what_a_handler_raises_ends_no_call(daemon, logger, monkeypatch):
    kept, printed = Kept(RuntimeError("the handler's")), []
    logger.addHandler(kept)
    monkeypatch.setattr(sys, "unraisablehook", lambda about: printed.append(about.exc_value))
    with kv.Store() as store:
        kv.set_log(logger)
        daemon.kill()
        for _ in range(10):
            assert store.exists("key") is False
    assert len(printed) == len(kept.said) > 0


PROGRAM = """
import logging, os, sys, threading
from simm import kv
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
store = kv.Store()
kv.set_log(logging.getLogger("mine"))
for _ in range(4):
    threading.Thread(target=lambda: [store.exists("k") for _ in iter(int, 1)], daemon=True).start()
child = os.fork()
if child == 0:
    store.exists("k")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("leaving", flush=True)
"""


def test_children_and_the_end_of_the_interpreter(daemon):
    for _ in range(3):
        ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                               timeout=60, check=False)
        assert ended.returncode == 0 and "leaving" in ended.stdout, ended.stdout + ended.stderr
