"""PromQL as the boards write it: short, because what every query needs is added here.

A selector gets the matchers of the board's variables, as far as its metric has those labels. A rate
without a range gets Grafana's. So `sum(rate(simm_pages_total{op="get"}))` stands for
`sum(rate(simm_pages_total{job=~"$job",instance=~"$instance",op="get"}[$__rate_interval]))`.
"""
import re

from metric_table import family_of

SELECTOR = re.compile(r"(?<![\w$])((?:simm_|process_)\w+|up|ALERTS)\b(\{[^}]*\})?(\[\w+\])?")
RATE = re.compile(r"(rate|increase|changes)\($")
UNIT_OF_END = (("_bytes", "bytes"), ("_seconds", "s"), ("_ratio", "percentunit"))
PER_SECOND = {"bytes": "Bps", "s": "percentunit", "short": "ops"}
RANGE = "$__rate_interval"


class BadBoard(Exception):
    """A board that says something about metrics that is not so."""


def selectors(text):
    """(match, name of the metric, function of its range or None) for each selector."""
    for match in SELECTOR.finditer(text):
        function = RATE.search(text[:match.start()])
        yield match, match[1], function and function[1]


def metric_of(name, table):
    metric = family_of(name, table)
    if metric is None and name not in ("up", "ALERTS"):
        raise BadBoard(f"{name}: no such metric in OBSERVABILITY.md")
    return metric


def expand(text, variables, table):
    """The whole expression; `variables` are the names of labels that the board can choose."""
    parts, end = [], 0
    for match, name, function in selectors(text):
        metric = metric_of(name, table)
        labels = ("instance",) + (metric.labels if metric else ())
        matchers = ['job=~"$job"'] + [f'{label}=~"${label}"' for label in variables
                                      if label in labels]
        if name == "ALERTS":
            matchers = []
        given = (match[2] or "{}")[1:-1]
        inside = ",".join(matchers + ([given] if given else []))
        span = match[3] or (f"[{RANGE}]" if function else "")
        parts += [text[end:match.start()], name, "{", inside, "}" if inside else "", span]
        if not inside:
            parts.remove("{")
        end = match.end()
    return "".join([*parts, text[end:]])


def unit_of_selector(name, function):
    base = re.sub(r"_(bucket|sum|count)$", "", name) if name.endswith(
        ("_seconds_bucket", "_seconds_sum")) else name
    base = base.removesuffix("_total")
    unit = next((unit for end, unit in UNIT_OF_END if base.endswith(end)), "short")
    return PER_SECOND[unit] if function == "rate" and not name.endswith("_bucket") else unit


def unit_of(text):
    """Grafana's unit of what a short expression gives. A quotient has to say its own."""
    units = {unit_of_selector(name, function) for _, name, function in selectors(text)}
    if "/" in text or len(units) != 1:
        raise BadBoard(f"{text}: give the panel its unit")
    return units.pop()
