#!/usr/bin/env python3
"""Every expression of the dashboards, asked of a real Prometheus that reads a real cluster.

dashboards_live_test.py SOURCE_DIR BIN_DIR: the node's GPU is that of the driver in
BIN_DIR/../test_cuda_driver; RDMA ports are not there, so of their metrics only names are compared.
"""
import os
import pathlib
import re
import subprocess
import sys
import unittest

import yaml

from cluster import ROLES, Cluster
from dashboards import as_asked, asked_for, boards, names, queries
from metrics_test import families, printed_metrics
from prometheus_server import Prometheus

SOURCE = pathlib.Path(sys.argv[1])
BIN = pathlib.Path(sys.argv[2])
DRIVER = BIN.parent / "test_cuda_driver"
# What has no series here, and why.
WITHOUT_SERIES = {"simm_rdma_": "no RDMA port", "ALERTS": "no alert fires"}
# Alerts without a wait that may rightly fire where other tests use all CPUs.
OF_A_BUSY_HOST = {"SimmThreadHangs", "SimmNetworkLoses", "SimmGpuHelperRestarts"}
# Only what is wrong passes a filter; without the filter there has to be something.
FILTER = re.compile(r" (?:>|==) 0(?=$|\))")


def configuration(addresses):
    """config/prometheus.yml with the addresses of this cluster, asked every second."""
    config = yaml.safe_load((SOURCE / "config/prometheus.yml").read_text(encoding="utf-8"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    for part in config["scrape_configs"][0]["static_configs"]:
        part["targets"] = [addresses[part["labels"]["role"]]]
    return config


def is_there(expression):
    return not any(name in expression for name in WITHOUT_SERIES)


class LiveDashboards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        environment = os.environ | {"LD_LIBRARY_PATH": str(DRIVER)}
        cls.cluster = Cluster(BIN, of_node=lambda _: {"gpu": {"enabled": True}},
                              environment=environment)
        cls.addClassCleanup(cls.cluster.stop)
        cls.client = subprocess.Popen(
            [BIN / "gpu_real", cls.cluster.path / "node/simm.sock", "--stay"], env=environment,
            stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.end_client)
        assert cls.client.stdout.readline() == "ready\n"
        cls.prometheus = Prometheus(configuration(cls.cluster.address),
                                    rules=[SOURCE / "config/simm-alerts.yml"])
        cls.addClassCleanup(cls.prometheus.stop)
        cls.cluster.wait(lambda: cls.prometheus.values("up") == [1, 1, 1])
        for number in range(3):
            cls.cluster.object("put", f"key{number}", b"x" * 5000)
            cls.cluster.object("get", f"key{number}")
            cls.cluster.object("get", f"none{number}")

    def answer(self, expression):
        """What is there, with filters off; waits for it, since a rate needs two readings."""
        asked, found = FILTER.sub("", as_asked(expression)), []

        def is_there_now():
            found[:] = self.prometheus.query(asked) or []
            return found

        self.cluster.wait(is_there_now)
        return found

    @classmethod
    def end_client(cls):
        cls.client.kill()
        cls.client.wait()
        cls.client.stdout.close()

    def test_each_metric_is_on_a_live_page(self):
        shown = families([self.cluster.page(role) for role in ROLES])
        counted = families([printed_metrics()])
        for query in queries(SOURCE):
            for name in names(query.expression):
                family = re.sub(r"_(bucket|sum|count)$", "", name)
                family = family if family in shown else name
                pages = shown if is_there(name) else counted
                self.assertIn(family, pages, f"{query.where}: no daemon shows {name}")

    def test_each_panel_shows_something(self):
        for query in queries(SOURCE):
            if not is_there(query.expression):
                continue
            with self.subTest(query.where, expression=query.expression):
                found = self.answer(query.expression)
                labels = set(re.findall(r"\{\{(\w+)\}\}", query.legend))
                for one, value in found:
                    self.assertLessEqual(labels, set(one))
                    if query.maximum is not None and value == value:  # not 0 / 0
                        # Prometheus extrapolates the two rates of a quotient, each for itself.
                        self.assertLessEqual(value, 1.5 * query.maximum)
                    self.assertFalse(value < 0, value)

    def test_variables_have_values(self):
        for name, board in boards(SOURCE).items():
            for expression in asked_for(board):
                with self.subTest(name, expression=expression):
                    self.answer(expression)

    # A target's label `role` must not hide the label of the same name on a manager's page.
    def test_the_example_keeps_the_daemons_own_labels(self):
        found = self.prometheus.query('simm_manager_members{state="live"} > 0')
        self.assertEqual(sorted(labels["role"] for labels, _ in found), ["node", "storage"])
        down = self.prometheus.query("up")
        self.assertEqual(sorted(labels["role"] for labels, _ in down), sorted(ROLES))

    def test_rules_are_evaluated_and_none_fires_while_all_is_well(self):
        def looked_at():
            return [rule for group in self.prometheus.rules() for rule in group["rules"]]

        self.cluster.wait(lambda: (found := looked_at())
                          and all(rule["health"] != "unknown" for rule in found))
        found = looked_at()
        self.assertGreater(len(found), 30)
        self.assertEqual([(rule["name"], rule.get("lastError", "")) for rule in found
                          if rule["health"] != "ok"], [])
        firing = {rule["name"] for rule in found for alert in rule["alerts"]
                  if alert["state"] == "firing"}
        self.assertEqual(firing - OF_A_BUSY_HOST, set())

    def test_what_is_wrong_is_refused(self):
        with self.assertRaises(AssertionError):
            self.prometheus.query("sum by instance (up)")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
