#!/usr/bin/env python3
"""The alerts of config/simm-alerts.yml: each fires when it should, no sooner, and says what to do.

alerts_test.py SOURCE_DIR, with config/grafana and tests/docs on PYTHONPATH. promtool decides.
"""
import json
import pathlib
import re
import sys
import unittest

import yaml
from check_words import check_text
from metric_table import family_of, read_table

from alert_cases import CASES
from dashboards import names
from prometheus_server import promtool

SOURCE = pathlib.Path(sys.argv[1])
RULES = (SOURCE / "config/simm-alerts.yml").read_text(encoding="utf-8")
ALERTS = {rule["alert"]: rule for group in yaml.safe_load(RULES)["groups"]
          for rule in group["rules"]}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
DAY_S = SECONDS["d"]
SEVERITIES = {"page", "warn"}


def seconds(duration):
    return int(duration[:-1]) * SECONDS[duration[-1]] if duration else 0


def rendered(text, case):
    """An annotation as the alert of this case has it; fails on a label that it has not."""
    text = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: case.labels[match[1]], text)
    return text.replace("{{ $value }}", case.value)


def asked(rule, at_s, expected):
    return {"eval_time": f"{at_s}s", "alertname": rule["alert"], "exp_alerts": expected}


def tests_of(case, every_s):
    """promtool's tests of one case."""
    rule = ALERTS[case.alert]
    held = seconds(rule.get("for"))
    fired = {"exp_labels": case.labels | rule["labels"],
             "exp_annotations": {name: rendered(text, case)
                                 for name, text in rule["annotations"].items()}}
    at_s = case.since + held
    questions = [asked(rule, at_s, [fired])]
    if at_s:
        questions.insert(0, asked(rule, at_s - every_s, []))
    found = [{"interval": "1m", "alert_rule_test": questions, "input_series":
              [{"series": name, "values": values} for name, values in case.fires.items()]}]
    for calm in case.calm:
        # At the moment of firing, and when everything has lasted for a while.
        times = sorted({at_s, at_s + 300, case.since, case.since + 60})
        found.append({"interval": "1m",
                      "alert_rule_test": [asked(rule, at, []) for at in times],
                      "input_series": [{"series": name, "values": values}
                                       for name, values in calm.items()]})
    return found


def said_of(case, rule=None):
    """What promtool finds wrong with the alert of this case, or with another one of its name."""
    rule = rule or ALERTS[case.alert]
    # What takes a day is looked at less often than Prometheus does: that saves minutes here.
    every_s = 15 if case.since + seconds(ALERTS[case.alert].get("for")) < DAY_S else 300
    tests = {"rule_files": ["rules.yml"], "evaluation_interval": f"{every_s}s",
             "tests": tests_of(case, every_s)}
    rules = {"groups": [{"name": "one", "rules": [rule]}]}
    status, said = promtool("test", "rules", "tests.yml",
                            files={"rules.yml": json.dumps(rules), "tests.yml": json.dumps(tests)})
    return said if status else ""


class Alerts(unittest.TestCase):
    def test_each_alert_fires_when_it_should_and_not_otherwise(self):
        self.assertEqual({case.alert for case in CASES}, set(ALERTS))
        self.assertEqual(len(CASES), len(ALERTS))
        for case in CASES:
            with self.subTest(case.alert):
                self.assertEqual(said_of(case), "")

    def test_a_threshold_a_wait_and_a_text_that_change_are_seen(self):
        case = next(case for case in CASES if case.alert == "SimmThreadSlow")
        rule = ALERTS[case.alert]
        words = rule["annotations"] | {"summary": "Turns of {{ $labels.thread }} take long"}
        for part, changed in (("expr", rule["expr"].replace("> 0.2", "> 0.5")),
                              ("expr", rule["expr"].replace("> 0.2", "> 0.1")),
                              ("for", "11m"), ("for", "9m"), ("annotations", words),
                              ("labels", {"severity": "page"})):
            self.assertNotEqual(rule[part], changed)
            self.assertIn("FAILED", said_of(case, rule | {part: changed}), f"{part}: {changed}")

    def test_expressions_name_metrics_that_daemons_show(self):
        table = read_table()
        for name, rule in ALERTS.items():
            families = [family_of(one, table) for one in names(rule["expr"])]
            self.assertNotIn(None, families, name)
            known = {label for family in families for label in family.labels}
            known |= {"job", "instance", "le"}
            for labels in re.findall(r"\{([^}]*)\}", rule["expr"]):
                for label in re.findall(r'(\w+)(?:=|!=|=~|!~)"', labels):
                    self.assertIn(label, known, name)

    def test_each_alert_says_what_to_do_and_where_more_is_written(self):
        for name, rule in ALERTS.items():
            self.assertIn(rule["labels"]["severity"], SEVERITIES, name)
            words = rule["annotations"]
            self.assertEqual(set(words), {"summary", "remedy", "runbook"}, name)
            document, section = words["runbook"].split(", ", 1)
            text = (SOURCE / "daemon" / document).read_text(encoding="utf-8")
            self.assertTrue(f"\n## {section}\n" in text, f"{name}: {document} has no {section}")
            for key in ("summary", "remedy"):
                wrong = [message for _, message in check_text(words[key] + ".")
                         if "median" not in message]
                self.assertEqual(wrong, [], f"{name}: {words[key]}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
