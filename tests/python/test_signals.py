"""What a signal's handler raises comes out of a call, also of one that fails, and as the next thing
after the call: each program runs in a process of its own, which a watchdog ends when it goes on."""

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


# What waits for a daemon that is stopped. Each ends by itself, within its time limit.
WAITING = {
    "get": "store.get('key', view, timeout_ms=1500)",
    "put": "store.put('key', view, timeout_ms=1500)",
    "exists": "store.exists('key', timeout_ms=1500)",
    "delete": "store.delete('key', timeout_ms=1500)",
    "pin": "store.pin(['key'], timeout_ms=1500)",
    "mget": "store.mget(['a', 'b'], [view, view], timeout_ms=1500)",
    "private": "store.mget(['a', 'b'], [private, private], timeout_ms=1500)",
    "allocate": "store.allocate(256 << 20)",
    "register": "kv.register_mr(numpy.zeros(1 << 20, numpy.uint8))",
    "deregister": "kv.deregister_mr(mr)",
    "finish": "channel.finish()",
    "close": "channel.close()",
    "async": "asyncio.run(store.get_async('key', view, timeout_ms=1500))",
}


@pytest.mark.parametrize("call", WAITING)
def test_nothing_runs_between_a_call_and_the_handler(own_daemon, call):
    """The signal comes while the call sleeps. No step of Python, so no further call either, comes
    between the end of the call and the handler: however busy the machine is."""
    try:
        run(f"""
import asyncio, pathlib, time, numpy
memory = numpy.zeros(4096, numpy.uint8)
mr = kv.register_mr(memory)
private = kv.BlockView.from_buffer(memory.ctypes.data, 4096, mr)
channel = store.open_channel()
stop_process({own_daemon._process.pid})
if {call!r} in ("finish", "close", "deregister"):
    used = private if {call!r} == "deregister" else view
    channel.start(_native.Operation.get, ["key"], [used], timeout_ms=1500)
main, state = threading.get_ident(), pathlib.Path(f"/proc/self/task/{{os.getpid()}}/stat")
begun, steps, between = threading.Event(), None, []

def strike():
    global steps
    begun.wait()
    time.sleep(0.1)  # meanwhile nobody keeps it from the call
    while state.read_text().rsplit(")", 1)[1].split()[0] != "S": pass
    signal.pthread_kill(main, signal.SIGTERM)
    steps = []

def step(frame, event, what):
    if steps is not None: steps.append((event, getattr(what, "__name__", frame.f_code.co_name)))

def handler(*_):
    between.extend(steps[:-1])  # the last one is the call of this function
    sys.setprofile(None)
    raise Own

signal.signal(signal.SIGTERM, handler)
threading.Thread(target=strike, daemon=True).start()
try:
    sys.setprofile(step)
    begun.set()
    {WAITING[call]}
except Own:
    print(between or "raised")
""", "Own", SIMM_SOCKET=own_daemon.socket)
    finally:
        own_daemon.go_on()
