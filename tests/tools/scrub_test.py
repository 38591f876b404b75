#!/usr/bin/env python3
"""A bit that flips in the pool of a real daemon: scrub_test.py BIN_DIR."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

BIN = pathlib.Path(sys.argv[1])
OBJECT_BYTES = 300_000
RATE = 200_000  # so that the object takes more than a second to read


def addresses_of(pid, wanted):
    """Where in the shared memory of the process these bytes are."""
    found = []
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, \
            open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            span, access, *_ = line.split()
            if access != "rw-s":
                continue
            start, end = (int(part, 16) for part in span.split("-"))
            memory.seek(start)
            try:
                at = memory.read(end - start).find(wanted)
            except OSError:  # of a client that is going
                continue
            if at >= 0:
                found.append(start + at)
    return found


def flip(pid, address):
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(address)
        byte = memory.read(1)[0]
        memory.seek(address)
        memory.write(bytes([byte ^ 1]))


def main():
    with tempfile.TemporaryDirectory(prefix="simm_scrub_") as home:
        path = pathlib.Path(home)
        config = {"run_directory": home, "node": {"pool_bytes": "16MiB"},
                  "store": {"scrub_bytes_per_s": RATE, "verify": "never"}}
        (path / "simm.json").write_text(json.dumps(config), encoding="utf-8")
        daemon = subprocess.Popen([BIN / "simmd", "all", "--config", path / "simm.json"])

        def ctl(*arguments, stdin=b""):
            return subprocess.run([BIN / "simmctl", "--admin", path / "admin.sock", *arguments],
                                  input=stdin, capture_output=True, check=False, timeout=60)

        def counters():
            return json.loads(ctl("--json", "stats", "scrub.").stdout)

        def wait(what, seconds=30):
            until = time.monotonic() + seconds
            while not what():
                assert time.monotonic() < until, (counters(), daemon.poll())
                time.sleep(0.05)

        try:
            wait(lambda: ctl("status").returncode == 0)
            value = os.urandom(OBJECT_BYTES)
            assert ctl("put", "spoiled", stdin=value).returncode == 0
            assert ctl("put", "sound", stdin=b"sound").returncode == 0
            try:
                places = addresses_of(daemon.pid, value[-64:])
                assert len(places) == 1, places
                flip(daemon.pid, places[0] + 60)
            except PermissionError:
                print("skipped: the memory of another process can not be written here")
                return 77
            wait(lambda: counters()["scrub.0.corrupt"] == 1)
            assert ctl("get", "spoiled").returncode == 1, "what is damaged is a miss"
            assert ctl("get", "sound").stdout == b"sound"
            errors = json.loads(ctl("--json", "errors").stdout)
            told = [row for row in errors["errors"] if row["site"] == "server.scrub"]
            assert len(told) == 1 and f"bytes={OBJECT_BYTES}" in told[0]["text"], errors
            # A key that no hexadecimal digits can spell: the text holds the object's hash.
            assert "spoiled" not in told[0]["text"]
            wait(lambda: counters()["scrub.0.passes"] == 1)
            print(counters())
        finally:
            daemon.terminate()
            assert daemon.wait(20) == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
