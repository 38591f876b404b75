#!/usr/bin/env python3
"""simmctl against a real daemon: cli_test.py BIN_DIR. Every report, objects by hand, exit codes."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BIN = pathlib.Path(sys.argv[1])
REPORTS = ["status", "sessions", "regions", "sockets", "tenants", "nics", "gpus", "store", "hot",
           "cache", "stats", "limits", "errors", "events", "log", "config show"]
NO_NIC = "simm_cli_test_0"  # of which no host has one
OF_A_MANAGER = ["status", "stats", "limits", "config show", "errors", "events", "log", "nodes",
                "slots", "managers"]
CLUSTER_ONLY = ["nodes", "slots", "peers", "managers", "moves"]


class Daemon:
    """simmd all in a directory of its own."""
    role = "all"

    def __init__(self):
        self.home = tempfile.TemporaryDirectory(prefix="simm_cli_")
        self.path = pathlib.Path(self.home.name)
        (self.path / "simm.json").write_text(json.dumps(self.configuration()), encoding="utf-8")
        self.log = open(self.path / "log", "wb")
        self.start()

    def configuration(self):
        return {"run_directory": self.home.name, "node": {"pool_bytes": "64MiB"},
                "tenants": [{"name": "blue", "quota_percent": 40, "weight": 3}], "hash_seed": 77,
                "store": {"lease_default_ms": 60000},  # longer than a case takes
                "nics": [{"name": NO_NIC, "speed_gbit_s": 100, "gpu": "1B:00.0"}],
                "sockets": [{"path": f"{self.path}/simm.sock"},
                            {"path": f"{self.path}/blue.sock", "tenant": "blue"}]}

    def start(self):
        command = [BIN / "simmd", self.role, "--config", self.path / "simm.json"]
        self.process = subprocess.Popen(command, stderr=self.log)
        for _ in range(400):
            if self.ctl("status").returncode == 0:
                return
            time.sleep(0.05)
        raise AssertionError((self.path / "log").read_text())

    def ctl(self, *arguments, stdin=b"", admin=None, **how):
        """simmctl asked with these arguments; the output is bytes."""
        command = [BIN / "simmctl", "--admin", str(admin or self.path / "admin.sock"), *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=60,
                              **how)

    def json(self, *arguments):
        done = self.ctl("--json", *arguments)
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def stop(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(20)
        self.log.close()
        self.home.cleanup()


class Manager(Daemon):
    """simmd manager in a directory of its own."""
    role = "manager"

    def configuration(self):
        secret = self.path / "secret"
        secret.write_text(bytes(range(32)).hex() + "\n", encoding="utf-8")
        secret.chmod(0o600)
        return {"run_directory": self.home.name, "cluster": {"secret_file": str(secret)},
                "manager": {"listen": "127.0.0.1:0"}}


class OfAManager(unittest.TestCase):
    def test_it_answers_what_its_commands_say(self):
        manager = Manager()
        try:
            for report in OF_A_MANAGER:
                done = manager.ctl("--json", *report.split())
                self.assertEqual((done.returncode, done.stderr), (0, b""), report)
                json.loads(done.stdout)
            for report in ("sessions", "regions", "sockets", "tenants", "nics", "peers"):
                done = manager.ctl(report)
                self.assertEqual(done.returncode, 2, report)
                self.assertIn(b"known: status, stats, totals, limits, config, errors, events, log, "
                              b"nodes, slots, managers", done.stderr)
            own = manager.json("managers")["managers"]
            self.assertEqual([(row["state"], row["kept_in"]) for row in own], [("leads", "file")])
        finally:
            manager.stop()


class Ctl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def code(self, *arguments, **how):
        return self.daemon.ctl(*arguments, **how).returncode

    def store(self):
        shards = self.daemon.json("store")["shards"]
        return {row["counter"]: row["store 0"] for row in shards}

    # ---- reports

    def test_every_report_has_a_table_and_json(self):
        for report in REPORTS:
            done = self.daemon.ctl(*report.split())
            self.assertEqual((done.returncode, done.stderr), (0, b""), report)
            self.assertGreater(len(done.stdout), 3, report)
            self.daemon.json(*report.split())
        for report in CLUSTER_ONLY:
            done = self.daemon.ctl(report)
            self.assertEqual(done.returncode, 7, report)
            self.assertIn(b"cluster.manager", done.stderr)

    def test_objects_of_the_system(self):
        sockets = self.daemon.json("sockets")
        # A row for each tenant that has come by a socket, or one while none has.
        self.assertEqual(len({s["path"] for s in sockets}), 2)
        tenants = {s["tenant"] for s in sockets}
        self.assertLessEqual(tenants, {"(by uid and gid)", "default", "blue"})
        self.assertEqual(sockets[-1]["tenant"], "blue")
        tenants = {t["tenant"]: t for t in self.daemon.json("tenants")}
        self.assertEqual(set(tenants), {"default", "blue"})
        self.assertEqual(tenants["blue"]["quota_percent"], 40)
        self.assertEqual([tenants[name]["weight"] for name in ("blue", "default")], [3, 1])
        limits = {row["limit"]: row for row in self.daemon.json("limits")}
        self.assertEqual(limits["admin_connections"]["value"], 16)
        self.assertEqual(limits["pool"]["reached"], 0)
        self.assertGreater(self.store()["arena_bytes"], 1 << 25)

    def test_hot_keys_are_hashes(self):
        key = "a name that nobody else may read"
        asked = 0
        while not self.daemon.json("hot")["keys"]:  # about one page in 64 is a sample
            self.daemon.ctl("exists", key)
            asked += 1
            self.assertLess(asked, 2000)
        told = self.daemon.json("hot")
        self.assertEqual({row["owner"] for row in told["shards"] + told["keys"]}, {"self"})
        for row in told["keys"]:
            self.assertRegex(row["key_hash"], "^[0-9a-f]{32}$")
            self.assertLessEqual(row["requests_percent_min"], row["requests_percent"])
            self.assertIn(row["tenant"], ("default", "blue"))
        self.assertNotIn(key.encode(), self.daemon.ctl("hot").stdout)

    def test_configuration_in_effect(self):
        keys = {row["key"]: row for row in self.daemon.json("config", "show")}
        self.assertEqual((keys["node.pool_bytes"]["value"], keys["node.pool_bytes"]["from"]),
                         ("64MiB", "file"))
        self.assertEqual(keys["sockets[1].tenant"]["value"], "blue")
        self.assertEqual(keys["drain_ms"]["from"], "default")
        self.assertEqual(keys["admin_socket"]["value"], f"{self.daemon.path}/admin.sock")
        self.assertEqual(keys["hash_seed"]["value"], "(hidden)")
        schema = json.loads(subprocess.run([BIN / "simmd", "--print-schema"], check=True,
                                           capture_output=True).stdout)
        flat = {f"{name}.{key}" for name, section in schema["properties"].items()
                for key, value in section.get("properties", {}).items()
                if not value.get("deprecated")}
        self.assertEqual(flat - set(keys), set())

    def test_a_configured_nic_that_is_not_there(self):
        rows = self.daemon.json("nics")
        self.assertEqual([row["nic"] for row in rows if row["used"]], [NO_NIC])
        row = rows[-1]
        self.assertEqual((row["state"], row["mbit_s"]), ("missing", 100_000))
        self.assertEqual(row["configured"], ["speed_gbit_s", "gpu"])
        # Opened by nobody, so nothing is registered with it.
        self.assertEqual((row["rail"], row["wanted_bytes"]), (-1, 0))
        self.assertIn("no GPU at 0000:1b:00.0", row["problem"])
        self.assertIn(f"nics: {NO_NIC}: this host has no", (self.daemon.path / "log").read_text())
        checks = {(row["nic"], row["check"]): row for row in self.daemon.json("nics", "--check")}
        self.assertIn(("host", "locked_memory"), checks)
        self.assertFalse(checks[(f"{NO_NIC}/1", "state")]["fine"])
        text = self.daemon.ctl("nics").stdout.decode().splitlines()
        self.assertRegex(text[0], r"^nic +port .* used +rail +rail_state +rail_trouble "
                                  r"+registered_bytes +waiting_bytes +failed_bytes "
                                  r"+wanted_bytes +configured +problem +left_out$")
        self.assertRegex(text[-1], rf"^{NO_NIC} +0 .* missing .* .*no such RDMA device")

    def test_log_level(self):
        self.assertEqual(self.daemon.json("log", "debug")["level"], "debug")
        self.assertEqual(self.daemon.json("log", "info")["level"], "info")
        self.assertEqual(self.code("log", "loud"), 2)

    def test_the_size_of_tiers_is_a_size_of_a_gpu_that_there_is(self):
        self.assertEqual(self.code("gpus", "much"), 2)
        self.assertEqual(self.code("gpus", "3=0"), 2)

    def test_ended_sessions_are_remembered(self):
        self.assertEqual(self.code("exists", "nothing"), 1)
        for _ in range(100):
            ended = self.daemon.json("sessions", "--ended")
            if ended:
                break
            time.sleep(0.05)
        self.assertEqual((ended[0]["client"], ended[0]["poisoned"]), ("simmctl", "none"))
        self.assertEqual(ended[0]["uid"], os.getuid())

    def events(self, *arguments):
        return self.daemon.json("events", *arguments)["events"]

    def test_events(self):
        all_events = self.events()
        self.assertEqual([event["sequence"] for event in all_events],
                         list(range(1, len(all_events) + 1)))
        kinds = [event["kind"] for event in all_events]
        self.assertEqual((kinds[0], kinds.count("ready")), ("pool", 1))
        since = str(all_events[-1]["sequence"])
        blue = str(self.daemon.path / "blue.sock")
        self.assertEqual(self.code("exists", "secret key", "--socket", blue), 1)
        until = time.monotonic() + 60
        ended = []
        while not ended:
            self.assertLess(time.monotonic(), until)
            ended = self.events("--since", since, "--kind", "session_ended")
        self.assertEqual({event["kind"] for event in ended}, {"session_ended"})
        self.assertIn("tenant=blue", ended[-1]["text"])
        attached = [event["subject"] for event in self.events("--since", since)
                    if event["kind"] == "session_attached"]
        self.assertIn(ended[-1]["subject"], attached)
        text = self.daemon.ctl("events").stdout.decode()
        self.assertRegex(text, r"^sequence +time +severity +kind +subject +text\n1 +20")
        self.assertNotIn("secret key", text)
        self.assertEqual(self.code("events", "--kind", "nonsense"), 2)

    def test_events_are_followed_into_the_next_life(self):
        daemon = Daemon()
        follower = subprocess.Popen([BIN / "simmctl", "--admin", daemon.path / "admin.sock",
                                     "--json", "events", "--follow"], stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL)
        lives = [[]]

        def until(kind):
            while True:
                line = json.loads(follower.stdout.readline())
                if line.get("restarted"):
                    lives.append([])
                    continue
                lives[-1].append(line["sequence"])
                if line["kind"] == kind:
                    return
        try:
            until("ready")
            daemon.ctl("exists", "nothing")
            until("session_ended")
            daemon.process.kill()
            daemon.process.wait(20)
            daemon.start()
            until("ready")
            self.assertEqual(len(lives), 2)
            for life in lives:
                self.assertEqual(life, list(range(1, len(life) + 1)))
            follower.stdout.close()  # a reader that has seen enough ends the program
            self.assertEqual(follower.wait(10), 0)
        finally:
            follower.kill()
            follower.wait(10)
            daemon.stop()

    def test_top(self):
        self.assertEqual(self.code("put", "for top", stdin=b"x" * 5000), 0)
        done = self.daemon.ctl("top", "--once", "--interval", "0.1")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertNotIn(b"\033", done.stdout)
        for word in (b"simmd all", b"batches/s", b"hits", b"of 64.0M"):
            self.assertIn(word, done.stdout)
        done = self.daemon.ctl("--json", "top", "--count", "2", "--interval", "0.1")
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(lines), 2)
        self.assertGreaterEqual(lines[0]["pool"]["objects"], 1)
        self.assertGreaterEqual(lines[0]["seconds"], 0.1)
        self.assertEqual({row["tenant"] for row in lines[0]["tenants"]}, {"default", "blue"})

    def test_top_counts_what_happens(self):
        top = subprocess.Popen([BIN / "simmctl", "--admin", self.daemon.path / "admin.sock",
                                "--json", "top", "--interval", "0.2"], stdout=subprocess.PIPE)
        top.stdout.readline()
        self.code("put", "rate", stdin=b"x" * 4096)
        self.code("get", "rate")
        self.code("get", "no such key")
        seen = {"put_bytes": 0, "get_pages": 0}
        for _ in range(20):
            line = json.loads(top.stdout.readline())
            for name in seen:
                seen[name] += line["pool"][f"{name}_per_s"] * line["seconds"]
            if all(seen.values()):
                break
        top.send_signal(signal.SIGINT)
        self.assertEqual(top.wait(10), 0)
        top.stdout.close()
        self.assertAlmostEqual(seen["put_bytes"], 4096, delta=200)
        self.assertAlmostEqual(seen["get_pages"], 1, delta=0.2)

    # ---- objects by hand

    def test_the_store_by_length_and_holes(self):
        before = self.store()
        self.assertEqual(self.code("put", "by-length", stdin=b"x" * 70_000), 0)
        until = time.monotonic() + 60
        while self.store()["objects_by_length.256KiB"] == before["objects_by_length.256KiB"]:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        after = self.store()
        self.assertEqual(after["bytes_by_length.256KiB"] - before["bytes_by_length.256KiB"], 70_000)
        self.assertGreaterEqual(after["holes"], 1)
        self.assertLessEqual(after["largest_hole_bytes"], after["free_bytes"])
        self.assertGreaterEqual(after["movable_bytes"], 70_000)
        self.assertLessEqual(after["movable_bytes"], after["extent_bytes"])
        self.assertEqual(self.code("delete", "by-length"), 0)

    def test_what_tenants_move(self):
        def moved(tenant):
            rows = {row["tenant"]: row for row in self.daemon.json("tenants")}
            return rows[tenant]["got_bytes"], rows[tenant]["put_bytes"]
        socket_of_blue = ("--socket", str(self.daemon.path / "blue.sock"))
        blue, other = moved("blue"), moved("default")
        self.assertEqual(self.code("put", "moved", *socket_of_blue, stdin=b"x" * 5000), 0)
        self.assertEqual(self.code("get", "moved", *socket_of_blue), 0)
        self.assertEqual(self.code("get", "not there", *socket_of_blue), 1)
        self.assertEqual(moved("blue"), (blue[0] + 5000, blue[1] + 5000))
        self.assertEqual(moved("default"), other)
        self.assertEqual(self.code("delete", "moved", *socket_of_blue), 0)

    def test_the_store_by_tenant(self):
        def blue():
            tenants = {row["tenant"]: row for row in self.daemon.json("store")["tenants"]}
            return tenants["blue"]
        socket_of_blue = ("--socket", str(self.daemon.path / "blue.sock"))
        before = blue()
        self.assertEqual(before["weight"], 3)
        # 40 % of the shard, which is the pool in whole huge pages.
        self.assertAlmostEqual(before["quota_bytes"], 0.4 * self.store()["arena_bytes"], delta=64)
        self.assertEqual(self.code("put", "mine", *socket_of_blue, stdin=b"x" * 5000), 0)
        self.assertEqual(self.code("get", "mine", *socket_of_blue), 0)
        self.assertEqual(self.code("exists", "not mine", *socket_of_blue), 1)
        self.assertEqual(self.code("put", "not mine", stdin=b"y" * 100), 0)
        until = time.monotonic() + 60
        while blue()["exists_misses"] == before["exists_misses"]:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        after = blue()
        grown = {name: after[name] - before[name] for name in after if name != "tenant"}
        self.assertEqual(grown["objects"], 1)
        self.assertEqual(grown["payload_bytes"], 5000)
        self.assertEqual(grown["extent_bytes"], 5056)
        self.assertEqual(grown["leased_bytes"], 5056)
        self.assertEqual(grown["reads"], 1)
        self.assertEqual(grown["read_misses"], 0)
        self.assertEqual(grown["evicted"], 0)
        self.assertLessEqual(after["fair_bytes"], after["quota_bytes"])
        text = self.daemon.ctl("store").stdout.decode()
        self.assertIn("tenants:\ntenant ", text)
        self.assertRegex(text, r"\nblue +\d+ +\d+ ")
        self.assertEqual(self.code("delete", "mine", *socket_of_blue), 0)
        self.assertEqual(self.code("delete", "not mine"), 0)

    def test_put_get_exists_delete(self):
        value = os.urandom(3_000_001)
        source, target = self.daemon.path / "value", self.daemon.path / "copy"
        source.write_bytes(value)
        self.assertEqual(self.code("put", "k/1", "--in", str(source)), 0)
        self.assertEqual(self.daemon.json("exists", "k/1"), {"key": "k/1", "bytes": len(value)})
        self.assertEqual(self.daemon.ctl("get", "k/1").stdout, value)
        self.assertEqual(self.code("get", "k/1", "--out", str(target)), 0)
        self.assertEqual(target.read_bytes(), value)
        self.assertEqual([self.code("delete", "k/1"), self.code("exists", "k/1"),
                          self.code("get", "k/1"), self.code("delete", "k/1")], [0, 1, 1, 1])

    def pinned_groups(self):
        return self.store()["pinned_groups"]

    # Counters are published in turns: an answer may come before its count.
    def await_pinned_groups(self, count):
        end = time.monotonic() + 60
        while self.pinned_groups() != count and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(self.pinned_groups(), count)

    def test_pin_and_unpin(self):
        self.assertEqual(self.code("put", "p", stdin=b"kept"), 0)
        self.assertEqual(self.code("put", "large", stdin=bytes(8 << 20)), 0)
        self.assertEqual(self.daemon.json("pin", "p"), {"key": "p"})
        self.await_pinned_groups(1)
        refused = self.daemon.ctl("pin", "large")  # a tenth of the pool is less
        self.assertEqual(refused.returncode, 7)
        self.assertIn(b"store.pin_budget_percent", refused.stderr)
        self.assertEqual([self.code("unpin", "p"), self.code("unpin", "p"),
                          self.code("pin", "absent"), self.code("unpin", "absent")], [0, 0, 1, 1])
        self.await_pinned_groups(0)

    def test_an_object_stays_unless_it_is_to_be_replaced(self):
        self.assertEqual(self.code("put", "r", stdin=b"old"), 0)
        self.assertEqual(self.code("put", "r", stdin=b"newer"), 0)
        self.assertEqual(self.daemon.ctl("get", "r").stdout, b"old")
        self.assertEqual(self.code("put", "r", "--replace", stdin=b"newer"), 0)
        self.assertEqual(self.daemon.ctl("get", "r").stdout, b"newer")

    def test_hex_keys_namespaces_and_tenants(self):
        self.assertEqual(self.code("put", "--hex", "6b00ff", stdin=b"bytes"), 0)
        self.assertEqual(self.daemon.ctl("get", "--hex", "6B00FF").stdout, b"bytes")
        self.assertEqual(self.code("put", "--hex", "4142", stdin=b"same"), 0)
        self.assertEqual(self.daemon.ctl("get", "AB").stdout, b"same")
        self.assertEqual(self.code("exists", "AB", "--namespace", "other"), 1)
        self.assertEqual(self.code("put", "AB", "--namespace", "other", stdin=b"there"), 0)
        self.assertEqual(self.daemon.ctl("get", "AB", "--namespace", "other").stdout, b"there")
        blue = str(self.daemon.path / "blue.sock")
        self.assertEqual(self.code("exists", "AB", "--socket", blue), 1)
        self.assertEqual(self.code("put", "AB", "--socket", blue, stdin=b"blue"), 0)
        self.assertEqual(self.daemon.ctl("get", "AB", "--socket", blue).stdout, b"blue")
        self.assertEqual(self.daemon.ctl("get", "AB").stdout, b"same")

    def test_a_life_that_ends(self):
        self.assertEqual(self.code("put", "short", "--ttl-ms", "50", stdin=b"x"), 0)
        time.sleep(0.2)
        self.assertEqual(self.code("exists", "short"), 1)

    def test_wrong_keys_and_values(self):
        for arguments, word in ((["get", "--hex", "6b0"], b"two hex digits"),
                                (["get", "--hex", "zz"], b"two hex digits"),
                                (["get", ""], b"1 to 1024 bytes"),
                                (["put", "k" * 1025], b"1 to 1024 bytes"),
                                (["put", "empty"], b"at least one byte"),
                                (["put", "k", "--in", "/no/such/file"], b"/no/such/file")):
            done = self.daemon.ctl(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(word, done.stderr)

    # ---- what can be wrong

    def test_no_daemon(self):
        for arguments in (["status"], ["top", "--once"], ["version"]):
            done = self.daemon.ctl(*arguments, admin="/tmp/no/such/admin.sock")
            self.assertEqual(done.returncode, 3, arguments)
            self.assertIn(b"/tmp/no/such/admin.sock", done.stderr)
            self.assertIn(b"simmd all", done.stderr)
        environment = dict(os.environ, SIMM_SOCKET="/tmp/no/such/simm.sock")
        done = subprocess.run([BIN / "simmctl", "get", "k"], env=environment, capture_output=True,
                              check=False)
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"/tmp/no/such/simm.sock", done.stderr)

    def test_a_daemon_that_does_not_answer(self):
        self.daemon.process.send_signal(signal.SIGSTOP)
        try:
            done = self.daemon.ctl("--timeout-ms", "200", "status")
        finally:
            self.daemon.process.send_signal(signal.SIGCONT)
        self.assertEqual(done.returncode, 5)
        self.assertIn(b"stopped", done.stderr)

    def test_permission_denied(self):
        if os.geteuid() != 0:
            self.skipTest("SKIPPED: only root can become somebody else")
        with tempfile.TemporaryDirectory() as public:
            # Others may not come to the checkout, as where it lies in /root.
            os.chmod(public, 0o755)
            for file in (BIN / "simmctl", *(BIN.parent / "libclient").glob("libsimm.so*")):
                shutil.copy(file, public)
            done = subprocess.run(
                [f"{public}/simmctl", "--admin", self.daemon.path / "admin.sock", "status"],
                user=65534, group=65534, extra_groups=[], capture_output=True, check=False,
                timeout=60, env={"LD_LIBRARY_PATH": public})
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn(b"only root", done.stderr)

    def test_a_run_directory_that_others_could_change(self):
        with tempfile.TemporaryDirectory() as home:
            def refused(path):
                config = pathlib.Path(home, "config.json")
                config.write_text(json.dumps({"run_directory": str(path)}))
                done = subprocess.run([BIN / "simmd", "all", "--config", config],
                                      capture_output=True, check=False, timeout=60)
                self.assertEqual(done.returncode, 1, done)
                self.assertEqual(list(path.iterdir()), [])
                return done.stderr.decode()
            open_to_all = pathlib.Path(home, "open")
            open_to_all.mkdir()
            open_to_all.chmod(0o777)
            self.assertIn("everybody may write to it", refused(open_to_all))
            if os.geteuid() == 0:
                theirs = pathlib.Path(home, "theirs")
                theirs.mkdir()
                os.chown(theirs, 65534, 65534)
                self.assertIn("belongs to user 65534", refused(theirs))

    def test_wrong_use(self):
        for arguments in ([], ["nonsense"], ["get"], ["status", "--nonsense"], ["config"],
                          ["--timeout-ms", "0", "status"], ["config", "check", "king", "x"]):
            self.assertEqual(self.code(*arguments), 2, arguments)
        self.assertEqual([self.code("--help"), self.code("--version")], [0, 0])

    def test_a_reader_that_has_seen_enough(self):
        command = f"set -o pipefail; {BIN}/simmctl --admin {self.daemon.path}/admin.sock "
        for report in ("stats", "top --interval 0.05 --count 40"):
            done = subprocess.run(["bash", "-c", f"{command} {report} | head -1"],
                                  capture_output=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, b""), report)
        with open("/dev/full", "wb") as full:
            done = subprocess.run([BIN / "simmctl", "--admin", self.daemon.path / "admin.sock",
                                   "stats"], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 7)
        self.assertIn(b"No space", done.stderr)

    # ---- versions, files

    def test_version(self):
        version = self.daemon.json("version")
        self.assertTrue(version["fits"])
        self.assertEqual(version["daemon_role"], "all")

    def test_version_of_another_time(self):
        path = str(self.daemon.path / "other.sock")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(path)
        listener.listen()

        def pass_on():
            with listener.accept()[0] as asker, \
                 socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon:
                daemon.connect(str(self.daemon.path / "admin.sock"))
                daemon.send(asker.recv(1 << 17))
                said = daemon.recv(1 << 17)
                for field in (b'"layout_version":', b'"layout_version_min":'):
                    said = said.replace(field + b"1", field + b"9")
                asker.send(said)
        thread = threading.Thread(target=pass_on)
        thread.start()
        done = self.daemon.ctl("version", admin=path)
        thread.join()
        listener.close()
        self.assertEqual(done.returncode, 6)
        self.assertIn(b"layout 9, this library in 1", done.stderr)

    def test_config_check_says_what_the_daemon_says(self):
        file = self.daemon.path / "check.json"
        for role, text in (("all", "{}"), ("storage", "{}"), ("node", '{"drain_ms": -1}'),
                           ("manager", "{"), ("all", '{"no": 1}'),
                           ("storage", '{"cluster": {"manager": "127.0.0.1:1"}}')):
            file.write_text(text, encoding="utf-8")
            checked = self.daemon.ctl("config", "check", role, str(file))
            daemon = subprocess.run([BIN / "simmd", role, "--check-config", "--config", file],
                                    capture_output=True, check=False)
            self.assertEqual((checked.returncode == 2, checked.returncode == 0),
                             (daemon.returncode != 0, daemon.returncode == 0), (role, text))
            last = daemon.stderr.strip().rpartition(b"simmd: ")[2]
            self.assertIn(last, checked.stderr)
        self.assertEqual(self.code("config", "check", "all", "/no/such/file"), 2)

    def test_secret(self):
        file = self.daemon.path / "secret"
        self.assertEqual(self.code("secret", "create", str(file)), 0)
        self.assertEqual(file.stat().st_mode & 0o7777, 0o600)
        secret = file.read_bytes()
        self.assertRegex(secret, rb"^[0-9a-f]{64}\n$")
        self.assertEqual(self.code("secret", "check", str(file)), 0)
        done = self.daemon.ctl("secret", "create", str(file))
        self.assertEqual((done.returncode, file.read_bytes()), (2, secret))
        other = self.daemon.path / "secret2"
        self.assertEqual(self.code("secret", "create", str(other), umask=0o777), 0)
        self.assertEqual(other.stat().st_mode & 0o7777, 0o600)
        self.assertNotEqual(other.read_bytes(), secret)
        file.chmod(0o640)
        self.assertEqual(self.code("secret", "check", str(file)), 4)
        other.write_text("short\n", encoding="utf-8")
        done = self.daemon.ctl("secret", "check", str(other))
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"holds 5 bytes", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
