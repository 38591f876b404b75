#!/usr/bin/env python3
"""simmctl events --keys against real daemons: key_events_test.py BIN_DIR."""
import json
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BIN = pathlib.Path(sys.argv[1])
WAIT_S = 60


class Follower:
    """simmctl events --keys, and what it says, an object for each line."""

    def __init__(self, daemon, *arguments):
        self.process = subprocess.Popen(
            [BIN / "simmctl", "--json", "--admin", daemon.admin, "events", "--keys", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        assert self.next() == {"following": True}

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def next(self):
        line = self.lines.get(timeout=WAIT_S)
        assert line is not None, self.process.stderr.read()
        return line

    def until(self, is_last):
        lines = [self.next()]
        while not is_last(lines[-1]):
            lines.append(self.next())
        return lines

    def kinds_until(self, kind, key=None):
        """(kind, hash) of events up to one of that kind, of that key."""
        lines = self.until(lambda line: line.get("kind") == kind and
                           key in (None, line["key_hash"]))
        return [(line["kind"], line["key_hash"]) for line in lines]

    def end(self):
        self.process.terminate()
        code = self.process.wait(WAIT_S)
        self.reader.join(WAIT_S)
        self.process.stdout.close()
        self.process.stderr.close()
        return code


class Daemon:
    def __init__(self, keys="hashes", **more):
        self.home = tempfile.TemporaryDirectory(prefix="simm_keys_")
        self.path = pathlib.Path(self.home.name)
        self.admin = self.path / "admin.sock"
        config = {"run_directory": self.home.name, "node": {"pool_bytes": "16MiB"},
                  "hash_seed": 77, "store": {"lease_default_ms": 1},
                  "tenants": [{"name": "blue"}],
                  "sockets": [{"path": f"{self.path}/simm.sock", "tenant": "red"},
                              {"path": f"{self.path}/blue.sock", "tenant": "blue"}]}
        if keys is not None:
            config["events"] = {"keys": keys}
        config.update(more)
        (self.path / "simm.json").write_text(json.dumps(config), encoding="utf-8")
        self.log = open(self.path / "log", "wb")
        self.start()

    def start(self):
        self.process = subprocess.Popen([BIN / "simmd", "all", "--config",
                                         self.path / "simm.json"], stderr=self.log)
        end = time.monotonic() + WAIT_S
        while self.ctl("status").returncode != 0:
            assert time.monotonic() < end, (self.path / "log").read_text()
            time.sleep(0.05)

    def ctl(self, *arguments, stdin=b""):
        return subprocess.run([BIN / "simmctl", "--admin", self.admin, *arguments], input=stdin,
                              capture_output=True, check=False, timeout=WAIT_S)

    def stats(self, prefix):
        return json.loads(self.ctl("--json", "stats", prefix).stdout)

    def put(self, key, value, *arguments, socket="simm.sock"):
        done = self.ctl("put", key, "--socket", self.path / socket, *arguments, stdin=value)
        assert done.returncode == 0, done

    def get(self, key):
        return self.ctl("get", key, "--socket", self.path / "simm.sock").stdout

    def delete(self, key):
        assert self.ctl("delete", key, "--socket", self.path / "simm.sock").returncode == 0

    def end_process(self, kill=False):
        (self.process.kill if kill else self.process.terminate)()
        self.process.wait(WAIT_S)

    def stop(self):
        self.end_process()
        self.log.close()
        self.home.cleanup()


class WhenOff(unittest.TestCase):
    def test_the_default_is_off_and_the_error_names_key_and_remedy(self):
        for keys in (None, "off"):
            daemon = Daemon(keys)
            try:
                done = daemon.ctl("events", "--keys")
                self.assertEqual(done.returncode, 7)
                self.assertIn(b'events.keys is "off"', done.stderr)
                self.assertIn(b'{"events": {"keys": "hashes"}}', done.stderr)
            finally:
                daemon.stop()


class WhenOn(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def setUp(self):
        self.followers = []

    def tearDown(self):
        for follower in self.followers:
            follower.end()

    def follow(self, *arguments):
        self.followers.append(Follower(self.daemon, *arguments))
        return self.followers[-1]

    def test_put_and_delete_are_told_in_their_order_without_the_key(self):
        follower = self.follow()
        self.daemon.put("secret-name", b"x" * 1000)
        self.daemon.delete("secret-name")
        self.daemon.put("secret-name", b"y" * 2000)
        lines = [follower.next() for _ in range(3)]
        self.assertEqual([line["kind"] for line in lines], ["stored", "removed", "stored"])
        self.assertEqual([line["bytes"] for line in lines], [1000, 1000, 2000])
        self.assertEqual(len({line["key_hash"] for line in lines}), 1)
        self.assertEqual(len(lines[0]["key_hash"]), 32)
        self.assertEqual({(line["tenant"], line["namespace"]) for line in lines},
                         {("red", "(default)")})
        numbers = [line["sequence"] for line in lines]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + 3)))
        self.assertNotIn("secret-name", json.dumps(lines))

    def test_evictions_and_times_to_live(self):
        follower = self.follow()
        self.daemon.put("brief", b"x", "--ttl-ms", "200")
        brief = follower.next()["key_hash"]
        self.assertEqual(follower.kinds_until("expired")[-1], ("expired", brief))
        for number in range(24):  # of which 16 MiB hold less
            self.daemon.put(f"large{number}", bytes([number]) * (1 << 20))
        stored = set()
        evicted = ""
        while evicted not in stored:  # earlier ones leave first
            line = follower.next()
            stored.update([line["key_hash"]] if line["kind"] == "stored" else [])
            evicted = line["key_hash"] if line["kind"] == "evicted" else ""

    def test_a_follower_of_a_namespace_or_tenant_hears_of_no_other(self):
        of_space = self.follow("--namespace", "space")
        of_blue = self.follow("--tenant", "blue")
        of_all = self.follow()
        self.daemon.put("k", b"1")
        self.daemon.put("k", b"22", "--namespace", "space")
        self.daemon.put("k", b"333", socket="blue.sock")
        everything = [of_all.next() for _ in range(3)]
        self.assertEqual(len({line["key_hash"] for line in everything}), 3)
        self.assertEqual([(line["tenant"], line["bytes"]) for line in everything],
                         [("red", 1), ("red", 2), ("blue", 3)])
        line = of_space.next()
        self.assertEqual((line["namespace"], line["bytes"]), ("space", 2))
        line = of_blue.next()
        self.assertEqual((line["tenant"], line["bytes"]), ("blue", 3))

    def test_present_keys_are_told_first_then_complete_and_again_at_a_signal(self):
        daemon = Daemon()
        try:
            for number in range(5):
                daemon.put(f"k{number}", b"x" * (number + 1))
            daemon.put("k", b"333", socket="blue.sock")
            follower = Follower(daemon, "--present", "--tenant", "red")
            self.followers.append(follower)
            lines = follower.until(lambda line: "complete" in line)
            self.assertEqual(lines[-1], {"complete": True})
            self.assertEqual({(line["kind"], line["tenant"]) for line in lines[:-1]},
                             {("present", "red")})
            self.assertEqual(sorted(line["bytes"] for line in lines[:-1]), [1, 2, 3, 4, 5])
            daemon.delete("k0")
            self.assertEqual(follower.next()["kind"], "removed")
            follower.process.send_signal(signal.SIGUSR1)
            lines = follower.until(lambda line: "complete" in line)
            self.assertEqual(sorted(line["bytes"] for line in lines[:-1]), [2, 3, 4, 5])
        finally:
            daemon.stop()

    def test_runs_are_lines_of_many_keys_with_the_order_of_each(self):
        daemon = Daemon()
        try:
            daemon.put("before", b"x")
            follower = subprocess.Popen(
                [BIN / "simmctl", "--admin", daemon.admin, "events", "--keys", "--runs",
                 "--present"], stdout=subprocess.PIPE, text=True)
            lines = [follower.stdout.readline() for _ in range(3)]
            before = lines[1].split()[1]
            self.assertEqual(lines, ["cleared\n", f"stored {before}\n", "complete\n"])
            plain = Follower(daemon)
            self.followers.append(plain)
            for number in range(5):
                daemon.put(f"k{number}", b"x")
            for name in ("k1", "k3", "before"):
                daemon.delete(name)
            daemon.put("k3", b"x")
            wanted, index, told = {before}, {before}, 0
            for _ in range(9):
                line = plain.next()
                (wanted.add if line["kind"] == "stored" else wanted.discard)(line["key_hash"])
            while told < 9:
                what, hashes = follower.stdout.readline().split()
                for at in range(0, len(hashes), 32):
                    (index.add if what == "stored" else index.discard)(hashes[at:at + 32])
                    told += 1
            self.assertEqual((told, index), (9, wanted))
            self.assertEqual(len(index), 4)
            daemon.end_process(kill=True)
            self.assertEqual(follower.stdout.readline(), "cleared\n")
            follower.terminate()
            self.assertEqual(follower.wait(WAIT_S), 0)
            follower.stdout.close()
        finally:
            daemon.start()
            daemon.stop()

    def test_wrong_use(self):
        done = self.daemon.ctl("events", "--keys", "--tenant", "nobody")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b'tenant "nobody"', done.stderr)
        for wrong in (["--keys", "--follow"], ["--keys", "--since", "4"], ["--tenant", "blue"],
                      ["--present"], ["--runs"]):
            done = self.daemon.ctl("events", *wrong)
            self.assertEqual(done.returncode, 2, wrong)
            self.assertIn(b"--keys", done.stderr)

    def test_a_follower_that_ends_is_none_any_more(self):
        before = self.daemon.stats("key_events")["key_events.subscribers"]
        follower = self.follow()
        self.assertEqual(self.daemon.stats("key_events")["key_events.subscribers"], before + 1)
        self.followers.remove(follower)
        self.assertEqual(follower.end(), 0)
        self.assertEqual(self.daemon.stats("key_events")["key_events.subscribers"], before)


