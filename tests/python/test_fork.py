"""os.fork() in a process that registers memory: it never waits for another thread's daemon. Each
program runs in a process of its own, which a watchdog ends when it hangs."""

import pytest

from conftest import run_python

PROGRAM = """
import faulthandler, os, threading, time
faulthandler.dump_traceback_later(100, exit=True)  # a deadlock ends here
import numpy
from simm import kv
kv.set_flag("clnt_sync_req_timeout_ms", "60000")  # the machine may be busy
"""


@pytest.mark.parametrize("first", ["register", "store"])
def test_fork_while_memory_is_registered(daemon, first):
    text = PROGRAM + """
first = numpy.zeros(1 << 16, numpy.uint8)
if FIRST == "register":
    mr, store = kv.register_mr(first), kv.Store()
else:
    store, mr = kv.Store(), kv.register_mr(first)
stop = threading.Event()

def work():
    while not stop.is_set():
        kv.deregister_mr(kv.register_mr(numpy.zeros(1 << 16, numpy.uint8)))

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for _ in range(200):
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
child = os.fork()
if child == 0:
    more = numpy.ones(1 << 16, numpy.uint8)
    mr = kv.register_mr(more)
    os._exit(0 if store.put("fork", kv.BlockView.from_tensor(more, mr)) == 0 else 1)
assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads: thread.join()
print("done")
""".replace("FIRST", repr(first))
    ended = run_python(text, SIMM_SOCKET=daemon.socket)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr


@pytest.mark.parametrize("waits_in", ["register_mr", "Store"])
def test_fork_does_not_wait_for_a_stopped_daemon(own_daemon, waits_in):
    """Another thread waits for the daemon; the one that forks has the interpreter's lock."""
    text = PROGRAM + """
import mmap, pathlib, signal
from stopped_process import stop_process
store = kv.Store()
D = DAEMON
stop_process(D)

def register():
    kv.register_mr(numpy.frombuffer(mmap.mmap(-1, 1 << 20), numpy.uint8))

def connect():
    os.environ["SIMM_CLUSTER_MANAGER"] = "127.0.0.1:1"  # no session with it is there
    try:
        kv.Store()
    except RuntimeError:
        pass

thread = threading.Thread(target=register if WAITS_IN == "register_mr" else connect)
thread.start()
stat = lambda: pathlib.Path(f"/proc/self/task/{thread.native_id}/syscall").read_text().split()[0]
while stat() != "7": time.sleep(0.001)  # poll: it waits for the daemon
children = [os.fork()]
if children[0] == 0:
    os._exit(0)
assert os.waitpid(children[0], 0)[1] == 0
assert thread.is_alive()  # fork() came back before the daemon's time was over
os.kill(D, signal.SIGCONT)
thread.join()
child = os.fork()
if child == 0:
    os._exit(0 if store.ping(20000) == 0 else 1)
assert os.waitpid(child, 0)[1] == 0
print("done")
""".replace("DAEMON", str(own_daemon._process.pid)).replace("WAITS_IN", repr(waits_in))
    try:
        ended = run_python(text, SIMM_SOCKET=own_daemon.socket)
    finally:
        own_daemon.go_on()
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr


def test_a_child_closes_a_store_whose_lock_a_thread_of_its_parent_held(daemon):
    text = PROGRAM + """
store = kv.Store()
held, over = threading.Event(), threading.Event()

def allocate():
    with store._slabs._lock:  # as in the middle of allocate()
        held.set()
        over.wait()

thread = threading.Thread(target=allocate, daemon=True)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    import signal; signal.alarm(20)
    store.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
over.set()
thread.join()
print("done")
"""
    ended = run_python(text, SIMM_SOCKET=daemon.socket)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
