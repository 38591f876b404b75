#!/usr/bin/env python3
"""The status page of real daemons, read by hand-made requests: who may read it, and that its data
are what simmctl says in the same moment.

page_test.py SOURCE_DIR BIN_DIR
"""
import http.client
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import ROLES, Cluster

SOURCE = pathlib.Path(sys.argv[1])
BIN = pathlib.Path(sys.argv[2])
FILES = {"/": "page.html", "/page.css": "page.css", "/page.js": "page.js",
         "/sections.js": "sections.js", "/figures.js": "figures.js", "/icon.svg": "icon.svg"}
PAGE_BYTES_MAX = 100_000
HOT = b"x" * 3_000_000  # the sketch of bytes sees each use of so many
TOKEN = "0123456789abcdef0123456789abcdef-._~+/="
# What moves by itself between two questions.
MOVING = ("uptime_ms", "state_ms", "heard_ms", "last_ms_ago", "first_ms_ago", "pid")


def ask(address, path="/status.json", method="GET", **headers):
    """(status, headers, body) of one request; a header that is None is left out."""
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=20)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    sent = {"Host": address, **{name.replace("_", "-"): text for name, text in headers.items()}}
    for name, text in sent.items():
        if text is not None:
            connection.putheader(name, text)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body.decode()


def still(value):
    """The same without what moves by itself."""
    if isinstance(value, dict):
        return {name: still(inner) for name, inner in value.items() if name not in MOVING}
    return [still(inner) for inner in value] if isinstance(value, list) else value


