#!/usr/bin/env python3
"""The dashboards in config/grafana without a daemon: their files, expressions, units and words.

dashboards_test.py SOURCE_DIR BIN_DIR, with config/grafana and tests/docs on PYTHONPATH.
"""
import json
import pathlib
import re
import subprocess
import sys
import unittest

import yaml
from check_words import check_text
from metric_table import family_of, read_table

from dashboards import Words, as_asked, asked_for, boards, names, panels, queries, unit_of
from prometheus_server import check_expressions, promtool

SOURCE = pathlib.Path(sys.argv[1])
BIN = pathlib.Path(sys.argv[2])
GRID_COLUMNS = 24
UNITS = {"bytes", "Bps", "ops", "percentunit", "s", "short"}
TABLE = read_table()


def cells(place):
    return {(x, y) for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])}


class Dashboards(unittest.TestCase):
    def test_files_are_what_the_generator_writes(self):
        done = subprocess.run([sys.executable, SOURCE / "config/grafana/generate.py", "--check"],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_whole_table_of_metrics_is_read(self):
        document = (SOURCE / "daemon/OBSERVABILITY.md").read_text(encoding="utf-8")
        listed = re.findall(r"^\| `(\w+)` \| (?:counter|gauge|histogram) \|", document, re.M)
        self.assertEqual(list(TABLE), listed)
        self.assertGreater(len(listed), 200)

    def test_each_board_has_its_own_name_and_a_source_that_can_be_chosen(self):
        found = boards(SOURCE)
        self.assertGreaterEqual(len(found), 8)
        for key in ("uid", "title"):
            self.assertEqual(len({board[key] for board in found.values()}), len(found))
        for name, board in found.items():
            variables = {one["name"]: one for one in board["templating"]["list"]}
            self.assertEqual(variables["datasource"]["type"], "datasource")
            sources = [json.dumps(one["datasource"]) for panel in panels(board)
                       for one in [panel, *panel["targets"]]]
            self.assertEqual(set(sources), {'{"type": "prometheus", "uid": "${datasource}"}'})
            used = set(re.findall(r"\$(?!__)(\w+)", json.dumps(board["panels"])))
            self.assertLessEqual(used, set(variables), name)
            self.assertLessEqual(set(variables) - {"datasource"}, used, name)

    def test_panels_have_their_place_a_number_and_a_unit(self):
        for name, board in boards(SOURCE).items():
            numbers, taken = set(), set()
            for panel in board["panels"]:
                where = f"{name}: {panel['title']}"
                self.assertNotIn(panel["id"], numbers, where)
                numbers.add(panel["id"])
                here = cells(panel["gridPos"])
                self.assertFalse(here & taken, f"{where} lies over another panel")
                self.assertTrue(all(0 <= x < GRID_COLUMNS for x, _ in here), where)
                taken |= here
            for panel in panels(board):
                where = f"{name}: {panel['title']}"
                self.assertIn(panel["fieldConfig"]["defaults"].get("unit"), UNITS, where)
                marks = [target["refId"] for target in panel["targets"]]
                self.assertGreater(len(marks), 0, where)
                self.assertEqual(len(set(marks)), len(marks), where)

    def test_units_are_those_of_what_is_shown(self):
        for query in queries(SOURCE):
            if query.unit == "bool_yes_no":
                self.assertRegex(TABLE[names(query.expression).pop()].help, "^1: ")
                continue
            with self.subTest(query.where, expression=query.expression):
                self.assertEqual(query.unit, unit_of(query.expression))

    def test_metrics_are_used_as_what_they_are(self):
        for query in queries(SOURCE):
            for name in names(query.expression):
                family = family_of(name, TABLE)
                self.assertIsNotNone(family, f"{query.where}: there is no metric {name}")
                inside = re.findall(rf"(\w*)\({name}\{{", query.expression)
                grows = [one for one in inside if one in ("rate", "increase")]
                if family.type == "gauge":
                    self.assertEqual(grows, [], f"{query.where}: the rate of a gauge, {name}")
                elif query.unit in ("ops", "Bps"):
                    self.assertGreater(len(grows), 0, f"{query.where}: {name} is a counter")
            known = {label for name in names(query.expression)
                     for label in family_of(name, TABLE).labels}
            if not names(query.expression):
                continue
            for label in re.findall(r"\{\{(\w+)\}\}", query.legend):
                self.assertIn(label, known | {"instance", "le"}, query.where)
            for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", query.expression):
                for label in group.split(", "):
                    self.assertIn(label, known | {"instance", "le"}, query.where)

    def test_expressions_pass_promtool(self):
        wanted = [query.expression for query in queries(SOURCE)]
        wanted += [one for board in boards(SOURCE).values() for one in asked_for(board)]
        self.assertEqual(check_expressions([as_asked(one) for one in wanted]), [])

    def test_each_metric_is_on_a_panel(self):
        shown = {family_of(name, TABLE).name for query in queries(SOURCE)
                 for name in names(query.expression)}
        self.assertEqual(sorted(set(TABLE) - shown), [],
                         "give them a panel in config/grafana/boards, and run generate.py")

    def test_each_panel_says_what_is_normal_and_what_to_do(self):
        for name, board in boards(SOURCE).items():
            for panel in panels(board):
                words = panel["description"]
                where = f"{name}: {panel['title']}"
                self.assertRegex(words, r"^\*\*Normal:\*\* .+\.\n\n\*\*What to do:\*\* .+\.",
                                 where)
                said = words.split("\n\n- ")[0].replace("**Normal:** ", "").replace(
                    "**What to do:** ", "")
                wrong = [message for _, message in check_text(said)
                         if "columns" not in message and "median" not in message]
                self.assertEqual(wrong, [], where)

    def test_the_provisioning_finds_what_is_installed(self):
        home = SOURCE / "config/grafana/provisioning"
        read = {part: yaml.safe_load((home / part / "simm.yml").read_text(encoding="utf-8"))
                for part in ("dashboards", "datasources")}
        folder = read["dashboards"]["providers"][0]["options"]["path"]
        rule = (SOURCE / "scripts/install.cmake").read_text(encoding="utf-8")
        self.assertIn("DESTINATION ${CMAKE_INSTALL_DATADIR}"
                      + folder.removeprefix("/usr/share") + " ", rule)
        scraped = yaml.safe_load((SOURCE / "config/prometheus.yml").read_text(encoding="utf-8"))
        source = read["datasources"]["datasources"][0]
        self.assertEqual(source["type"], "prometheus")
        self.assertEqual(source["jsonData"]["timeInterval"], scraped["global"]["scrape_interval"])

    def test_words_name_what_is_there(self):
        trouble = (SOURCE / "daemon/TROUBLESHOOTING.md").read_text(encoding="utf-8")
        commands = subprocess.run([BIN / "simmctl", "--help"], capture_output=True, text=True,
                                  check=True).stdout
        known = Words(SOURCE, commands)
        for name, board in boards(SOURCE).items():
            for panel in panels(board):
                words = panel["description"].split("\n\n- ")[0]
                where = f"{name}: {panel['title']}"
                self.assertEqual(known.unknown(words), [], where)
                for section in re.findall(r'"([^"]+)" in TROUBLESHOOTING', words):
                    self.assertIn(f"\n## {section}\n", trouble, where)
        rules = (SOURCE / "config/simm-alerts.yml").read_text(encoding="utf-8")
        self.assertEqual(known.unknown(rules), [])
        self.assertEqual(known.unknown("`wait.mood`, simmctl peer, `node.pool_bytes`"),
                         ["wait.mood", "simmctl peer"])

    def test_promtool_finds_what_is_wrong(self):
        wrong = check_expressions(["up", "sum by instance (up)"])
        self.assertIn("sum by instance (up)\n", wrong)
        status, _ = promtool("check", "rules", "rules.yml", files={"rules.yml": "groups: 1"})
        self.assertNotEqual(status, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
