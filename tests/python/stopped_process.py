"""A process that does nothing for a while: for tests, and for the programs that they run."""
import os
import pathlib
import signal
import time


def stop_process(pid: int) -> None:
    """Returns when none of its threads runs any more: kill() alone returns before that."""
    os.kill(pid, signal.SIGSTOP)
    threads = pathlib.Path(f"/proc/{pid}/task")
    while any("\nState:\tT" not in (thread / "status").read_text() for thread in threads.iterdir()):
        time.sleep(0.001)
