#!/usr/bin/env python3
"""simm-bench store and report: each case prints what it promises, and plots show what was printed.

store_report_test.py SIMM_BENCH: a brief run of every case of `store`, then plots of what it wrote.
Looks at no speed: CI machines are shared.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from run_quick import check_results

SIMM_BENCH = sys.argv[1]
NAMES = ("store.hit_rate", "store.index_bytes", "store.index_ops", "store.restart",
         "store.meta_bytes", "store.recovery_ops", "store.recovery_cpu", "store.efficiency",
         "store.changeover", "store.objects_ops", "store.objects_bytes")
PLOTS = ("efficiency", "changeover", "hit_rate", "ratios", "restart", "values")


def run(*arguments, environment=None):
    return subprocess.run([SIMM_BENCH, *map(str, arguments)], capture_output=True, text=True,
                          check=False, env={**os.environ, **(environment or {})})


def points_of(svg, gid):
    """[(x, y)] of the line that was drawn under this name, y upwards."""
    found = re.search(rf'<g id="{re.escape(gid)}">\s*<path d="([^"]*)"', svg)
    assert found, f"no line {gid!r}"
    numbers = [float(word) for word in re.findall(r"-?[\d.]+", found[1])]
    return [(x, -y) for x, y in zip(numbers[::2], numbers[1::2])]


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.directory = pathlib.Path(cls.home.name)
        cls.file = cls.directory / "store.jsonl"
        done = run("store", "--quick", "--json")
        assert done.returncode == 0, done.stderr
        check_results(NAMES, done.stdout.splitlines())
        cls.file.write_text("a line of progress\n" + done.stdout, encoding="utf-8")
        cls.results = [json.loads(line) for line in done.stdout.splitlines()]
        cls.svg = cls.directory / "svg"
        cls.drawn = run("report", cls.file, "-o", cls.svg, "--format", "svg")

    @classmethod
    def tearDownClass(cls):
        cls.home.cleanup()

    def named(self, name):
        return [result for result in self.results if result["name"] == name]

    def text_of(self, plot):
        return (self.svg / f"{plot}.svg").read_text(encoding="utf-8")

    def check_shape(self, drawn, values):
        """That heights are the values but for scale and place."""
        self.assertEqual(len(drawn), len(values))
        low, high = values.index(min(values)), values.index(max(values))
        if values[low] == values[high]:
            return
        scale = (drawn[high] - drawn[low]) / (values[high] - values[low])
        self.assertGreater(scale, 0)
        for height, value in zip(drawn, values):
            self.assertAlmostEqual(height, drawn[low] + scale * (value - values[low]), delta=0.01)

    def refused(self, says, *arguments, environment=None):
        done = run("report", *arguments, environment=environment)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(says, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_it_writes_a_plot_of_each_kind_and_says_where(self):
        self.assertEqual(self.drawn.returncode, 0, self.drawn.stderr)
        expected = {str(self.svg / f"{plot}.svg") for plot in PLOTS}
        self.assertEqual(set(self.drawn.stdout.split()), expected)
        self.assertEqual({str(path) for path in self.svg.iterdir()}, expected)

    def test_hit_rates_are_drawn_as_printed(self):
        svg = self.text_of("hit_rate")
        for cold, suffix in ((True, "cold"), (False, "warm")):
            rows = [row for row in self.named("store.hit_rate")
                    if row["params"]["cold_misses"] is cold]
            heights, values = [], []
            for policy in ("reuse", "lru", "fifo"):
                mine = [row for row in rows if row["params"]["policy"] == policy]
                self.assertEqual(len(mine), 6)
                heights += [y for _, y in points_of(svg, f"{policy} {suffix}")]
                values += [row["value"] for row in mine]
            heights += [y for _, y in points_of(svg, f"belady {suffix}")]
            values += [row["baseline"] for row in mine]
            self.check_shape(heights, values)

    def test_change_overs_are_drawn_as_printed(self):
        svg = self.text_of("changeover")
        rows = self.named("store.changeover")
        self.assertEqual([row["params"]["to"] for row in rows],
                         ["dsa_both", "page_of_1_token_20k", "mamba_72m", "deepseek_mla"])
        heights, values = [], []
        for row in rows:
            heights += [y for _, y in points_of(svg, f"efficiency store {row['params']['to']}")]
            values += row["params"]["timeline"]["efficiency"]
            self.assertIn(row["params"]["from"], svg)
        self.check_shape(heights, values)

    def test_a_change_over_adds_up(self):
        for before, row in zip([None, *self.named("store.changeover")],
                               self.named("store.changeover")):
            params, line = row["params"], row["params"]["timeline"]
            if before:
                self.assertEqual(params["from"], before["params"]["to"])
            # In the end the new model has everything: nobody uses the old one.
            self.assertGreater(line["new_bytes"][-1], 0.75 * params["arena_bytes"])
            self.assertLess(line["new_bytes"][0], 0.25 * params["arena_bytes"])
            self.assertAlmostEqual(row["value"], sum(line["efficiency"][-8:]) / 8)
            self.assertGreater(row["value"], 0.75)
            self.assertLessEqual(params["worst"], min(line["efficiency"]))
            self.assertEqual(max(line["stranded_bytes"]), params["stranded_bytes_max"])
            for stranded, short in zip(line["stranded_bytes"], line["short_hole_bytes"]):
                self.assertLessEqual(stranded, short)

    def test_efficiency_has_a_mark_for_each_size(self):
        svg = self.text_of("efficiency")
        rows = self.named("store.efficiency")
        for row in rows:
            self.assertIn(row["params"]["sizes"], svg)
        marks = re.search(r'<g id="worst store">.*?</g>\s*</g>', svg, re.S)[0]
        self.assertEqual(len(re.findall("<use ", marks)), len(rows))

    def test_png(self):
        done = run("report", self.file, "--out", self.directory / "png")
        self.assertEqual(done.returncode, 0, done.stderr)
        written = done.stdout.split()
        self.assertEqual(len(written), len(PLOTS))
        for path in written:
            self.assertEqual(pathlib.Path(path).read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_what_is_no_result_is_an_error_with_its_place(self):
        bad = self.directory / "bad.jsonl"
        whole = json.dumps(self.named("store.hit_rate")[0])
        out = self.directory / "none"
        for second, says in (
                (whole[:-20], f"{bad}:2: not JSON"),
                ("{}", f"{bad}:2: field 'name'"),
                (whole.replace('"policy"', '"police"'), f"{bad}:2: field 'policy'"),
                (re.sub(r'"value": [^,}]*', '"value": true', whole), f"{bad}:2: field 'value'"),
                (re.sub(r'"baseline": [^,]*', '"baseline": null', whole), "without a baseline")):
            bad.write_text(f"{whole}\n{second}\n", encoding="utf-8")
            self.refused(says, bad, "-o", out)
        row = self.named("store.changeover")[0]
        row["params"]["timeline"]["efficiency"].pop()
        bad.write_text(json.dumps(row), encoding="utf-8")
        row["params"]["timeline"]["efficiency"].append(row["value"])
        self.refused("not equally long", bad, "-o", out)
        bad.write_text("name value\n", encoding="utf-8")
        self.refused("no results", self.file, bad, "-o", out)
        bad.write_bytes(b"{\xff\xfe}\n")
        self.refused("can not be read", bad, "-o", out)
        self.refused("no_such_file", self.directory / "no_such_file", "-o", out)
        self.assertFalse(out.exists())
        self.refused("can not write", self.file, "-o", self.file)

    def test_without_matplotlib_it_names_the_package(self):
        (self.directory / "matplotlib.py").write_text("raise ImportError('not here')\n",
                                                      encoding="utf-8")
        self.refused("apt-get install python3-matplotlib", self.file, "-o", self.directory / "no",
                     environment={"PYTHONPATH": str(self.directory)})

    def test_one_case_alone(self):
        done = run("store", "--quick", "--json", "--case", "objects", "--objects", 2000)
        self.assertEqual(done.returncode, 0, done.stderr)
        results = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual({result["name"] for result in results},
                         {"store.objects_ops", "store.objects_bytes"})
        self.assertEqual({result["params"]["objects"] for result in results}, {2000})
        self.assertEqual({result["params"].get("operation") for result in results},
                         {"insert", "exists", "read", "miss", "evict_and_insert", None})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
