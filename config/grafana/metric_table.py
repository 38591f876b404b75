"""The table of metrics in OBSERVABILITY.md, which a test compares with real daemons."""
import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "daemon/OBSERVABILITY.md"
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([\w, ]*) \| (.*) \|$", re.M)


@dataclasses.dataclass(frozen=True)
class Metric:
    """A family of the metrics page."""
    name: str
    type: str  # counter, gauge or histogram
    labels: tuple
    help: str


def read_table(document=DOCUMENT):
    """{name: Metric} of all metrics that a daemon can show."""
    section = document.read_text(encoding="utf-8").split("### All metrics\n")[1].split("\n## ")[0]
    return {name: Metric(name, kind, tuple(re.findall(r"\w+", labels)), words)
            for name, kind, labels, words in ROW.findall(section)}


def family_of(name, table):
    """The metric that a series of this name belongs to; a histogram has three. Or None."""
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    if base in table and table[base].type == "histogram":
        return table[base]
    return table.get(name)
