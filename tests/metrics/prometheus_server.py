"""Debian's Prometheus and its promtool, for tests."""
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request

from cluster import free_port


class Prometheus:
    """A server with the configuration (a dict, as YAML has it) and copies of rule files."""

    def __init__(self, config, rules=()):
        self.home = tempfile.TemporaryDirectory(prefix="simm_prometheus_")
        home = pathlib.Path(self.home.name)
        for path in rules:
            shutil.copy(path, home)
        (home / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
        self.where = f"127.0.0.1:{free_port()}"
        with open(home / "log", "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={home}/prometheus.yml",
                 f"--storage.tsdb.path={home}/data", f"--web.listen-address={self.where}"],
                stderr=log)

    def ask(self, path, **arguments):
        """The data of an answer; None while the server is not there yet."""
        url = f"http://{self.where}/api/v1/{path}?" + urllib.parse.urlencode(arguments)
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as refusal:
            if refusal.code == 503:  # it reads its files still
                return None
            raise AssertionError(f"{arguments}: {refusal.read().decode()}") from refusal
        except OSError:
            return None

    def rules(self):
        """The groups of rules, with their health and their alerts."""
        return (self.ask("rules") or {"groups": []})["groups"]

    def query(self, expression):
        """[(labels, value)] of an instant query; None while the server is not there yet."""
        found = self.ask("query", query=expression)
        if found is None:
            return None
        if found["resultType"] == "scalar":
            return [({}, float(found["result"][1]))]
        return [(one["metric"], float(one["value"][1])) for one in found["result"]]

    def values(self, expression):
        return sorted(value for _, value in self.query(expression) or [])

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=20)
        self.home.cleanup()


def promtool(*arguments, files):
    """What promtool says with the files, {name: text}, in its directory: (exit status, text)."""
    with tempfile.TemporaryDirectory(prefix="simm_promtool_") as home:
        for name, text in files.items():
            pathlib.Path(home, name).write_text(text, encoding="utf-8")
        done = subprocess.run(["promtool", *arguments], cwd=home, capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout + done.stderr


def check_expressions(expressions):
    """What promtool says against those expressions, a line each; one that it names by its text."""
    rules = [{"record": f"expression:number{at}", "expr": text}
             for at, text in enumerate(expressions)]
    status, said = promtool("check", "rules", "rules.yml", files={
        "rules.yml": json.dumps({"groups": [{"name": "expressions", "rules": rules}]})})
    if status == 0:
        return []
    wrong = sorted({int(at) for at in re.findall(r'expression:number(\d+)"', said)})
    return [f"{expressions[at]}\n" for at in wrong] + [said]