class Open(unittest.TestCase):
    """Daemons without a token."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(BIN)
        cls.addClassCleanup(cls.cluster.stop)
        for i in range(5):
            assert cls.cluster.object("put", f"a-key-{i}", HOT if i == 0 else b"x" * 5000) == 0
            assert cls.cluster.object("get", f"a-key-{i}") == 0
        cls.cluster.object("get", "no-such-key")

    def ask(self, role, *arguments, **headers):
        return ask(self.cluster.address[role], *arguments, **headers)

    def test_the_files_are_those_of_the_tree_and_small(self):
        total = 0
        for path, name in FILES.items():
            status, headers, body = self.ask("node", path)
            self.assertEqual(status, 200)
            self.assertEqual(body, (SOURCE / "daemon/metrics/page" / name).read_text("utf-8"))
            self.assertIn("default-src 'self';", headers["Content-Security-Policy"])
            self.assertIn("frame-ancestors 'none'", headers["Content-Security-Policy"])
            self.assertNotIn("unsafe", headers["Content-Security-Policy"])
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(headers["Cross-Origin-Resource-Policy"], "same-origin")
            self.assertIsNone(headers["Access-Control-Allow-Origin"])
            total += len(body.encode())
        self.assertLess(total, PAGE_BYTES_MAX)

    def test_no_file_names_another_place_or_makes_markup(self):
        for name in FILES.values():
            text = (SOURCE / "daemon/metrics/page" / name).read_text("utf-8")
            text = text.replace('xmlns="http://www.w3.org/2000/svg"', "")
            for forbidden in ("http:", "https:", "//cdn", "innerHTML", "outerHTML", "eval(",
                              "insertAdjacentHTML", "document.write", "style=", "onclick="):
                self.assertNotIn(forbidden, text, name)

    def test_get_and_head_only(self):
        for path in ("/", "/page.js", "/status.json"):
            for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
                status, headers, _ = self.ask("node", path, method)
                self.assertEqual(status, 405, (path, method))
                self.assertEqual(headers["Allow"], "GET, HEAD")
            _, got, body = self.ask("node", path)
            status, headers, nothing = self.ask("node", path, "HEAD")
            self.assertEqual((status, nothing), (200, ""))
            self.assertEqual(headers["Content-Type"], got["Content-Type"])
            self.assertGreater(int(headers["Content-Length"]), 0)
            if path != "/status.json":  # figures have more digits a moment later
                self.assertEqual(int(headers["Content-Length"]), len(body.encode()))

    def test_the_host_is_one_that_readers_use(self):
        for path in ("/", "/page.css", "/status.json"):
            for host in ("localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.9:1", "[::1]:9"):
                self.assertEqual(self.ask("node", path, Host=host)[0], 200, (path, host))
            for host in ("evil.example.com", "localhost.evil.example.com", "127.0.0.1.evil.com",
                         "10.1.2.3", "[fe80::1]", "0.0.0.0", "", "127.0.0.1:x", "localhost@evil"):
                status, _, body = self.ask("node", path, Host=host)
                self.assertEqual(status, 400, (path, host))
                self.assertNotIn("reports", body)
        # Without the header, as HTTP/1.0 allows.
        host, port = self.cluster.address["node"].rsplit(":", 1)
        with socket.create_connection((host, int(port))) as old:
            old.sendall(b"GET /status.json HTTP/1.0\r\n\r\n")
            self.assertTrue(old.recv(4096).startswith(b"HTTP/1.1 400 "))

    def test_other_sites_are_refused(self):
        here = "http://" + self.cluster.address["node"]
        self.assertEqual(self.ask("node", Origin=here)[0], 200)
        self.assertEqual(self.ask("node", Sec_Fetch_Site="same-origin")[0], 200)
        self.assertEqual(self.ask("node", Sec_Fetch_Site="none")[0], 200)
        for origin in ("http://evil.example.com", "null", "http://localhost", here + "0",
                       "file://", here.replace("http", "ftp")):
            for path in ("/", "/status.json"):
                status, headers, body = self.ask("node", path, Origin=origin)
                self.assertEqual(status, 403, origin)
                self.assertIsNone(headers["Access-Control-Allow-Origin"])
                self.assertNotIn("reports", body)
        for site in ("cross-site", "same-site"):
            self.assertEqual(self.ask("node", Sec_Fetch_Site=site)[0], 403)

    def test_the_metrics_keep_their_rules(self):
        for path in ("/metrics", "/healthz", "/readyz"):
            self.assertEqual(self.ask("node", path)[0], 200)
            self.assertEqual(self.ask("node", path, Host="10.1.2.3")[0], 200)
            self.assertEqual(self.ask("node", path, Origin="http://evil.example.com")[0], 200)
            self.assertEqual(self.ask("node", path, Host="evil.example.com")[0], 400)
        status, _, body = self.ask("node", "/nothing")
        self.assertEqual((status, body), (404, "there are /, /metrics, /healthz and /readyz\n"))

    def fresh(self, role):
        """What the page shows, made after this call: a text is kept, and says how long it is up."""
        kept = self.ask(role)[2]
        texts = []
        self.cluster.wait(lambda: texts.append(self.ask(role)[2]) or texts[-1] != kept)
        return json.loads(texts[-1])

    def same(self, role, part, *arguments, but=()):
        """A report of the page and simmctl's, in the same moment: between two that are alike."""
        for _ in range(20):
            before = self.cluster.ctl(role, "--json", part, *arguments)
            page = self.fresh(role)
            after = self.cluster.ctl(role, "--json", part, *arguments)
            if still(json.loads(before.stdout)) == still(json.loads(after.stdout)):
                break
        self.assertIn(part, page["reports"], page["trouble"])
        ours, theirs = still(page["reports"][part]), still(json.loads(after.stdout))
        for name in but:
            ours.pop(name, None)
            theirs.pop(name, None)
        self.assertEqual(ours, theirs)
        return page["reports"][part]

    def test_the_figures_are_those_of_simmctl(self):
        for role in ROLES:
            self.same(role, "status", but=["sockets"])
            self.same(role, "slots")
            pages = json.loads(self.ask(role)[2])["reports"]["nodes"]
            nodes = json.loads(self.cluster.ctl(role, "--json", "nodes").stdout)["nodes"]
            self.assertEqual(still([node for page in pages for node in page["nodes"]]),
                             still(nodes))
            # Threads and the questions themselves are counted too, and those go on.
            moving = lambda name: name.startswith(("runner.", "metrics.", "tcp.", "scrub."))
            totals = self.fresh(role)["reports"]["totals"]
            theirs = json.loads(self.cluster.ctl(role, "--json", "totals").stdout)
            self.assertEqual({name: n for name, n in totals.items() if not moving(name)},
                             {name: n for name, n in theirs.items() if not moving(name)})
        for role in ("storage", "node"):
            for part in ("peers", "nics", "gpus", "moves"):
                self.same(role, part)
        self.same("node", "hot")

    def test_totals_are_the_sums_of_stats(self):
        stats = json.loads(self.cluster.ctl("storage", "--json", "stats", "store.").stdout)
        totals = json.loads(self.cluster.ctl("storage", "--json", "totals").stdout)
        for name, value in stats.items():
            self.assertEqual(totals["store." + name.split(".", 2)[2]], value)
        self.assertEqual(totals["store.objects"], 5)

    def test_nothing_names_a_tenant_a_client_or_a_key(self):
        for role in ROLES:
            _, _, text = self.ask(role)
            page = json.loads(text)
            self.assertIs(page["names"], False)
            for part in ("tenants", "store_tenants", "errors", "sessions", "config"):
                self.assertNotIn(part, page["reports"])
            for word in ("default", "simm.sock", "a-key-", "simmctl"):
                self.assertNotIn(word, text, role)
        # Keys are hashes, and nobody learns whose they are.
        self.cluster.wait(lambda: json.loads(self.ask("storage")[2])["reports"]["hot"]["keys"])
        theirs = json.loads(self.cluster.ctl("storage", "--json", "hot").stdout)
        ours = json.loads(self.ask("storage")[2])["reports"]["hot"]
        self.assertEqual(set(theirs["keys"][0]) - set(ours["keys"][0]), {"tenant", "namespace"})
        for key in ours["keys"]:
            self.assertRegex(key["key_hash"], "^[0-9a-f]{32}$")
            self.assertNotIn("tenant", key)
            self.assertNotIn("namespace", key)
        events = json.loads(self.ask("node")[2])["reports"]["events"]["events"]
        theirs = json.loads(self.cluster.ctl("node", "--json", "events").stdout)["events"]
        self.assertIn("session_attached", {event["kind"] for event in theirs})
        kinds = {event["kind"] for event in events}
        self.assertEqual(kinds & {"session_attached", "session_ended", "ready"}, set())
        self.assertIn("map", kinds)
        for event in events:
            self.assertIn(event, theirs)

    def test_many_readers_cost_one_text(self):
        self.fresh("manager")
        began = time.monotonic()
        texts = {self.ask("manager")[2] for _ in range(30)}
        self.assertLessEqual(len(texts), 2 + (time.monotonic() - began))  # a text is kept a second

    def test_a_silent_manager_costs_its_parts_alone(self):
        manager = self.cluster.processes[0]
        manager.send_signal(19)  # SIGSTOP
        try:
            began = time.monotonic()
            page = self.fresh("node")
            self.assertIn("status", page["reports"])
            self.assertIn("totals", page["reports"])
            self.assertIn("nodes", page["trouble"])
            self.assertNotIn("nodes", page["reports"])
            self.assertLess(time.monotonic() - began, 15)
        finally:
            manager.send_signal(18)
        self.cluster.wait(lambda: "nodes" in json.loads(self.ask("node")[2])["reports"])


