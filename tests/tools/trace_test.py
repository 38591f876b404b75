#!/usr/bin/env python3
"""simmctl trace against real daemons: trace_test.py BIN_DIR. The file, and that all is in it."""
import collections
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from free_port import free_port  # noqa: E402

BIN = pathlib.Path(sys.argv[1])
OPERATION = ["pick up", "validate", "queue", "group", "send", "wait for owner", "complete"]
REQUEST = ["receive", "store", "copy", "reply"]
SLACK_US = 0.002  # times are doubles of microseconds


class World:
    """Daemons in directories of their own: {name: (role, configuration)}."""

    def __init__(self, daemons):
        self.home = tempfile.TemporaryDirectory(prefix="simm_trace_")
        self.path = pathlib.Path(self.home.name)
        self.processes = []
        subprocess.run([BIN / "simmctl", "secret", "create", self.path / "secret"], check=True)
        for name, (role, config) in daemons.items():
            (self.path / name).mkdir()
            config = json.loads(json.dumps(config).replace("$HOME", str(self.path)))
            config["run_directory"] = str(self.path / name)
            file = self.path / f"{name}.json"
            file.write_text(json.dumps(config), encoding="utf-8")
            with open(self.path / f"{name}.log", "wb") as log:
                self.processes.append(subprocess.Popen([BIN / "simmd", role, "--config", file],
                                                       stderr=log))
            self.wait(name, "status", lambda status: True)

    def admin(self, name):
        return str(self.path / name / "admin.sock")

    def ctl(self, name, *arguments, stdin=None):
        return subprocess.run([BIN / "simmctl", "--admin", self.admin(name), *arguments],
                              input=stdin, capture_output=True, check=False, timeout=60)

    def wait(self, name, report, is_so):
        for _ in range(400):
            done = self.ctl(name, "--json", report)
            if done.returncode == 0 and is_so(json.loads(done.stdout)):
                return
            time.sleep(0.05)
        raise AssertionError((self.path / f"{name}.log").read_text())

    def call_seconds(self, name):
        """How long a command takes on this machine just now, sanitizers and other work included."""
        began = time.monotonic()
        self.ctl(name, "status")
        return time.monotonic() - began

    def room(self, name, calls):
        """Seconds in which so many commands end, three times over: what --seconds gets."""
        return f"{max(1.5, 3 * calls * self.call_seconds(name)):.1f}"

    def trace(self, name, work, *arguments):
        """(the file, what was said) of a trace while `work` runs."""
        out = self.path / "trace.json"
        process = subprocess.Popen([BIN / "simmctl", "--admin", self.admin(name), "trace", "--out",
                                    out, *arguments], stderr=subprocess.PIPE)
        time.sleep(max(0.1, 2 * self.call_seconds(name)))  # until it has begun
        work()
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        return json.loads(out.read_text(encoding="utf-8")), said

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.home.cleanup()


class Events:
    """The events of a file, checked for what every such file has to be."""

    def __init__(self, test, trace):
        test.assertEqual(trace["otherData"]["clock"], "CLOCK_MONOTONIC")
        self.daemons = trace["otherData"]["daemons"]
        self.names = {}
        by_thread = collections.defaultdict(list)
        for event in trace["traceEvents"]:
            if event["ph"] == "M":
                self.names[event["pid"], event["tid"], event["name"]] = event["args"]["name"]
            else:
                test.assertEqual(event["ph"], "X")
                by_thread[event["pid"], event["tid"]].append(event)
        self.whole = []
        for (pid, tid), events in by_thread.items():
            test.assertIn((pid, tid, "thread_name"), self.names)
            test.assertIn((pid, 0, "process_name"), self.names)
            self.check_thread(test, events)

    def check_thread(self, test, events):
        """Things one after the other, and in each exactly its stages, end to end."""
        end = 0
        position = 0
        while position < len(events):
            whole = events[position]
            stages = OPERATION if whole["cat"] == "operation" else REQUEST
            inside = events[position + 1:position + 1 + len(stages)]
            position += 1 + len(stages)
            test.assertEqual([event["name"] for event in inside], stages)
            test.assertGreaterEqual(whole["ts"], end - SLACK_US)
            at = whole["ts"]
            for event in inside:
                test.assertEqual(event["args"]["id"], whole["args"]["id"])
                test.assertGreaterEqual(event["dur"], 0)
                test.assertAlmostEqual(event["ts"], at, delta=SLACK_US)
                at = event["ts"] + event["dur"]
            end = whole["ts"] + whole["dur"]
            test.assertAlmostEqual(at, end, delta=SLACK_US)
            whole["stages"] = {event["name"]: event for event in inside}
            self.whole.append(whole)

    def of(self, category, **wanted):
        return [event for event in self.whole if event["cat"] == category and
                all(event["args"].get(name, event["name"]) == value
                    for name, value in wanted.items())]


