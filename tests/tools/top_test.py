#!/usr/bin/env python3
"""simmctl top on a terminal, in a pipe, of a cluster: top_test.py BIN_DIR. Every frame is read as a
terminal would show it; a sequence that this reader does not know is a failure."""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from free_port import free_port  # noqa: E402

BIN = pathlib.Path(sys.argv[1])
PATIENCE = 120  # seconds that anything may take on a machine with other work
# The longest that configuration takes, which takes no character that moves a cursor.
LONG = "b" + "y" * 63


class World:
    """Daemons in directories of their own: {name: (role, configuration)}."""

    def __init__(self, daemons):
        self.home = tempfile.TemporaryDirectory(prefix="simm_top_")
        self.path = pathlib.Path(self.home.name)
        self.processes = {}
        self.roles = {name: role for name, (role, _) in daemons.items()}
        subprocess.run([BIN / "simmctl", "secret", "create", self.path / "secret"], check=True)
        for name, (_, config) in daemons.items():
            (self.path / name).mkdir()
            text = json.dumps(config).replace("$HOME", str(self.path))
            config = dict(json.loads(text), run_directory=str(self.path / name))
            (self.path / f"{name}.json").write_text(json.dumps(config), encoding="utf-8")
            self.start(name)

    def start(self, name):
        with open(self.path / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                [BIN / "simmd", self.roles[name], "--config", self.path / f"{name}.json"],
                stderr=log)
        self.wait(name, "status", lambda status: True)

    def kill(self, name):
        self.processes[name].kill()
        self.processes[name].wait(PATIENCE)

    def admin(self, name):
        return str(self.path / name / "admin.sock")

    def command(self, name, *arguments):
        return [str(BIN / "simmctl"), "--admin", self.admin(name), *arguments]

    def ctl(self, name, *arguments, **how):
        return subprocess.run(self.command(name, *arguments), capture_output=True, check=False,
                              timeout=PATIENCE, **how)

    def json(self, name, *arguments):
        done = self.ctl(name, "--json", *arguments)
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def wait(self, name, report, is_so):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            done = self.ctl(name, "--json", report)
            if done.returncode == 0 and is_so(json.loads(done.stdout)):
                return
            time.sleep(0.05)
        raise AssertionError((self.path / f"{name}.log").read_text())

    def stop(self):
        for process in self.processes.values():
            process.kill()
            process.wait(PATIENCE)
        self.home.cleanup()


