#!/usr/bin/env python3
"""The units of systemd/: systemd-analyze finds no mistake in them, alone and with each drop-in, and
their exposure stays small. Skipped (77) only where there is no systemd-analyze."""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SYSTEMD = pathlib.Path(__file__).resolve().parents[2] / "systemd"
SIMMD = None
EXPOSURE_MAX = 3.0
SKIPPED = 77
# Drop-in -> the services that it is for.
DROP_INS = {
    "rdma.conf": ["simm-node", "simm-storage"],
    "adopt-root-clients.conf": ["simm-adopt"],
    "adopt-foreign.conf": ["simm-adopt"],
    "no-cluster.conf": ["simm-node"],
}
SERVICES = ["simm-adopt", "simm-manager", "simm-node", "simm-storage"]


def analyze(*arguments, unit_path):
    """Exit status and words of systemd-analyze, which finds units in `unit_path` first."""
    environment = {**os.environ, "SYSTEMD_UNIT_PATH": f"{unit_path}:"}
    done = subprocess.run(["systemd-analyze", "--no-pager", *arguments], env=environment,
                          capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


class Installed:
    """The units in a directory, with the program of this build; with a drop-in or without."""

    def __init__(self, drop_in=None):
        self._directory = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self._directory.name)
        for unit in SYSTEMD.glob("simm*.*"):
            text = unit.read_text().replace("/usr/bin/simmd", SIMMD)
            (self.path / unit.name).write_text(text)
        for service in DROP_INS.get(drop_in, []):
            (self.path / f"{service}.service.d").mkdir()
            shutil.copy(SYSTEMD / "drop-ins" / drop_in, self.path / f"{service}.service.d")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._directory.cleanup()

    def units(self):
        """Paths of all units, the template with an instance."""
        names = [p.name for p in self.path.iterdir()
                 if p.suffix in (".service", ".socket", ".target")]
        return [str(self.path / n.replace("@.", "@blue.")) for n in sorted(names)]


class Units(unittest.TestCase):
    def test_the_services_are_these(self):
        self.assertEqual(sorted(p.stem for p in SYSTEMD.glob("*.service")), SERVICES)
        self.assertEqual(sorted(p.name for p in (SYSTEMD / "drop-ins").iterdir()),
                         sorted(DROP_INS))

    def test_verify_finds_nothing(self):
        for drop_in in [None, *DROP_INS]:
            with Installed(drop_in) as installed:
                found = analyze("verify", "--man=no", "--recursive-errors=no", *installed.units(),
                                unit_path=installed.path)
                self.assertEqual(found, (0, ""), drop_in)

    def test_exposure_is_small(self):
        for drop_in in [None, *DROP_INS]:
            with Installed(drop_in) as installed:
                for service in SERVICES:
                    if drop_in and service not in DROP_INS[drop_in]:
                        continue
                    status, words = analyze(
                        "security", "--offline=yes", f"--threshold={int(EXPOSURE_MAX * 10)}",
                        str(installed.path / f"{service}.service"), unit_path=installed.path)
                    level = re.search(r"exposure level for \S+: ([0-9.]+)", words)
                    self.assertIsNotNone(level, words)
                    print(f"{service} {drop_in or ''}: exposure {level.group(1)}")
                    self.assertEqual(status, 0, words)
                    self.assertLess(float(level.group(1)), EXPOSURE_MAX)

    def test_only_the_helper_has_capabilities(self):
        for service in SERVICES:
            text = (SYSTEMD / f"{service}.service").read_text()
            bounds = re.findall(r"^CapabilityBoundingSet=(.*)$", text, re.MULTILINE)
            wanted = ""
            if service == "simm-adopt":
                wanted = "CAP_CHECKPOINT_RESTORE CAP_SETUID CAP_SETGID"
            self.assertEqual(bounds, [wanted], service)

    def test_every_setting_has_its_reason(self):
        """A comment above it, or above the block of settings that it is in."""
        plain = {"Description", "Documentation", "PartOf", "User", "Group", "ExecStart", "WantedBy",
                 "Also", "TimeoutStartSec", "TimeoutStopSec", "LimitCORE", "TasksMax",
                 "LimitNOFILE", "Service"}
        for unit in [*SYSTEMD.glob("simm*.*"), *(SYSTEMD / "drop-ins").iterdir()]:
            explained = False
            for line in unit.read_text().splitlines():
                if not line.strip():
                    explained = False
                elif line.startswith(("#", "[")):
                    explained = explained or line.startswith("#")
                elif "=" in line and line.split("=")[0] not in plain:
                    self.assertTrue(explained, f"{unit.name}: {line}")


class Accounts(unittest.TestCase):
    def test_systemd_takes_users_and_directories(self):
        """In an empty root, so that nothing of this machine is changed."""
        with tempfile.TemporaryDirectory() as root:
            for kind, target in [("sysusers", "sysusers.d"), ("tmpfiles", "tmpfiles.d")]:
                directory = pathlib.Path(root) / "usr/lib" / target
                directory.mkdir(parents=True)
                shutil.copy(SYSTEMD / f"simm.{kind}", directory / "simm.conf")
            (pathlib.Path(root) / "etc").mkdir()
            for command in [["systemd-sysusers"], ["systemd-tmpfiles", "--create"]]:
                if shutil.which(command[0]) is None or os.geteuid() != 0:
                    print(f"not tried: {command[0]} (needs root)")
                    continue
                done = subprocess.run([*command, f"--root={root}", "simm.conf"],
                                      capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            if os.geteuid() != 0:
                return
            users = (pathlib.Path(root) / "etc/passwd").read_text()
            self.assertIn("simm:", users)
            self.assertIn("simm-adopt:", users)
            self.assertIn("simm-clients:", (pathlib.Path(root) / "etc/group").read_text())
            tenants = pathlib.Path(root) / "run/simm/tenants"
            self.assertEqual(tenants.stat().st_mode & 0o777, 0o710)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--simmd", required=True)
    SIMMD = parser.parse_args().simmd
    if shutil.which("systemd-analyze") is None:
        print("SKIPPED: there is no systemd-analyze here, so nothing says whether units are right")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