class Draining(unittest.TestCase):
    """A storage daemon that hands its slots over, slowly."""

    def test_a_drain_and_its_time_to_go_are_on_every_page_until_its_end(self):
        cluster = Cluster(BIN)
        self.addCleanup(cluster.stop)
        cluster.start("storage", "slow", move_bytes_per_s="4MiB")

        def reports(name):
            return json.loads(ask(cluster.address[name])[2])["reports"]

        cluster.wait(lambda: len(reports("node").get("peers", {}).get("peers", [])) == 2)
        cluster.wait(lambda: all(peer["open"] for peer in reports("node")["peers"]["peers"]))
        for i in range(80):
            self.assertEqual(cluster.object("put", f"key-{i}", b"x" * 400_000), 0)
        self.assertEqual(reports("slow")["moves"]["state"], "still")
        self.assertNotIn("drains", reports("node"))
        self.assertEqual(cluster.ctl("node", "drain", "storage/slow").returncode, 0)
        cluster.wait(lambda: reports("node").get("drains", {}).get("storage/slow", {})
                     .get("eta_ms") is not None)
        shown = reports("node")["drains"]["storage/slow"]
        theirs = json.loads(cluster.ctl("slow", "--json", "moves").stdout)
        self.assertEqual(set(shown), set(theirs))
        self.assertEqual((shown["daemon"], shown["state"]), ("slow", "draining"))
        self.assertGreater(shown["left_bytes"], 0)
        self.assertGreaterEqual(theirs["moved_bytes"], shown["moved_bytes"])
        cluster.wait(lambda: reports("slow")["moves"]["state"] == "draining")  # pages are kept
        cluster.wait(lambda: reports("slow")["moves"]["state"] == "drained")
        last = reports("slow")["moves"]
        self.assertEqual((last["left_objects"], last["lost_objects"], last["eta_ms"]),
                         (0, 0, None))


