"""A process that closes SiMM's descriptors, as a daemon does that closes all it did not open, and
then gets their numbers for other files. Each program runs in a process of its own."""

import pytest

from conftest import run_python

PROGRAM = """
import faulthandler
faulthandler.dump_traceback_later(20, exit=True)  # a call that hangs ends here
import mmap, os, socket, time, numpy
from simm import kv
kv.set_flag("clnt_sync_req_timeout_ms", "1000")
store = kv.Store()
pool = numpy.frombuffer(mmap.mmap(-1, 1 << 20), numpy.uint8)
pool[:] = 1
mr = kv.register_mr(pool, wait_if_stopped=True)
view = kv.BlockView.from_tensor(pool, mr)
assert store.put("k", view) == 0 and store.get("k", view) == 1 << 20

def replace_descriptors():
    other = OTHER
    for number in map(int, os.listdir("/proc/self/fd")):
        mine = number <= 2 or number in (other, *others)
        if not mine and os.path.lexists(f"/proc/self/fd/{number}"):
            os.dup2(other, number)
"""
OTHERS = {
    "a file": "os.open('/dev/null', os.O_RDWR)",
    "a pipe": "os.pipe()[0]",
    "a socket": "pair[0].fileno()",
}


@pytest.mark.parametrize("other", OTHERS)
def test_descriptors_that_are_other_files_now(daemon, other):
    """The first call does not work; soon after it calls have a session of their own again."""
    program = PROGRAM.replace("OTHER", OTHERS[other]) + """
pair = socket.socketpair()
others = {pair[0].fileno(), pair[1].fileno()}
"""
    program += """
replace_descriptors()
first = store.get("k", view)
while first == 1 << 20:  # a daemon that has not gone to sleep needs no bell
    time.sleep(0.1)
    first = store.get("k", view)
code = first
while code != 1 << 20:  # a session is opened anew after a wait; the watchdog ends this
    time.sleep(0.01)
    code = store.get("k", view)
"""
    program += """
print(code, flush=True)
os._exit(0)  # Python's own objects have lost their descriptors too
"""
    ended = run_python(program, SIMM_SOCKET=daemon.socket)
    assert (ended.returncode, ended.stdout) == (0, f"{1 << 20}\n"), ended.stderr


@pytest.mark.parametrize("other", OTHERS)
def test_asynchronous_calls_of_a_loop_that_is_opened_afterwards(daemon, other):
    """The lanes are the process's: an earlier loop has used those of the lost session."""
    program = PROGRAM.replace("OTHER", OTHERS[other]) + """
import asyncio
kv.set_flag("clnt_async_req_timeout_ms", "1000")
pair = socket.socketpair()
others = {pair[0].fileno(), pair[1].fileno()}
with kv.Store() as asynchronous:
    asyncio.run(asynchronous.get_async("k", view))
asynchronous = kv.Store()
before = asyncio.run(asynchronous.get_async("k", view))
replace_descriptors()
code = asyncio.run(asynchronous.get_async("k", view))
while code != 1 << 20:  # a session is opened anew after a wait; the watchdog ends this
    time.sleep(0.01)
    code = asyncio.run(asynchronous.get_async("k", view))
print(before, code, flush=True)
os._exit(0)  # Python's own objects have lost their descriptors too
"""
    ended = run_python(program, SIMM_SOCKET=daemon.socket)
    assert (ended.returncode, ended.stdout) == (0, f"{1 << 20} {1 << 20}\n"), ended.stderr
