#!/usr/bin/env python3
"""Metrics of a real cluster against what its client did, and the document's list of all metrics.

metrics_test.py SOURCE_DIR BIN_DIR [--write]: --write makes the list in OBSERVABILITY.md anew.
"""
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

SOURCE = pathlib.Path(sys.argv[1])
BIN = pathlib.Path(sys.argv[2])
DOCUMENT = SOURCE / "daemon/OBSERVABILITY.md"
ROLES = ("manager", "storage", "node")
SAMPLE = re.compile(r'^([a-zA-Z_:][\w:]*)(\{(?:[^"}]|"(?:\\.|[^"\\])*")*\})? (\S+)$')


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fetch(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode(), answer.headers


def samples(text):
    """{name and labels: value} of a page; fails on a line that is none, and on one twice."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        parts = SAMPLE.match(line)
        assert parts, line
        key = parts[1] + (parts[2] or "")
        assert key not in found, key
        found[key] = float(parts[3])
    return found


def promtool_says(text):
    done = subprocess.run(["promtool", "check", "metrics"], input=text.encode(),
                          capture_output=True, check=False)
    return (done.stdout + done.stderr).decode()


def printed_metrics():
    return subprocess.run([BIN / "simmd", "--print-metrics"], check=True, capture_output=True,
                          text=True).stdout


def families(pages):
    """{metric: its type, help and names of labels}, in the order in which the pages show them."""
    found = {}
    for line in "\n".join(pages).splitlines():
        if line.startswith("# HELP "):
            name, words = line.removeprefix("# HELP ").split(" ", 1)
            family = found.setdefault(name, {"help": words, "labels": []})
        elif line.startswith("# TYPE "):
            family["type"] = line.rsplit(" ", 1)[1]
        else:
            for label in re.findall(r'[{,]([a-z_]+)="', line.rsplit(" ", 1)[0]):
                if label not in family["labels"] + ["le"]:
                    family["labels"].append(label)
    return found


def metrics_table(cluster):
    """The document's rows: what only running daemons show, and what any daemon may count."""
    cluster.object("put", "listed", b"x")  # a tenant of the store is shown when it has something
    counted = families([printed_metrics()])
    shown = families([cluster.page(role) for role in ("node", "storage", "manager")])
    rows = {name: family for name, family in shown.items()
            if name not in counted and not name.startswith("process_")}
    return [f"| `{name}` | {family['type']} | {', '.join(family['labels'])} | {family['help']} |"
            for name, family in (rows | counted).items()]


def listed_metrics():
    section = DOCUMENT.read_text(encoding="utf-8").split("### All metrics\n")[1]
    return [line for line in section.split("\n## ")[0].splitlines() if line.startswith("| `simm_")]


def write_list():
    cluster = Cluster()
    try:
        rows = "\n".join(metrics_table(cluster))
    finally:
        cluster.stop()
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(text.replace("\n".join(listed_metrics()), rows), encoding="utf-8")


class Cluster:
    """A manager, a storage daemon and a node, each with its numbers on a port of its own."""

    def __init__(self):
        self.home = tempfile.TemporaryDirectory(prefix="simm_metrics_")
        self.path = pathlib.Path(self.home.name)
        subprocess.run([BIN / "simmctl", "secret", "create", self.path / "secret"], check=True,
                       stdout=subprocess.DEVNULL)
        manager = f"127.0.0.1:{free_port()}"
        joined = {"manager": manager, "secret_file": str(self.path / "secret")}
        self.processes = []
        self.address = {}
        for role in ROLES:
            config = {"run_directory": str(self.path / role), "metrics": {"listen": "0"},
                      "cluster": dict(joined, node_name=role),
                      "node": {"pool_bytes": "64MiB" if role == "storage" else 0,
                               "hugepages": "off"}}
            if role == "manager":
                config["manager"] = {"listen": manager}
                del config["cluster"]["manager"]
            (self.path / role).mkdir()
            file = self.path / f"{role}.json"
            file.write_text(json.dumps(config), encoding="utf-8")
            with open(self.path / f"{role}.log", "wb") as log:
                self.processes.append(
                    subprocess.Popen([BIN / "simmd", role, "--config", file], stderr=log))
            self.wait(lambda: self.ctl(role, "status").returncode == 0)
            status = json.loads(self.ctl(role, "--json", "status").stdout)
            self.address[role] = status["metrics"]
        self.wait(lambda: 'simm_peers{state="connected"} 1' in self.page("node"))

    def ctl(self, role, *arguments, stdin=b""):
        admin = self.path / role / "admin.sock"
        return subprocess.run([BIN / "simmctl", "--admin", admin, *arguments], input=stdin,
                              capture_output=True, check=False, timeout=30)

    def object(self, command, key, stdin=b""):
        return subprocess.run([BIN / "simmctl", command, key, "--socket",
                               self.path / "node" / "simm.sock"], input=stdin,
                              capture_output=True, check=False, timeout=30).returncode

    def wait(self, is_so):
        for _ in range(400):
            if is_so():
                return
            time.sleep(0.05)
        raise AssertionError("\n".join(f.read_text() for f in self.path.glob("*.log")))

    def page(self, role):
        return fetch(f"http://{self.address[role]}/metrics")[0]

    def values(self, role):
        time.sleep(0.06)  # a page is kept for a moment
        return samples(self.page(role))

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(timeout=20)
        self.home.cleanup()


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.stop)

    def test_the_counters_of_64_data_agents_have_room(self):
        header = (SOURCE / "daemon/base/counters.h").read_text(encoding="utf-8")
        room = int(re.search(r"kCountersMax = ([\d']+);", header)[1].replace("'", ""))
        names = set()
        for role in ROLES:
            names |= set(json.loads(self.cluster.ctl(role, "--json", "stats").stdout))
        of_an_agent = {name for name in names if re.match(r"\w+\.0\.", name)}
        self.assertGreater(len(of_an_agent), 400)
        self.assertLessEqual(64 * len(of_an_agent) + len(names - of_an_agent), room)

    def test_values_are_what_the_client_did(self):
        cluster = self.cluster
        puts, hits, misses, byte_count = 7, 3, 4, 5000
        before = {role: cluster.values(role) for role in ROLES}
        for i in range(puts):
            self.assertEqual(cluster.object("put", f"key{i}", b"x" * byte_count), 0)
        self.assertEqual(cluster.object("put", "key0", b"x" * byte_count), 0)  # is there
        for i in range(hits):
            self.assertEqual(cluster.object("get", f"key{i}"), 0)
        for i in range(misses):
            self.assertEqual(cluster.object("get", f"none{i}"), 1)
        self.assertEqual(cluster.object("delete", "key6"), 0)
        after = {role: cluster.values(role) for role in ROLES}

        def grown(role, name):
            return after[role][name] - before[role].get(name, 0)

        def pages(op, result):
            return grown("node", f'simm_pages_total{{agent="0",op="{op}",result="{result}"}}')

        self.assertEqual(pages("put", "ok"), puts + 1)
        self.assertEqual(grown("storage", 'simm_store_already_present_total{agent="0"}'), 1)
        self.assertEqual(pages("get", "ok"), hits)
        # simmctl asks for the length first.
        self.assertEqual(pages("exists", "not_found"), misses)
        self.assertEqual(pages("remove", "ok"), 1)
        moved = 'simm_moved_bytes_total{agent="0",op="%s"}'
        self.assertEqual(grown("node", moved % "put"), (puts + 1) * byte_count)
        self.assertEqual(grown("node", moved % "get"), hits * byte_count)
        self.assertEqual(grown("node", 'simm_batches_total{agent="0",op="put"}'), puts + 1)
        self.assertEqual(grown("storage", 'simm_server_bytes_total{agent="0",op="put"}'),
                         puts * byte_count)
        self.assertEqual(grown("storage", 'simm_store_published_total{agent="0"}'), puts)
        self.assertEqual(grown("storage", 'simm_store_objects{agent="0"}'), puts - 1)
        tenant = 'simm_store_tenant_%s{tenant="default"}'
        self.assertEqual(grown("storage", tenant % "objects"), puts - 1)
        self.assertEqual(grown("storage", tenant % "payload_bytes"), (puts - 1) * byte_count)
        self.assertEqual(grown("storage", tenant % "reads_total"), hits)
        self.assertEqual(grown("storage", tenant % "exists_misses_total"), misses)
        self.assertEqual(after["storage"][tenant % "quota_bytes"],
                         after["storage"]['simm_store_capacity_bytes{agent="0"}'])
        self.assertEqual(after["storage"][tenant % "used_bytes"],
                         after["storage"]['simm_store_used_bytes{agent="0"}'])
        self.assertEqual(after["storage"]["simm_cluster_slots"], 16384)
        self.assertEqual(after["manager"]['simm_member_slots{member="storage/storage"}'], 16384)
        self.assertEqual(after["manager"]['simm_manager_members{role="node",state="live"}'], 1)
        self.assertEqual(after["node"]["simm_cluster_manager_connected"], 1)
        self.assertEqual(after["node"]['simm_peer_connections{peer="storage/storage",'
                                       'state="missing"}'], 0)
        counts = [value for name, value in after["node"].items()
                  if name.startswith("simm_batch_duration_seconds_bucket")]
        self.assertEqual(counts, sorted(counts))
        self.assertEqual(counts[-1], after["node"]["simm_batch_duration_seconds_count"])
        for role in ROLES:
            for name, value in before[role].items():
                if re.match(r"\w+_(total|bucket|count|sum)\b", name):
                    self.assertGreaterEqual(after[role][name], value, name)

    def test_pages_of_each_role_pass_promtool(self):
        for role in ROLES:
            text, headers = fetch(f"http://{self.cluster.address[role]}/metrics")
            self.assertEqual(headers["Content-Type"],
                             "text/plain; version=0.0.4; charset=utf-8")
            self.assertEqual(promtool_says(text), "")
            # Who counts something says what it is: daemon/base/counter_group.h.
            self.assertNotIn("simm_other", text)
            for page in ("healthz", "readyz"):
                self.assertIn(fetch(f"http://{self.cluster.address[role]}/{page}")[0],
                              ("alive\n", "ready\n"))

    # https://prometheus.io/docs/practices/naming/
    def test_names_keep_to_the_conventions(self):
        catalogue = printed_metrics()
        self.assertEqual(promtool_says(catalogue), "")
        found = families([catalogue])
        self.assertGreater(len(found), 150)
        for name, family in found.items():
            self.assertRegex(name, r"^simm_[a-z0-9_]+$")
            self.assertNotRegex(name + "_", r"_(ns|us|ms|kib|mib|percent|milliseconds)_")
            self.assertTrue(family["help"].endswith("."), name)

    def test_the_document_has_the_list_of_all_metrics(self):
        self.assertEqual(listed_metrics(), metrics_table(self.cluster),
                         f"run: {' '.join(sys.argv[:3])} --write")

    def test_prometheus_reads_them(self):
        cluster = self.cluster
        with tempfile.TemporaryDirectory(prefix="simm_prometheus_") as home:
            config = pathlib.Path(home, "prometheus.yml")
            targets = [cluster.address[role] for role in ROLES]
            shutil.copy(SOURCE / "config/simm-alerts.yml", home)
            config.write_text(json.dumps({
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": ["simm-alerts.yml"],
                "scrape_configs": [{"job_name": "simm", "static_configs": [{"targets": targets}]}],
            }), encoding="utf-8")
            where = f"127.0.0.1:{free_port()}"
            with open(home + "/log", "wb") as log:
                server = subprocess.Popen(
                    ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={home}/data",
                     f"--web.listen-address={where}"], stderr=log)
            try:
                def ask(query):
                    try:
                        url = f"http://{where}/api/v1/query?" + urllib.parse.urlencode(
                            {"query": query})
                        result = json.loads(fetch(url)[0])["data"]["result"]
                    except OSError:
                        return []
                    return sorted(float(one["value"][1]) for one in result)

                cluster.wait(lambda: ask("up") == [1, 1, 1])
                cluster.wait(lambda: ask("simm_ready") == [1, 1, 1])
                self.assertEqual(cluster.object("put", "seen", b"y" * 100), 0)
                put = sum(value for name, value in cluster.values("node").items()
                          if name.startswith("simm_pages_total") and 'op="put"' in name
                          and 'result="ok"' in name)
                cluster.wait(lambda: ask('sum(simm_pages_total{op="put",result="ok"})') == [put])
                cluster.wait(lambda: ask('sum(increase(simm_pages_total{op="put"}[1m])) > 0') != [])
                cluster.wait(lambda: ask("histogram_quantile(0.99, sum by (le) "
                                         "(simm_batch_duration_seconds_bucket)) > 0") != [])
                self.assertEqual(ask('ALERTS{alertname="SimmDaemonDown"}'), [])
            finally:
                server.terminate()
                server.wait(timeout=20)

    def test_examples_pass_promtool(self):
        for arguments in (["rules", "simm-alerts.yml"], ["config", "prometheus.yml"]):
            checked = subprocess.run(["promtool", "check", *arguments], cwd=SOURCE / "config",
                                     capture_output=True, check=False)
            self.assertEqual(checked.returncode, 0, checked.stderr)
        # What the rules and the document ask for is there.
        rules = (SOURCE / "config/simm-alerts.yml").read_text(encoding="utf-8")
        document = (SOURCE / "daemon/OBSERVABILITY.md").read_text(encoding="utf-8")
        for name in set(re.findall(r"\bsimm_\w+", rules)):
            self.assertIn(f"`{name}`", document)


if __name__ == "__main__":
    if "--write" in sys.argv:
        write_list()
    else:
        unittest.main(argv=sys.argv[:1])
