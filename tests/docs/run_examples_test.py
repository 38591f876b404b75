#!/usr/bin/env python3
"""What run_examples.py runs, what it only shows, and that a failing example is found."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

RUNNER = pathlib.Path(__file__).with_name("run_examples.py")


def run(text):
    """(exit status, output) of the runner for a document of that text."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "document.md"
        path.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, RUNNER, "--bin", directory, "--timeout", "2", path],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


class RunExamples(unittest.TestCase):
    def test_blocks_share_a_shell_and_comments_count(self):
        code, said = run("a\n<!-- sh\nx=7\n-->\n```sh\ntest $x = 7\n```\n")
        self.assertEqual((code, "2 blocks" in said), (0, True), said)

    def test_other_languages_are_shown_only(self):
        code, said = run("```text\n```sh\nfalse\n```\n```sh\ntrue\n```\n```console\nfalse\n```\n")
        self.assertEqual((code, "1 blocks" in said), (0, True), said)

    def test_a_failing_block_is_named_by_its_line(self):
        code, said = run("```sh\ntrue\n```\n\n```sh\necho why; false | cat\n```\n")
        self.assertEqual(code, 1)
        self.assertIn("document.md:6", said)
        self.assertIn("why", said)

    def test_a_block_that_ends_the_shell_is_no_success(self):
        self.assertEqual(run("```sh\nexit 0\n```\n```sh\ntrue\n```\n")[0], 1)

    def test_a_document_without_examples_is_an_error(self):
        self.assertEqual(run("nothing\n")[0], 1)

    def test_what_hangs_is_ended(self):
        code, said = run("```sh\nsleep 100\n```\n")
        self.assertEqual((code, "no end in time" in said), (1, True), said)

    def test_what_was_left_running_is_ended(self):
        with tempfile.TemporaryDirectory() as directory:
            pid_file = f"{directory}/pid"
            code, said = run(f"```sh\nsleep 100 &\necho $! > {pid_file}\n```\n")
            self.assertEqual(code, 0, said)
            pid = pathlib.Path(pid_file).read_text(encoding="utf-8").strip()
            state = pathlib.Path(f"/proc/{pid}/stat")
            self.assertTrue(not state.exists() or ") Z " in state.read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
