#!/usr/bin/env python3
"""Every example in config/ is one that its role takes, and that the committed schema allows."""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = sorted(p for p in (ROOT / "config").glob("*.json") if p.name != "simm.schema.json")
SIMMD = None


def without_comments(text):
    """JSON without // and /* */ comments; strings are left as they are."""
    tokens = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
    return tokens.sub(lambda m: m.group() if m.group().startswith('"') else " ", text)


def check(role, path):
    """What `simmd ROLE --check-config` makes of a file: (exit status, words)."""
    done = subprocess.run([SIMMD, role, "--check-config", "--config", str(path)],
                          capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


class Examples(unittest.TestCase):
    def test_there_is_one_for_each_role(self):
        self.assertEqual([e.stem for e in EXAMPLES], ["all", "manager", "node", "storage"])

    def test_its_role_takes_it(self):
        for example in EXAMPLES:
            self.assertEqual(check(example.stem, example), (0, ""), example.name)
        # The helper reads the node's.
        self.assertEqual(check("adopt", ROOT / "config" / "node.json"), (0, ""))

    def test_the_schema_allows_it(self):
        schema = json.loads((ROOT / "config" / "simm.schema.json").read_text())
        validator = jsonschema.Draft202012Validator(schema)
        for example in EXAMPLES:
            value = json.loads(without_comments(example.read_text()))
            self.assertEqual([e.message for e in validator.iter_errors(value)], [], example.name)

    def test_examples_that_are_commented_out_hold_as_well(self):
        """A line that is all comment and begins like JSON is meant to be used."""
        used = 0
        for example in EXAMPLES:
            text = re.sub(r'^(\s*)//\s*(?=["{,])', r"\1", example.read_text(), flags=re.MULTILINE)
            used += text != example.read_text()
            with tempfile.NamedTemporaryFile("w", suffix=example.name) as scratch:
                scratch.write(text)
                scratch.flush()
                self.assertEqual(check(example.stem, scratch.name), (0, ""), example.name)
        self.assertGreaterEqual(used, 2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--simmd", required=True)
    SIMMD = parser.parse_args().simmd
    unittest.main(argv=sys.argv[:1])