class Guarded(unittest.TestCase):
    """Daemons with a token, which listen on all addresses."""

    @classmethod
    def setUpClass(cls):
        def metrics(path):
            token = path / "token"
            token.write_text(TOKEN + "\n")
            token.chmod(0o600)
            return {"token_file": str(token), "listen": "[::]:0",
                    "host_names": ["Simm1.example.com", "simm1"]}

        def of_node(path):
            return {"tenants": [{"name": "blue"}],
                    "sockets": [{"path": str(path / "node/simm.sock"), "tenant": "blue"}]}

        cls.cluster = Cluster(BIN, metrics, of_node)
        cls.addClassCleanup(cls.cluster.stop)
        assert cls.cluster.object("put", "a-key", b"x" * 5000) == 0

    def ask(self, path="/status.json", host=None, **headers):
        port = self.cluster.address["node"].rsplit(":", 1)[1]
        return ask(f"{host or '127.0.0.1'}:{port}", path, **headers)

    def test_the_token_is_asked_for(self):
        bearer = "Bearer " + TOKEN
        wrong = [None, "", "Bearer", "Bearer ", "Bearer x", "Bearer " + TOKEN[:-1], bearer + "x",
                 "Bearer " + TOKEN.upper(), "Basic " + TOKEN, TOKEN, "Bearer " + "a" * 4000]
        for given in wrong:
            status, headers, body = self.ask(Authorization=given)
            self.assertEqual(status, 401, given)
            self.assertTrue(headers["WWW-Authenticate"].startswith("Bearer"))
            self.assertNotIn("reports", body)
        self.assertEqual(self.ask(f"/status.json?token={TOKEN}")[0], 401)
        for path in FILES:  # the page itself asks a person for the token
            self.assertEqual(self.ask(path)[0], 200)
        for path in ("/metrics", "/healthz", "/readyz"):
            self.assertEqual(self.ask(path)[0], 200)
        self.assertEqual(self.ask(Authorization=bearer)[0], 200)
        self.assertEqual(self.ask(Authorization="bearer " + TOKEN)[0], 200)
        # A token opens nothing to another site.
        self.assertEqual(self.ask(Authorization=bearer, Host="evil.example.com")[0], 400)
        self.assertEqual(self.ask(Authorization=bearer, Origin="http://evil.example.com")[0], 403)
        self.assertEqual(self.ask(Authorization=bearer, Sec_Fetch_Site="cross-site")[0], 403)

    def test_with_it_tenants_are_named(self):
        page = json.loads(self.ask(Authorization="Bearer " + TOKEN)[2])
        self.assertIs(page["names"], True)
        tenants = json.loads(self.cluster.ctl("node", "--json", "tenants").stdout)
        self.assertEqual([row["tenant"] for row in page["reports"]["tenants"]],
                         [row["tenant"] for row in tenants])
        self.assertIn("blue", str(page["reports"]["tenants"]))
        self.assertEqual(page["reports"]["status"]["sockets"][0]["tenant"], "blue")
        self.assertIn("tenant=blue", str(page["reports"]["events"]))
        self.assertEqual(self.cluster.object("put", "hot", HOT), 0)
        port = self.cluster.address["storage"].rsplit(":", 1)[1]
        self.cluster.wait(lambda: json.loads(self.cluster.ctl("storage", "--json", "hot").stdout)
                          ["keys"])
        time.sleep(1.1)  # a text is kept for a second
        page = json.loads(ask(f"127.0.0.1:{port}", Authorization="Bearer " + TOKEN)[2])
        self.assertEqual(set(page["reports"]["hot"]["keys"][0]) & {"tenant", "namespace"},
                         {"tenant", "namespace"})

    def test_it_is_reached_by_other_addresses_and_names(self):
        addresses = [line.split()[3].split("/")[0] for line in subprocess.run(
            ["ip", "-o", "-4", "addr"], capture_output=True, text=True,
            check=True).stdout.splitlines()]
        bearer = "Bearer " + TOKEN
        for address in addresses:
            self.assertEqual(self.ask(host=address, Authorization=bearer)[0], 200, address)
        self.assertEqual(self.ask(Host="[::1]:1", Authorization=bearer)[0], 200)
        for name in ("simm1", "SIMM1.example.com:9470"):
            self.assertEqual(self.ask(Host=name, Authorization=bearer)[0], 200)
            origin = "https://" + name
            self.assertEqual(self.ask(Host=name, Origin=origin, Authorization=bearer)[0], 200)
        for name in ("simm2.example.com", "example.com", "203.0.113.9"):
            self.assertEqual(self.ask(Host=name, Authorization=bearer)[0], 400, name)


