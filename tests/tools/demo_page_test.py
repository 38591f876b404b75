#!/usr/bin/env python3
"""The demo shows the status page: to a person's browser where there is a display, and as a picture
where a headless browser is installed. Without either it says so, and is a success all the same.

demo_page_test.py SOURCE_DIR
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1]).resolve()
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# Reads what it is to open, at once, as a browser would.
OPENER = """#!/bin/sh
echo "$1" >>"$OPENED"
curl --silent --show-error --fail --max-time 20 "$1" "$1status.json" >>"$OPENED" 2>&1
"""


class DemoPage(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory(prefix="simm_demo_page_")
        self.addCleanup(home.cleanup)
        self.path = pathlib.Path(home.name)
        (self.path / "opener").mkdir()
        opener = self.path / "opener" / "xdg-open"
        opener.write_text(OPENER)
        opener.chmod(0o755)
        self.opened = self.path / "opened"

    def demo(self, path, **environment):
        """What it wrote to standard error."""
        kept = {name: value for name, value in os.environ.items()
                if name not in ("DISPLAY", "WAYLAND_DISPLAY", "SIMM_DEMO_OPEN")}
        done = subprocess.run(
            [SOURCE / "scripts/demo.sh", "--standalone"], capture_output=True, text=True,
            timeout=900, check=False,
            env={**kept, "PATH": path, "OPENED": str(self.opened), **environment})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(json.loads(done.stdout.splitlines()[-1])["bytes_wrong"], 0)
        self.assertRegex(done.stderr, r"status page, while this runs: http://127\.0\.0\.1:\d+/")
        return done.stderr

    def without_browsers(self):
        """A PATH with all programs of this one but browsers."""
        folder = self.path / "bin"
        folder.mkdir()
        for directory in os.environ["PATH"].split(":"):
            for program in pathlib.Path(directory).glob("*"):
                link = folder / program.name
                if program.name not in BROWSERS and not link.is_symlink():
                    link.symlink_to(program)
        return str(folder)

    def test_a_display_gets_the_page_and_the_end_is_a_picture(self):
        path = f"{self.path / 'opener'}:{os.environ['PATH']}"
        said = self.demo(path, DISPLAY=":0")
        address = re.search(r"while this runs: (\S+)", said)[1]
        url, *page = self.opened.read_text().splitlines()
        self.assertEqual(url, address)
        self.assertIn("<title>SiMM</title>", page)
        self.assertTrue(page[-1].startswith('{"names":false,"reports":{"status":'), page[-1])
        if not any(map(shutil.which, BROWSERS)):
            self.skipTest("no browser: apt-get install chromium-headless-shell")
        picture = pathlib.Path(re.search(r"the status page as it is now: (\S+)", said)[1])
        self.addCleanup(shutil.rmtree, picture.parent)
        data = picture.read_bytes()
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(struct.unpack(">II", data[16:24]), (1440, 2600))
        self.assertGreater(len(data), 50_000)  # a page without figures has less than half of it

    def test_without_a_display_or_a_browser_it_says_so_and_goes_on(self):
        said = self.demo(self.without_browsers())
        self.assertFalse(self.opened.exists())
        self.assertNotIn("opened in a browser", said)
        self.assertIn("apt-get install chromium-headless-shell", said)

    def test_nothing_is_opened_for_whoever_does_not_want_it(self):
        path = f"{self.path / 'opener'}:{self.without_browsers()}"
        self.assertNotIn("opened in a browser", self.demo(path, DISPLAY=":0", SIMM_DEMO_OPEN="0"))
        self.assertFalse(self.opened.exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
