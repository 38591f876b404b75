#!/usr/bin/env python3
"""The completion for bash: completion_test.py BIN_DIR SCRIPT. bash itself runs it."""
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest

from manual_test import commands_of

BIN, SCRIPT = sys.argv[1:3]
PROGRAMS = ("simmctl", "simmd", "simm-bench")
# Sets COMP_WORDS as bash does for a cursor behind the last word, and prints what it would offer.
DRIVER = """
. {script}
ask() {{
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _simm
  printf '%s\\t' "${{COMPREPLY[@]}}"
  echo
}}
"""


def offers(questions, directory="."):
    """The set of words offered for each command line, whose last word is the unfinished one."""
    script = DRIVER.format(script=shlex.quote(SCRIPT))
    for program, *words in questions:
        script += "ask " + " ".join(shlex.quote(w) for w in [f"{BIN}/{program}", *words]) + "\n"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True,
                          cwd=directory)
    assert not done.stderr, done.stderr
    return [set(line.split("\t")) - {""} for line in done.stdout.splitlines()]


class Completion(unittest.TestCase):
    def test_every_command_and_option(self):
        for program in PROGRAMS:
            commands = commands_of(program)
            paths = list(commands)
            options = offers([(program, *path, "--") for path in paths])
            for path, offered in zip(paths, options):
                expected = commands[path] | commands[()]
                self.assertEqual(offered - {"--help"}, expected, (program, path))
            for path, offered in zip(paths, offers([(program, *path, "") for path in paths])):
                below = {p[len(path)] for p in commands
                         if len(p) == len(path) + 1 and p[:len(path)] == path}
                if below:
                    self.assertEqual(offered, below, (program, path))

    def test_the_word_that_was_begun(self):
        self.assertEqual(offers([("simmctl", "ses"), ("simmctl", "config", "ch"),
                                 ("simmctl", "sessions", "--end")]),
                         [{"sessions"}, {"check"}, {"--ended"}])

    def test_values(self):
        self.assertEqual(offers([("simmctl", "log", "w"), ("simm-bench", "replay", "--model", "d"),
                                 ("simmctl", "config", "check", "st")]),
                         [{"warning"}, {"deepseek-r1"}, {"storage"}])

    def test_files_where_a_file_is_meant(self):
        with tempfile.TemporaryDirectory() as directory:
            (pathlib.Path(directory) / "page.bin").touch()
            self.assertEqual(offers([("simmctl", "put", "--in", "pa"), ("simmd", "--config", "pa"),
                                     ("simmctl", "secret", "check", "pa")], directory),
                             [{"page.bin"}] * 3)

    def test_a_program_that_is_not_there_offers_nothing(self):
        self.assertEqual(offers([("simm-nothing", "x")]), [set()])

    def test_it_is_registered(self):
        done = subprocess.run(["bash", "-c", f". {shlex.quote(SCRIPT)}; complete -p"],
                              capture_output=True, text=True, check=True)
        for program in PROGRAMS:
            self.assertIn(f"complete -F _simm {program}", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