class Starts(unittest.TestCase):
    """What a daemon says of its configuration, and what one without a token shows to others."""

    def start(self, metrics):
        home = tempfile.TemporaryDirectory(prefix="simm_page_")
        self.addCleanup(home.cleanup)
        self.path = pathlib.Path(home.name)
        for name, text in (("short", "abc"), ("odd", "0123456789 abcdef 0123456789 abcdef")):
            (self.path / name).write_text(text)
            (self.path / name).chmod(0o600)
        (self.path / "wide").write_text(TOKEN)
        (self.path / "wide").chmod(0o644)
        for key, value in metrics.items():
            metrics[key] = value.replace("HOME", str(self.path))
        (self.path / "config").write_text(json.dumps({
            "run_directory": str(self.path), "metrics": metrics,
            "node": {"pool_bytes": "16MiB", "hugepages": "off"}}))
        return [BIN / "simmd", "all", "--config", self.path / "config"]

    def refused(self, metrics):
        done = subprocess.run(self.start(metrics), capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 1 if done.returncode == 1 else 2, done.stderr)
        return done.stderr

    def test_wrong_keys_are_refused_with_a_remedy(self):
        for file, words in (("wide", "chmod 600"), ("short", "32"), ("odd", "letters, digits"),
                            ("none", "simmctl secret create")):
            said = self.refused({"listen": "0", "token_file": f"HOME/{file}"})
            self.assertIn("metrics.token_file", said)
            self.assertIn(words, said)
            self.assertNotIn(TOKEN, said)
        said = self.refused({"listen": "0", "token_file": "@token"})
        self.assertIn("LoadCredential", said)
        self.assertIn("metrics.listen", self.refused({"token_file": "HOME/wide"}))
        self.assertIn("metrics.listen", self.refused({"host_names": "simm1"}))
        for name in ("simm1:80", "http://simm1", "a b", "*"):
            self.assertIn("metrics.host_names", self.refused({"listen": "0", "host_names": name}))

    def test_without_a_token_others_see_the_numbers_alone(self):
        others = [line.split()[3].split("/")[0] for line in subprocess.run(
            ["ip", "-o", "-4", "addr"], capture_output=True, text=True, check=True)
            .stdout.splitlines() if " lo " not in line]
        if not others:
            self.skipTest("no address besides loopback")
        daemon = subprocess.Popen(self.start({"listen": "0.0.0.0:0"}), stderr=subprocess.PIPE)
        self.addCleanup(daemon.stderr.close)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.terminate)
        ctl = [BIN / "simmctl", "--admin", self.path / "admin.sock", "--json", "status"]
        for _ in range(400):
            done = subprocess.run(ctl, capture_output=True, check=False)
            if done.returncode == 0:
                break
            time.sleep(0.05)
        port = json.loads(done.stdout)["metrics"].rsplit(":", 1)[1]
        for path in [*FILES, "/status.json"]:
            status, _, body = ask(f"{others[0]}:{port}", path)
            self.assertEqual(status, 403, path)
            self.assertIn("metrics.token_file", body)
            self.assertEqual(ask(f"127.0.0.1:{port}", path)[0], 200)
        self.assertEqual(ask(f"{others[0]}:{port}", "/metrics")[0], 200)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