class Alone(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = World({"all": ("all", {"node": {"pool_bytes": "64MiB"},
                                           "threading": {"mode": "dedicated", "data_agents": 2}})})

    @classmethod
    def tearDownClass(cls):
        cls.world.stop()

    def test_every_operation_when_all_are_asked_for(self):
        def work():
            for key in ("a", "b", "c"):
                self.world.ctl("all", "put", key, stdin=b"x" * 5000)
                self.world.ctl("all", "get", key)
            self.world.ctl("all", "get", "missing")
            self.world.ctl("all", "delete", "a")
        room = self.world.room("all", 8)
        trace, said = self.world.trace("all", work, "--seconds", room, "--sample", "1/1")
        self.assertIn(b" 0 dropped", said)
        events = Events(self, trace)
        counts = collections.Counter(event["name"] for event in events.of("operation"))
        # A get looks first how long the object is.
        self.assertEqual(counts, {"put": 3, "exists": 4, "get": 3, "remove": 1})
        put = events.of("operation", op="put")[0]
        self.assertEqual({name: put["args"][name] for name in
                          ("pages", "pages_ok", "bytes", "tenant", "result", "peer")},
                         {"pages": 1, "pages_ok": 1, "bytes": 5000, "tenant": "default",
                          "result": "ok", "peer": "self"})
        missed = [e for e in events.of("operation", op="exists") if e["args"]["pages_ok"] == 0]
        self.assertEqual(len(missed), 1)
        # And for each a request at a shard, while the operation waits.
        requests = {event["args"]["id"]: event for event in events.of("request")}
        self.assertEqual(len(requests), 11)
        for operation in events.of("operation"):
            request = requests[operation["args"]["id"]]
            wait = operation["stages"]["wait for owner"]
            self.assertEqual(request["name"], operation["name"])
            self.assertGreaterEqual(request["ts"], operation["stages"]["send"]["ts"] - SLACK_US)
            self.assertLessEqual(request["ts"], wait["ts"] + wait["dur"] + SLACK_US)

    def test_the_share_that_was_asked_for(self):
        def work():
            subprocess.run([BIN / "simm-bench", "replay", "--requests", "60", "--processes", "2",
                            "--pool-bytes", str(64 << 20), "--scale", "4096", "--daemon",
                            self.world.path / "all" / "simm.sock"], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        began = time.monotonic()
        work()
        seconds = f"{2 * (time.monotonic() - began) + 1:.1f}"
        trace, _ = self.world.trace("all", work, "--seconds", seconds, "--sample", "1/4",
                                    "--seed", "9")
        events = Events(self, trace)
        daemon = events.daemons[0]
        begun, sampled, dropped = daemon["begun"], daemon["sampled"], daemon["dropped"]
        self.assertGreater(begun, 200)
        self.assertLess(abs(sampled - begun / 4), 5 * math.sqrt(begun * 3 / 16))
        self.assertEqual(len(events.of("operation")) + dropped, sampled)
        self.assertEqual(len({e["args"]["id"] for e in events.of("operation")}),
                         len(events.of("operation")))

    def test_it_ends_by_itself_and_only_one_at_a_time(self):
        second = []

        def work():
            second.append(self.world.ctl("all", "trace", "--seconds", "0.1"))
        seconds = self.world.room("all", 2)
        began = time.monotonic()
        trace, _ = self.world.trace("all", work, "--seconds", seconds)
        self.assertGreaterEqual(time.monotonic() - began, float(seconds))
        self.assertEqual(second[0].returncode, 7)
        self.assertIn(b"under way", second[0].stderr)
        self.assertEqual(Events(self, trace).whole, [])
        again, _ = self.world.trace("all", lambda: None, "--seconds", "0.1")
        self.assertEqual(Events(self, again).daemons[0]["sampled"], 0)

    def test_wrong_wishes(self):
        for arguments in (["--sample", "1/0"], ["--sample", "half"], ["--seconds", "0"],
                          ["--seconds", "1e9"]):
            self.assertEqual(self.world.ctl("all", "trace", *arguments).returncode, 2, arguments)

    def test_an_asker_that_goes_away(self):
        process = subprocess.Popen([BIN / "simmctl", "--admin", self.world.admin("all"), "trace",
                                    "--seconds", "0.3"], stdout=subprocess.DEVNULL)
        time.sleep(0.1)
        process.kill()
        process.wait()
        time.sleep(0.5)
        self.world.trace("all", lambda: None, "--seconds", "0.1")


class Cluster(unittest.TestCase):
    def test_a_request_is_joined_across_daemons_by_its_id(self):
        port = free_port()
        common = {"secret_file": "$HOME/secret", "manager": f"127.0.0.1:{port}"}
        world = World({
            "m": ("manager", {"cluster": {"secret_file": "$HOME/secret"},
                              "manager": {"listen": f"127.0.0.1:{port}"}}),
            "s": ("storage", {"node": {"pool_bytes": "64MiB"},
                              "cluster": {**common, "node_name": "s1", "listen": "127.0.0.1:0"}}),
            "n": ("node", {"node": {"pool_bytes": 0}, "cluster": {**common, "node_name": "n1"}})})
        try:
            world.wait("n", "peers", lambda peers: "open" in json.dumps(peers))
            self.check(world)
        finally:
            world.stop()

    def check(self, world):
        world.wait("n", "slots", lambda slots: "s1" in json.dumps(slots))
        value = os.urandom(200_000)
        for _ in range(100):
            if world.ctl("n", "put", "warm", stdin=value).returncode == 0:
                break
            time.sleep(0.05)

        def work():
            for key in ("a", "b"):
                world.ctl("n", "put", key, stdin=value)
                world.ctl("n", "get", key)
        trace, _ = world.trace("n", work, "--seconds", world.room("n", 4), "--sample", "1/1",
                               "--also", world.admin("s"))
        events = Events(self, trace)
        self.assertEqual(sorted(daemon["daemon"] for daemon in events.daemons),
                         ["node n1", "storage s1"])
        requests = {event["args"]["id"]: event for event in events.of("request")}
        operations = events.of("operation")
        self.assertEqual(len(operations), 6)
        for operation in operations:
            self.assertEqual(operation["args"]["peer"], "storage/s1")
            request = requests[operation["args"]["id"]]
            self.assertNotEqual(request["pid"], operation["pid"])
            # One host, one clock.
            self.assertGreaterEqual(request["ts"], operation["ts"])
            self.assertLessEqual(request["ts"] + request["dur"],
                                 operation["ts"] + operation["dur"] + 1000)
        # The storage daemon alone chooses for itself what to look at.
        trace, _ = world.trace("s", work, "--seconds", world.room("s", 4), "--sample", "1/1")
        self.assertGreaterEqual(len(Events(self, trace).of("request")), 4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
