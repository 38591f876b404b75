#!/usr/bin/env python3
"""Metrics of a real cluster against what its client did, and the document's list of all metrics.

metrics_test.py SOURCE_DIR BIN_DIR [--write]: --write makes the list in OBSERVABILITY.md anew.
"""
import json
import pathlib
import re
import subprocess
import sys
import time
import unittest

from cluster import ROLES, Cluster, fetch
from prometheus_server import Prometheus

SOURCE = pathlib.Path(sys.argv[1])
BIN = pathlib.Path(sys.argv[2])
DOCUMENT = SOURCE / "daemon/OBSERVABILITY.md"
SAMPLE = re.compile(r'^([a-zA-Z_:][\w:]*)(\{(?:[^"}]|"(?:\\.|[^"\\])*")*\})? (\S+)$')


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


def values(cluster, role):
    time.sleep(0.06)  # a page is kept for a moment
    return samples(cluster.page(role))


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
    # A tenant of the store is shown when it has something, and not at once.
    cluster.object("put", "listed", b"x")
    cluster.wait(lambda: "simm_store_tenant_objects{" in cluster.page("storage"))
    counted = families([printed_metrics()])
    shown = families([cluster.page(role) for role in ("node", "storage", "manager")])
    rows = {name: family for name, family in shown.items() if name not in counted}
    return [f"| `{name}` | {family['type']} | {', '.join(family['labels'])} | {family['help']} |"
            for name, family in (rows | counted).items()]


def listed_metrics():
    section = DOCUMENT.read_text(encoding="utf-8").split("### All metrics\n")[1]
    return [line for line in section.split("\n## ")[0].splitlines() if line.startswith("| `")]


def write_list():
    cluster = Cluster(BIN)
    try:
        rows = "\n".join(metrics_table(cluster))
    finally:
        cluster.stop()
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(text.replace("\n".join(listed_metrics()), rows), encoding="utf-8")


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(BIN)
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
        before = {role: values(cluster, role) for role in ROLES}
        for i in range(puts):
            self.assertEqual(cluster.object("put", f"key{i}", b"x" * byte_count), 0)
        self.assertEqual(cluster.object("put", "key0", b"x" * byte_count), 0)  # is there
        for i in range(hits):
            self.assertEqual(cluster.object("get", f"key{i}"), 0)
        for i in range(misses):
            self.assertEqual(cluster.object("get", f"none{i}"), 1)
        self.assertEqual(cluster.object("delete", "key6"), 0)
        after = {role: values(cluster, role) for role in ROLES}

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
        targets = [cluster.address[role] for role in ROLES]
        server = Prometheus({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["simm-alerts.yml"],
            "scrape_configs": [{"job_name": "simm", "static_configs": [{"targets": targets}]}],
        }, rules=[SOURCE / "config/simm-alerts.yml"])
        try:
            ask = server.values
            cluster.wait(lambda: ask("up") == [1, 1, 1])
            cluster.wait(lambda: ask("simm_ready") == [1, 1, 1])
            self.assertEqual(cluster.object("put", "seen", b"y" * 100), 0)
            put = sum(value for name, value in values(cluster, "node").items()
                      if name.startswith("simm_pages_total") and 'op="put"' in name
                      and 'result="ok"' in name)
            cluster.wait(lambda: ask('sum(simm_pages_total{op="put",result="ok"})') == [put])
            cluster.wait(lambda: ask('sum(increase(simm_pages_total{op="put"}[1m])) > 0') != [])
            cluster.wait(lambda: ask("histogram_quantile(0.99, sum by (le) "
                                     "(simm_batch_duration_seconds_bucket)) > 0") != [])
            self.assertEqual(ask('ALERTS{alertname="SimmDaemonDown"}'), [])
        finally:
            server.stop()

    def test_examples_pass_promtool(self):
        for arguments in (["rules", "simm-alerts.yml"], ["config", "prometheus.yml"]):
            checked = subprocess.run(["promtool", "check", *arguments], cwd=SOURCE / "config",
                                     capture_output=True, check=False)
            self.assertEqual(checked.returncode, 0, checked.stderr)


if __name__ == "__main__":
    if "--write" in sys.argv:
        write_list()
    else:
        unittest.main(argv=sys.argv[:1])
