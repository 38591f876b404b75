#!/usr/bin/env python3
"""simmctl drain DAEMON --wait while the manager is restarted: drain_wait_test.py BIN_DIR."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from free_port import free_port  # noqa: E402

BIN = pathlib.Path(sys.argv[1])
PATIENCE = 120  # seconds that anything may take on a machine with other work


class Waits(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory(prefix="simm_drain_")
        self.addCleanup(home.cleanup)
        self.home = pathlib.Path(home.name)
        self.processes = {}
        self.addCleanup(self.stop)
        subprocess.run([BIN / "simmctl", "secret", "create", self.home / "secret"], check=True)
        address = f"127.0.0.1:{free_port()}"
        self.start("manager", "m", {"manager": {"listen": address, "rejoin_grace_ms": 60000}}, {})
        # 8 MiB at 1 MiB/s: a step takes half a second.
        for name in ("a", "b"):
            self.start("storage", name, {"node": {"pool_bytes": "64MiB"}},
                       {"manager": address, "move_bytes_per_s": "1MiB"})
        self.start("node", "n", {"node": {"pool_bytes": 0}}, {"manager": address})

    def start(self, role, name, config, cluster):
        (self.home / name).mkdir()
        (self.home / f"{name}.json").write_text(json.dumps({
            "run_directory": str(self.home / name), **config,
            "cluster": {"secret_file": str(self.home / "secret"), "node_name": name, **cluster}}),
            encoding="utf-8")
        self.run_daemon(role, name)

    def run_daemon(self, role, name):
        with open(self.home / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                [BIN / "simmd", role, "--config", self.home / f"{name}.json"], stderr=log)

    def stop(self):
        for process in self.processes.values():
            process.kill()
            process.wait(PATIENCE)

    def command(self, name, *arguments):
        return [str(BIN / "simmctl"), "--admin", str(self.home / name / "admin.sock"), *arguments]

    def until(self, is_so):
        end = time.monotonic() + PATIENCE
        while not is_so():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def moves(self, name):
        done = subprocess.run(self.command(name, "--json", "moves"), capture_output=True,
                              check=False, timeout=PATIENCE)
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def put(self, number):
        page = self.home / "page"
        page.write_bytes(bytes([number]) * (256 << 10))
        return subprocess.run(
            [BIN / "simmctl", "put", "--in", page, f"page{number}"], check=False,
            env={"SIMM_SOCKET": str(self.home / "n" / "simm.sock")}, capture_output=True,
            timeout=PATIENCE).returncode == 0

    def test_a_manager_that_is_restarted_does_not_end_the_wait(self):
        self.until(lambda: all(self.moves(name).get("slots", 0) > 0 for name in ("a", "b")))
        for number in range(64):
            self.until(lambda number=number: self.put(number))
        waiter = subprocess.Popen(self.command("n", "drain", "storage/a", "--wait"),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            self.until(lambda: self.moves("a").get("state") == "draining")
            self.processes["m"].kill()
            self.processes["m"].wait(PATIENCE)
            self.until(lambda: b"no manager" in subprocess.run(
                self.command("n", "moves", "storage/a"), capture_output=True, check=False,
                timeout=PATIENCE).stderr)
            self.assertEqual(self.moves("a").get("state"), "draining")
            time.sleep(1)  # the waiter looks five times, and finds no manager
            self.assertIsNone(waiter.poll())
            self.run_daemon("manager", "m")
            out, err = waiter.communicate(timeout=PATIENCE)
        finally:
            waiter.kill()
        self.assertEqual(waiter.returncode, 0, err)
        self.assertIn(b"drained", out)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
