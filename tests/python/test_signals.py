"""What a signal's handler raises comes out of a call that fails: each program runs in a process of
its own, which a watchdog ends when it goes on."""

import pytest

from conftest import run_python

PROGRAM = """
import faulthandler, os, signal, sys, threading
faulthandler.dump_traceback_later(60, exit=True)
from simm import _native, kv
from stopped_process import stop_process
store = kv.Store()
view = store.allocate(4096).view()

class Own(Exception):
    pass

def handler(number, frame):
    if RAISES == "KeyboardInterrupt": raise KeyboardInterrupt
    if RAISES == "SystemExit": sys.exit(7)
    raise Own

signal.signal(signal.SIGTERM, handler)
signal.signal(signal.SIGALRM, handler)
WANTED = {"KeyboardInterrupt": KeyboardInterrupt, "SystemExit": SystemExit, "Own": Own}[RAISES]
"""


def run(text, raises, **environment):
    ended = run_python(PROGRAM.replace("RAISES", repr(raises)) + text, **environment)
    assert (ended.returncode, ended.stdout) == (0, "raised\n"), ended.stderr


@pytest.mark.parametrize("raises", ["KeyboardInterrupt", "SystemExit", "Own"])
def test_of_calls_that_fail_one_after_the_other(own_daemon, raises):
    """The daemon has gone: a loop that ignores the codes ends by the signal."""
    run(f"""
os.kill({own_daemon._process.pid}, signal.SIGKILL)
while store.get("key", view) != -2300: pass
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
get = store.get
# A function of its own: in CPython 3.11 a signal that is handled at the jump back of this loop
# counts for the instruction before the loop, which would be outside of the try.
def loop():
    while True: get("key", view)
try:
    loop()
except WANTED:
    print("raised")
""", raises, SIMM_SOCKET=own_daemon.socket)


@pytest.mark.parametrize("raises", ["KeyboardInterrupt", "SystemExit", "Own"])
@pytest.mark.parametrize("call", ["get", "finish"])
def test_of_a_call_that_waits_for_a_stopped_daemon(own_daemon, raises, call):
    """The signal comes while the call waits; what finish() has to return is not lost."""
    try:
        run(f"""
channel = store.open_channel()
stop_process({own_daemon._process.pid})
try:
    signal.setitimer(signal.ITIMER_REAL, 1)  # the kernel's: no thread has to run in time for it
    if {call!r} == "get":
        get = store.get
        get("key", view, timeout_ms=1500)
    else:
        finish = channel.finish
        ticket = channel.start(_native.Operation.get, ["key"], [view], timeout_ms=1500)
        finish()
except WANTED:
    assert {call!r} == "get" or channel.take_completed() == [(ticket, [-1002])]
    print("raised")
""", raises, SIMM_SOCKET=own_daemon.socket)
    finally:
        own_daemon.go_on()


def test_an_error_of_the_report_itself_is_no_error_of_the_call(own_daemon):
    run(f"""
import logging
class Broken(logging.Handler):
    def emit(self, record): raise Own
logging.getLogger("simm").addHandler(Broken())
sys.unraisablehook = lambda what: print("raised") if what.exc_type is Own else None
os.kill({own_daemon._process.pid}, signal.SIGKILL)
while store.get("key", view) != -2300: pass
for _ in range(1000): assert store.get("key", view) == -2300
""", "Own", SIMM_SOCKET=own_daemon.socket)
