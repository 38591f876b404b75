"""Replays conversations against one cluster for MINUTES: no byte is wrong, and no daemon grows.

usage: soak.py MINUTES BIN_DIRECTORY

Each replay starts new clients, with another seed. What a daemon holds is looked at after each: its
private memory, its descriptors and its threads. The first third of the time sets the mark, for
pools and books fill up then. Needs PYTHONPATH with the package simm and with tests/python.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

BIN = pathlib.Path(sys.argv[2])
os.environ["SIMM_TEST_SIMMD"] = str(BIN / "simmd")
from real_cluster import Cluster  # noqa: E402  (reads SIMM_TEST_SIMMD)

POOL_BYTES = 128 << 20  # of both storage daemons together
REQUESTS = 300          # some ten seconds
LARGE_KIB = 65536
# What may come on top of the mark: allocators keep what they once used, and clients that are just
# going hold descriptors.
ALLOWED = {"private_kib": 16384, "large_kib": 0, "descriptors": 32, "threads": 2}


def held(pid):
    """What a process holds that no other shares.

    A private mapping above LARGE_KIB is a buffer of fixed size that fills over time (a node's
    shared reads have 256 MiB): it counts with its size, the others with what is touched.
    """
    private_kib = large_kib = size_kib = 0
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if line.startswith("Size:"):
            size_kib = int(line.split()[1])
        elif line.startswith("Anonymous:"):
            touched_kib = int(line.split()[1])
            is_large = touched_kib > 0 and size_kib > LARGE_KIB
            large_kib += size_kib if is_large else 0
            private_kib += 0 if is_large else touched_kib
    return {"private_kib": private_kib, "large_kib": large_kib,
            "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
            "threads": len(os.listdir(f"/proc/{pid}/task"))}


def replay(daemon_socket, seed):
    run = subprocess.run(
        [BIN / "simm-bench", "replay", "--daemon", daemon_socket, "--processes", "4",
         "--pool-bytes", str(POOL_BYTES), "--requests", str(REQUESTS), "--seed", str(seed)],
        capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"the replay of seed {seed} ended with {run.returncode}:\n{run.stdout}"
                 f"\n{run.stderr}")
    result = json.loads(run.stdout.splitlines()[-1])
    if result["bytes_wrong"] != 0:
        sys.exit(f"seed {seed}: {result['bytes_wrong']} bytes are wrong")
    return result


def grown(marks, now):
    """Of which daemon what is above its mark."""
    return [f"{name}: {what} {now[name][what]}, in the first third at most {mark}"
            for name, values in marks.items() for what, mark in values.items()
            if now[name][what] > mark + ALLOWED[what]]


def main():
    minutes = float(sys.argv[1])
    seed = int(os.environ.get("SIMM_SEED", time.time_ns() % 1_000_000))
    print(f"SIMM_SEED={seed} soak.py {minutes:g} {BIN}", flush=True)
    with tempfile.TemporaryDirectory(prefix="simm_soak_") as directory:
        cluster = Cluster(pathlib.Path(directory)).start()
        os.environ["SIMM_SOCKET"] = cluster.socket
        try:
            cluster.wait_until_whole()
            started = time.monotonic()
            marks = {name: dict.fromkeys(ALLOWED, 0) for name in cluster.daemons}
            rounds = 0
            while time.monotonic() - started < 60 * minutes or rounds < 3:
                result = replay(cluster.socket, seed + rounds)
                rounds += 1
                now = {name: held(daemon.pid()) for name, daemon in cluster.daemons.items()}
                print(f"{time.monotonic() - started:6.0f} s  hit rate {result['hit_rate']:.3f}  "
                      + "  ".join(f"{name} {'/'.join(map(str, values.values()))}"
                                  for name, values in now.items()), flush=True)
                if rounds <= 1 or time.monotonic() - started < 20 * minutes:
                    for name, values in marks.items():
                        marks[name] = {what: max(values[what], now[name][what]) for what in ALLOWED}
            growth = grown(marks, now)
            if growth:
                sys.exit("\n".join(["grown:", *growth]))
            print(f"{rounds} replays, no byte wrong, nothing grown")
        finally:
            cluster.stop()


main()