class Lives(unittest.TestCase):
    def test_the_next_life_of_the_daemon_is_told_and_goes_on(self):
        daemon = Daemon()
        follower = Follower(daemon)
        try:
            daemon.put("k", b"1")
            hashed = follower.next()["key_hash"]
            daemon.end_process(kill=True)
            self.assertEqual(follower.next(), {"away": True})
            daemon.start()
            self.assertEqual(follower.next(), {"restarted": True})
            daemon.put("k2", b"1")
            self.assertNotEqual(follower.next()["key_hash"], hashed)
        finally:
            follower.end()
            daemon.stop()


class Attack(unittest.TestCase):
    def test_64_followers_that_never_read_harm_nobody(self):
        daemon = Daemon()
        victim = Follower(daemon)
        attackers = [subprocess.Popen(
            [BIN / "simmctl", "--json", "--admin", daemon.admin, "events", "--keys"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(64)]
        try:
            # All but seven are refused, and say why.
            refused = 0
            end = time.monotonic() + WAIT_S
            while refused < 57 and time.monotonic() < end:
                refused = sum(attacker.poll() is not None for attacker in attackers)
                time.sleep(0.05)
            self.assertEqual(refused, 57)
            for attacker in attackers:
                if attacker.poll() is not None:
                    self.assertIn(b"8 follow the events of keys already", attacker.stderr.read())
            values = {f"victim{number}": bytes([number]) * 4096 for number in range(40)}
            for key, value in values.items():
                daemon.put(key, value)
            hashes = [event[1] for event in
                      [(line["kind"], line["key_hash"])
                       for line in [victim.next() for _ in values]] if event[0] == "stored"]
            self.assertEqual(len(set(hashes)), len(values))
            for key, value in values.items():
                self.assertEqual(daemon.get(key), value)
            limits = {row["limit"]: row for row in json.loads(
                daemon.ctl("--json", "limits").stdout)}
            self.assertEqual(limits["key_subscribers"]["value"], 8)
            self.assertGreaterEqual(limits["key_subscribers"]["reached"], 57)
            self.assertEqual(daemon.stats("key_events")["key_events.lost"], 0)
        finally:
            for attacker in attackers:
                attacker.kill()
                attacker.wait(WAIT_S)
                attacker.stdout.close()
                attacker.stderr.close()
            victim.end()
            daemon.stop()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
