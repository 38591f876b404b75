"""run_pytest.py: what nobody looks at is a failure all the same."""

import pathlib
import subprocess
import sys

import pytest

RUNNER = pathlib.Path(__file__).with_name("run_pytest.py")
THREAD = """
import threading

def test():
    def work():
        assert False, "seen"
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
"""
FINALIZER = """
class Object:
    def __del__(self):
        raise RuntimeError("seen")

def test():
    Object()
"""


@pytest.mark.parametrize("text", [THREAD, FINALIZER], ids=["thread", "finalizer"])
def test_what_a_thread_or_a_finalizer_raises_fails_the_test(tmp_path, text):
    (tmp_path / "test_it.py").write_text(text)
    ended = subprocess.run([sys.executable, str(RUNNER), "no-torch", str(tmp_path)], timeout=60,
                           capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and "seen" in ended.stdout and "1 failed" in ended.stdout
