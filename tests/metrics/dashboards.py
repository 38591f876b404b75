"""The dashboards in config/grafana, as tests read them: out of the files that people import."""
import dataclasses
import json
import re

NAME = re.compile(r"\b((?:simm|process)_\w+)")
# What Grafana puts in place of its variables: all of everything, and a range.
VALUES = {"__rate_interval": "1m", "job": ".*", "instance": ".*", "tenant": ".*", "member": ".*",
          "gpu": ".*"}


@dataclasses.dataclass(frozen=True)
class Query:
    """An expression with all that a panel says about what it gives."""
    where: str  # "node.json: Sessions"
    expression: str
    legend: str
    unit: str
    maximum: float | None


def boards(source):
    """{file's name: the board} of all files."""
    return {path.name: json.loads(path.read_text(encoding="utf-8"))
            for path in sorted((source / "config/grafana").glob("*.json"))}


def panels(board):
    """Panels, rows not among them."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def unit_shown(panel, target):
    """The unit of what a target gives: the panel's, or its column's in a table."""
    unit = panel["fieldConfig"]["defaults"]["unit"]
    for step in panel.get("transformations", []):
        title = step["options"].get("renameByName", {}).get(f"Value #{target['refId']}")
        for override in panel["fieldConfig"]["overrides"]:
            if title and override["matcher"]["options"] == title:
                unit = override["properties"][0]["value"]
    return unit


def queries(source):
    """All queries of all panels."""
    return [Query(f"{name}: {panel['title']}", target["expr"], target.get("legendFormat", ""),
                  unit_shown(panel, target), panel["fieldConfig"]["defaults"].get("max"))
            for name, board in boards(source).items() for panel in panels(board)
            for target in panel["targets"]]


def asked_for(board):
    """Expressions of the board outside its panels: of its variables and its annotations."""
    found = [one["expr"] for one in board["annotations"]["list"]]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            found.append(re.fullmatch(r"label_values\((.*), \w+\)", variable["definition"])[1])
    return found


def as_asked(expression):
    """The expression with values in place of its variables; fails on a variable without one."""
    return re.sub(r"\$(\w+)", lambda match: VALUES[match[1]], expression)


def names(expression):
    """Names of the series in an expression: no labels, no strings."""
    plain = re.sub(r'"[^"]*"', '""', expression)
    return set(NAME.findall(plain))


class Words:
    """Keys of the configuration and commands of simmctl, which texts name."""

    def __init__(self, source, commands):
        schema = json.loads((source / "config/simm.schema.json").read_text(encoding="utf-8"))
        self.sections = schema["properties"]
        self.commands = commands  # simmctl's help

    def keys(self, section):
        part = self.sections[section]
        return part.get("properties", {}) | part.get("items", {}).get("properties", {})

    def unknown(self, text):
        """What the text names and nothing has: `section.key`, `simmctl command`."""
        found = [f"{section}.{key}" for section, key in
                 re.findall(r"(?<![\w/.])([a-z]+)(?:\[\])?\.(?!conf\b)([a-z_]+)\b", text)
                 if section in self.sections and key not in self.keys(section)]
        return found + [f"simmctl {command}" for command in re.findall(r"simmctl (\w+)", text)
                        if not re.search(rf"(?m)^  {command}\b", self.commands)]


def unit_of(expression):
    """Grafana's unit of an expression, by the names of its series alone."""
    def part(text):
        found = names(text)
        kind = ("ratio" if any(name.endswith("_ratio") for name in found) else
                "bytes" if any(re.search(r"_bytes(_total)?$", name) for name in found) else
                "seconds" if any(re.search(r"_seconds(_sum|_total|_bucket)?$", name)
                                 for name in found) else "count")
        return kind, "rate(" in text and "_bucket" not in text

    above, _, below = as_asked(expression).partition(" / ")
    kind, per_second = part(above)
    if below:
        under, _ = part(below)
        return "percentunit" if kind == under else {"bytes": "bytes", "seconds": "s"}[kind]
    if "changes(" in above:
        return "short"
    if per_second:
        return {"bytes": "Bps", "seconds": "percentunit", "count": "ops"}[kind]
    return {"ratio": "percentunit", "bytes": "bytes", "seconds": "s", "count": "short"}[kind]
