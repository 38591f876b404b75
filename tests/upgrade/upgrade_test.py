#!/usr/bin/env python3
"""Daemons and clients of this release beside those of the previous one:

    upgrade_test.py PREVIOUS_BIN BIN

A client of each release at a daemon of the other, and a cluster whose daemons are upgraded one by
one, in two orders, and one of them downgraded again. Every byte is compared, and no object may get
lost: storage daemons keep their pools in a directory that outlives them. No slot changes its owner
meanwhile. The manager shows which protocol each daemon speaks, and tells all what they have in
common. A trace goes only to daemons that know one.
"""
import http.server
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from free_port import free_port  # noqa: E402

PREVIOUS, CURRENT = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
OBJECTS = 24
OBJECT_BYTES = 40_000
OLD, NEW = 5, 6  # the protocol versions of both releases
PATIENCE_S = 60


class Program:
    """A daemon, of either release, with a folder of its own."""

    def __init__(self, home, name, role, config):
        self.role, self.path = role, pathlib.Path(home, name)
        self.path.mkdir()
        self.config = self.path / "simmd.json"
        self.config.write_text(json.dumps({"run_directory": str(self.path), **config}))
        self.process = None
        self.protocol = None

    def start(self, release):
        self.protocol = NEW if release == CURRENT else OLD
        with open(self.path / "log", "ab") as log:
            self.process = subprocess.Popen(
                [release / "simmd", self.role, "--config", self.config], stderr=log, stdout=log)
        until(f"{self.path.name} answers", lambda: self.ask(release, "status") is not None)

    def kill(self):
        """As an upgrade by packages restarts a service that does not end by itself."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(PATIENCE_S)
            self.process = None

    def ask(self, release, *words):
        """A report, or None."""
        done = subprocess.run([release / "simmctl", "--json", "--admin", self.path / "admin.sock",
                               *words], capture_output=True, check=False, timeout=PATIENCE_S)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def client(self, release, *words, data=None):
        """simmctl as a client of the daemon: (its exit status, what it printed)."""
        done = subprocess.run([release / "simmctl", *words], input=data, capture_output=True,
                              check=False, timeout=PATIENCE_S,
                              env={**os.environ, "SIMM_SOCKET": str(self.path / "simm.sock")})
        return done.returncode, done.stdout


def until(what, is_so):
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(what)
        time.sleep(0.05)


def bytes_of(number):
    return random.Random(number).randbytes(OBJECT_BYTES)


class Receiver:
    """Of OpenTelemetry traces: which daemon has told of spans of which name."""

    def __init__(self):
        self.spans, self.changed = set(), threading.Condition()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with receiver.changed:
                    for resource in body["resourceSpans"]:
                        about = {each["key"]: each["value"]["stringValue"]
                                 for each in resource["resource"]["attributes"]}
                        receiver.spans |= {
                            (about["service.instance.id"].split()[-1], span["name"])
                            for scope in resource["scopeSpans"] for span in scope["spans"]}
                    receiver.changed.notify_all()
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def wait_for(self, is_so):
        with self.changed:
            if not self.changed.wait_for(lambda: is_so(self.spans), PATIENCE_S):
                raise AssertionError(self.spans)
            return set(self.spans)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Upgrade(unittest.TestCase):
    def setUp(self):
        # Memory: the pools of storage daemons outlive them there.
        self.home = tempfile.TemporaryDirectory(prefix="simm_upgrade_", dir="/dev/shm")
        self.programs = []

    def tearDown(self):
        for program in self.programs:
            program.kill()
        self.home.cleanup()

    def program(self, name, role, config):
        self.programs.append(Program(self.home.name, name, role, config))
        return self.programs[-1]

    def test_a_client_of_each_release_at_a_daemon_of_the_other(self):
        for daemon_of, client_of in ((PREVIOUS, CURRENT), (CURRENT, PREVIOUS)):
            daemon = self.program(f"all-{daemon_of == PREVIOUS}", "all",
                                  {"node": {"pool_bytes": "32MiB", "hugepages": "off"}})
            daemon.start(daemon_of)
            for number in range(3):
                key = f"key{number}"
                done = daemon.client(client_of, "put", key, data=bytes_of(number))
                self.assertEqual(done, (0, b""), daemon.path)
                for reader in (PREVIOUS, CURRENT):
                    self.assertEqual(daemon.client(reader, "get", key), (0, bytes_of(number)))
            self.assertEqual(daemon.client(client_of, "get", "absent")[0], 1)
            self.assertEqual(daemon.client(client_of, "delete", "key0")[0], 0)
            self.assertEqual(daemon.client(client_of, "exists", "key0")[0], 1)
            daemon.kill()

    def start_cluster(self, name, release):
        home = pathlib.Path(self.home.name, name)
        home.mkdir()
        secret = home / "secret"
        subprocess.run([release / "simmctl", "secret", "create", secret], check=True)
        programs = {}

        def add(member, role, listens, config):
            cluster = {"secret_file": str(secret), "node_name": member, **listens}
            programs[member] = self.program(f"{name}/{member}", role,
                                            {"cluster": cluster, **config})

        add("manager", "manager", {}, {"manager": {"listen": "127.0.0.1:0"}})
        # Others have to find the manager again when it comes back.
        port = free_port()
        programs["manager"].config.write_text(json.dumps({
            "run_directory": str(programs["manager"].path),
            "cluster": {"secret_file": str(secret)},
            "manager": {"listen": f"127.0.0.1:{port}"}}))
        known = {"manager": f"127.0.0.1:{port}"}
        for member in ("storage-1", "storage-2"):
            pool = {"pool_bytes": "32MiB", "hugepages": "off",
                    "pool_path": str(home / f"pool-{member}")}
            add(member, "storage", {**known, "listen": "127.0.0.1:0"}, {"node": pool})
        add("node", "node", known, {"node": {"pool_bytes": 0}})
        for program in programs.values():
            program.start(release)
        return programs

    def check(self, programs, release):
        """Every object is there, whole, however soon after a restart."""
        node = programs["node"]
        for number in range(OBJECTS):
            found = []

            def is_there(found=found, number=number):
                found[:] = node.client(release, "get", f"key{number}")
                return found[0] == 0

            until(f"key{number} is there", is_there)
            self.assertEqual(found[1], bytes_of(number))

    def put_all(self, programs, release):
        for number in range(OBJECTS):
            until(f"key{number} is stored", lambda number=number: programs["node"].client(
                release, "put", f"key{number}", data=bytes_of(number))[0] == 0)

    def tenures(self, programs):
        """Who owns how many slots, and since which epoch nothing has moved to it."""
        slots = programs["manager"].ask(CURRENT, "slots")
        return {one["incarnation"]: (one["name"], one["slots"], one["unchanged_since_epoch"])
                for one in slots["members"]}

    def check_protocols(self, programs):
        """The manager shows what each daemon speaks, and everybody learns what all do."""
        manager = programs["manager"]
        if manager.protocol == OLD:
            self.assertNotIn("common_protocol", manager.ask(CURRENT, "nodes"))
            for program in programs.values():
                if program.role != "manager" and program.protocol == NEW:
                    told = program.ask(CURRENT, "status")["cluster"]["common_protocol"]
                    self.assertEqual(told, OLD, program.path)
            return
        members = {name: program for name, program in programs.items() if program is not manager}
        spoken = {name: program.protocol for name, program in members.items()}

        def is_shown():
            nodes = manager.ask(CURRENT, "nodes")
            shown = {one["name"]: one["protocol"] for one in nodes["nodes"]}
            return shown == spoken and nodes["common_protocol"] == min(spoken.values())

        until(f"the manager shows {spoken}", is_shown)
        for program in members.values():
            if program.protocol == NEW:
                until(f"{program.path.name} is told", lambda program=program: program.ask(
                    CURRENT, "status")["cluster"]["common_protocol"] == min(spoken.values()))

    def restart(self, programs, member, release):
        programs[member].kill()
        programs[member].start(release)
        node_is_new = programs["node"].protocol == NEW
        self.check(programs, CURRENT if node_is_new else PREVIOUS)
        self.check_protocols(programs)

    def upgrade(self, name, order):
        programs = self.start_cluster(name, PREVIOUS)
        self.put_all(programs, PREVIOUS)
        self.check(programs, PREVIOUS)
        tenures = self.tenures(programs)
        self.assertEqual(sum(slots for _, slots, _ in tenures.values()), 16384)
        for member in order:
            self.restart(programs, member, CURRENT)
        # And back: what the new daemon has stored serves the old one.
        self.restart(programs, "storage-1", PREVIOUS)
        self.restart(programs, "storage-1", CURRENT)
        self.assertEqual(self.tenures(programs), tenures)

    def test_owners_of_both_releases_serve_requests_of_traces(self):
        """One of them knows no traces: it is sent none, and its pages come all the same."""
        receiver = Receiver()
        self.addCleanup(receiver.close)
        programs = self.start_cluster("traced", PREVIOUS)
        self.put_all(programs, PREVIOUS)
        for member in ("manager", "storage-2", "node"):
            programs[member].kill()
            config = json.loads(programs[member].config.read_text())
            if member != "manager":
                config["trace"] = {"endpoint": receiver.endpoint, "one_in": 1, "per_second": 1000}
            programs[member].config.write_text(json.dumps(config))
            programs[member].start(CURRENT)
        self.check(programs, CURRENT)
        daemons = receiver.wait_for(lambda spans: any(
            name.endswith("at owner") for _, name in spans))
        self.assertEqual({who for who, name in daemons if name == "simm get"}, {"node"})
        self.assertEqual({who for who, name in daemons if name == "simm get at owner"},
                         {"storage-2"})
        for peer in programs["node"].ask(CURRENT, "peers")["peers"]:
            self.assertEqual(peer["open"], peer["connections"], peer)
            self.assertEqual(peer["trouble"], "", peer)

    def test_a_cluster_is_upgraded_manager_first(self):
        self.upgrade("first", ["manager", "storage-1", "storage-2", "node"])

    def test_a_cluster_is_upgraded_manager_last(self):
        self.upgrade("last", ["node", "storage-2", "storage-1", "manager"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