class Screen:
    """A terminal of some size with simmctl top in it."""

    def __init__(self, world, name, columns, rows, *arguments, **environment):
        self.master, slave = pty.openpty()
        self.columns, self.rows = columns, rows
        self.resize(columns, rows)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        environment = {**os.environ, "TERM": "xterm", **environment}
        if "NO_COLOR" not in environment:
            environment.pop("NO_COLOR", None)
        # Its controlling terminal, as under a shell: only so another size is a signal.
        self.process = subprocess.Popen(world.command(name, "top", *arguments), stdin=slave,
                                        stdout=slave, stderr=slave, env=environment,
                                        start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.cells = [""] * rows
        self.line = self.column = 0
        self.raw = b""
        self.has_paint = False
        self.is_own = False

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys):
        os.write(self.master, keys)

    def take(self, text):
        """One piece of output: an escape sequence, a control character, or text."""
        cells, line = self.cells, self.line
        if text == "\x1b[H":
            self.line = self.column = 0
        elif text == "\x1b[K":
            cells[line] = cells[line][:self.column]
        elif text == "\x1b[2J":
            self.cells = [""] * self.rows
        elif text == "\x1b[J":
            cells[line:] = [cells[line][:self.column]] + [""] * (len(cells) - line - 1)
        elif text in ("\x1b[?1049h", "\x1b[?1049l"):
            self.is_own = text.endswith("h")
        elif text == "\r":
            self.column = 0
        elif text == "\n":
            self.line += 1
            assert self.line < len(self.cells), "the screen is scrolled"
        elif re.fullmatch(r"\x1b\[\d*m", text):
            self.has_paint = True
        elif text not in ("\x1b[?25l", "\x1b[?25h"):
            assert re.fullmatch(r"[ -~]+", text), repr(text)
            cells[line] = cells[line][:self.column].ljust(self.column) + text
            self.column += len(text)

    def read(self, seconds):
        """False: nothing came. Frames are whole, because each is one write of less than a page."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            got = os.read(self.master, 1 << 16)
        except OSError:  # nobody has the other end any more
            got = b""
        self.raw += got
        while self.raw:
            piece = re.match(rb"\x1b\[\??[\d;]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+", self.raw)
            if piece is None:
                break
            self.take(piece.group().decode("ascii"))
            self.raw = self.raw[piece.end():]
        return bool(got)

    def until(self, is_so):
        """Reads until the screen is so; returns it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            while self.read(0.05):
                pass
            # What fits only the size before is not looked at.
            if len(self.cells) >= self.rows and is_so("\n".join(self.cells[:self.rows])):
                return self.cells[:self.rows]
            if self.process.poll() is not None:
                break
        raise AssertionError("\n".join(self.cells) + f"\n{self.process.poll()}")

    def grow(self, columns, rows):
        """Another size while it runs."""
        self.cells = self.cells[:rows] + [""] * (rows - len(self.cells))
        self.line = min(self.line, rows - 1)
        self.resize(columns, rows)

    def ended(self):
        """The exit code; the terminal is as it was."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.05)
        while self.read(0.05):
            pass
        return self.process.returncode

    def close(self):
        self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self.master)
        os.close(self.slave)


class OfADaemon(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = World({"d": ("all", {
            "node": {"pool_bytes": "64MiB"},
            "tenants": [{"name": "blue"}, {"name": LONG}]})})

    @classmethod
    def tearDownClass(cls):
        cls.world.stop()

    def screen(self, columns, rows, *arguments, **environment):
        screen = Screen(self.world, "d", columns, rows, *arguments, **environment)
        self.addCleanup(screen.close)
        return screen

    def test_sizes_keys_and_the_end(self):
        for columns, rows in ((80, 24), (40, 10), (200, 60)):
            screen = self.screen(columns, rows, "--interval", "0.2")
            shown = screen.until(lambda text: "simmd all" in text and "q quit" in text)
            self.assertTrue(screen.is_own and screen.has_paint)
            self.assertRegex("\n".join(shown), r"pool +\[ *\] \S+ of 64\.0M")
            for line in shown:
                self.assertLessEqual(len(line), columns)
            screen.type(b"g")
            screen.until(lambda text: "sort: got" in text)
            screen.type(b"r")
            screen.until(lambda text: "(rev" in text)
            screen.type(b"q")
            self.assertEqual(screen.ended(), 0)
            self.assertFalse(screen.is_own)
            self.assertEqual(termios.tcgetattr(screen.slave), screen.before)

    def test_another_size_while_it_runs(self):
        screen = self.screen(80, 24, "--interval", "3600")
        screen.until(lambda text: text.splitlines()[-1:] != [] and "q quit" in text)
        for columns, rows in ((40, 10), (120, 40), (80, 24)):
            screen.grow(columns, rows)
            # At once, not at the next interval.
            shown = screen.until(lambda text, rows=rows: "q quit" in text.split("\n")[rows - 1])
            self.assertLessEqual(max(map(len, shown)), columns)
        screen.process.send_signal(signal.SIGINT)
        self.assertEqual(screen.ended(), 0)
        self.assertFalse(screen.is_own)

    def test_no_colour_and_no_terminal(self):
        screen = self.screen(80, 24, "--interval", "0.1", NO_COLOR="1")
        screen.until(lambda text: "q quit" in text)
        self.assertFalse(screen.has_paint)
        done = self.world.ctl("d", "top", "--once", "--interval", "0.1")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertNotIn(b"\x1b", done.stdout)
        dumb = self.screen(80, 24, "--once", "--interval", "0.1", TERM="dumb")
        self.assertEqual(dumb.ended(), 0)
        self.assertFalse(dumb.has_paint or dumb.is_own)

    def test_a_long_name_is_cut(self):
        for columns in (40, 80):
            screen = self.screen(columns, 40, "--interval", "0.1")
            shown = screen.until(lambda text: "TENANT" in text)
            rows = [line for line in shown if line.startswith("by")]
            self.assertEqual(len(rows), 1)
            self.assertIn("y~ ", rows[0])
            self.assertLessEqual(len(rows[0]), columns)

    def test_it_ends_at_once_without_its_reader(self):
        top = subprocess.Popen(self.world.command("d", "top", "--interval", "3600"),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        # It waits now: no write would tell it that the pipe has no reader.
        top.stdout.close()
        self.assertEqual(top.wait(PATIENCE), 0)
        self.assertEqual(top.stderr.read(), b"")
        top.stderr.close()
        screen = self.screen(80, 24, "--interval", "3600")
        screen.until(lambda text: "q quit" in text)
        os.close(screen.slave)
        os.close(screen.master)
        self.assertIsNotNone(screen.process.wait(PATIENCE))
        screen.master, screen.slave = pty.openpty()  # for close()

    def test_values_of_a_quiet_daemon(self):
        look = self.world.json("d", "top", "--once", "--interval", "0.1")
        status = self.world.json("d", "status")
        for name in ("role", "pid", "version", "sessions", "pool_bytes"):
            self.assertEqual(look["daemon"][name], status[name], name)
        self.assertLessEqual(look["daemon"]["uptime_ms"], status["uptime_ms"])
        self.assertEqual(look["clients"]["sessions"], status["sessions"])
        self.assertEqual(look["pool"]["arena_bytes"], status["pool_bytes"])


class Away(unittest.TestCase):
    def test_a_daemon_that_goes_away_is_waited_for(self):
        world = World({"d": ("all", {"node": {"pool_bytes": "64MiB"}})})
        try:
            screen = Screen(world, "d", 80, 24, "--interval", "0.2")
            self.addCleanup(screen.close)
            first = f"pid {world.processes['d'].pid},"
            screen.until(lambda text: first in text)
            piped = subprocess.Popen(world.command("d", "--json", "top", "--interval", "0.2"),
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertIn("clients", json.loads(piped.stdout.readline()))
            counted = subprocess.Popen(world.command("d", "top", "--interval", "0.2", "--count",
                                                     "1000000"),
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            world.ctl("d", "status")
            world.kill("d")
            screen.until(lambda text: "waiting: " in text)
            self.assertIn(b"waiting", piped.stderr.readline())
            _, said = counted.communicate(timeout=PATIENCE)  # a count is of looks, not of hopes
            self.assertEqual(counted.returncode, 3, said)
            world.start("d")
            second = f"pid {world.processes['d'].pid},"
            screen.until(lambda text: second in text and "waiting: " not in text)
            while json.loads(piped.stdout.readline())["daemon"]["pid"] != world.processes["d"].pid:
                pass
            # One that is stopped is away too, and keys count meanwhile.
            world.processes["d"].send_signal(signal.SIGSTOP)
            screen.until(lambda text: "waiting: " in text)
            screen.type(b"q")
            self.assertEqual(screen.ended(), 0)
            world.processes["d"].send_signal(signal.SIGCONT)
            piped.stdout.close()
            self.assertEqual(piped.wait(PATIENCE), 0)
            piped.stderr.close()
        finally:
            world.stop()


class OfACluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        manager = f"127.0.0.1:{free_port()}"

        def member(name, **more):
            return {"manager": manager, "secret_file": "$HOME/secret", "node_name": name, **more}
        cls.world = World({
            "m": ("manager", {"cluster": {"secret_file": "$HOME/secret"},
                              "manager": {"listen": manager}}),
            "s": ("storage", {"node": {"pool_bytes": "64MiB"},
                              "cluster": member("store-1", listen="127.0.0.1:0")}),
            "n": ("node", {"node": {"pool_bytes": 0}, "cluster": member("node-1")})})
        cls.world.wait("n", "slots", lambda slots: slots["members"] != [])
        cls.world.wait("m", "nodes", lambda nodes: len(nodes["nodes"]) == 2)

    @classmethod
    def tearDownClass(cls):
        cls.world.stop()

    def test_all_daemons_by_the_manager_and_by_a_node(self):
        for name, arguments in (("m", ()), ("n", ("--cluster",)), ("s", ("--cluster",))):
            look = self.world.json(name, "top", "--once", "--interval", "1", *arguments)
            nodes = {row["name"]: row for row in self.world.json(name, "nodes")["nodes"]}
            self.assertEqual({row["name"] for row in look["nodes"]}, {"node-1", "store-1"})
            for row in look["nodes"]:
                same = nodes[row["name"]]
                self.assertEqual((row["role"], row["state"], row["slots"], row["pool_bytes"]),
                                 (same["role"], same["state"], same["slots"],
                                  same["weight_bytes"]))
                self.assertEqual(row["sessions"], 0)
            self.assertEqual(look["totals"]["states"], {"live": 2})
            self.assertEqual(look["totals"]["pool_bytes"], nodes["store-1"]["weight_bytes"])

    def test_what_a_node_puts_shows_at_both(self):
        top = subprocess.Popen(self.world.command("m", "--json", "top", "--interval", "0.2"),
                               stdout=subprocess.PIPE)
        sums = {"put": 0.0, "stored": 0.0}
        try:
            end = time.monotonic() + PATIENCE
            rates = [None]  # of which there are none until a daemon has told its load twice
            while None in rates and time.monotonic() < end:
                nodes = json.loads(top.stdout.readline())["nodes"]
                rates = [row["put_bytes_per_s"] for row in nodes]
            put = self.world.ctl("n", "put", "key", input=b"x" * 1_000_000)
            self.assertEqual(put.returncode, 0, put.stderr)
            while not all(sums.values()) and time.monotonic() < end:
                look = json.loads(top.stdout.readline())
                rows = {row["name"]: row for row in look["nodes"]}
                sums["put"] += rows["node-1"]["put_bytes_per_s"] or 0
                sums["stored"] += rows["store-1"]["stored_bytes_per_s"] or 0
                if any(sums.values()):
                    self.assertEqual(rows["store-1"]["put_bytes_per_s"], 0)
        finally:
            top.terminate()
            self.assertEqual(top.wait(PATIENCE), 0)
            top.stdout.close()
        self.assertTrue(all(sums.values()), sums)
        self.world.wait("m", "nodes", lambda nodes: any(row["objects"] for row in nodes["nodes"]))
        self.assertEqual(self.world.json("m", "top", "--once")["totals"]["objects"], 1)

    def test_screens(self):
        for columns, rows in ((80, 24), (40, 10)):
            screen = Screen(self.world, "m", columns, rows, "--interval", "0.2", "--sort", "used")
            self.addCleanup(screen.close)
            shown = screen.until(lambda text: "2 daemons" in text and "q quit" in text)
            text = "\n".join(shown)
            self.assertIn("*USED%", text)
            self.assertRegex(text, r"store-1 +live")
            screen.type(b"q")
            self.assertEqual(screen.ended(), 0)

    def test_in_no_cluster(self):
        world = World({"d": ("all", {"node": {"pool_bytes": "64MiB"}})})
        try:
            done = world.ctl("d", "top", "--once", "--cluster")
            self.assertEqual(done.returncode, 7)
            self.assertIn(b"cluster.manager", done.stderr)
        finally:
            world.stop()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
