"""Boards and panels as Grafana's JSON: what is the same for all of them is written here once.

A panel says in plain English what is normal and what to do. The meaning of its metrics is added
from the table of metrics.
"""
import dataclasses

from expression import BadBoard, expand, metric_of, selectors, unit_of

COLUMNS = 24  # of Grafana's grid
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
SCHEMA_VERSION = 38  # Grafana 10.0; later ones read it too
LINE_HEIGHT = 8
FIGURE_HEIGHT = 4
RED_ABOVE_0 = ((None, "green"), (1, "red"))
RED_BELOW_1 = ((None, "red"), (1, "green"))


@dataclasses.dataclass(frozen=True)
class Panel:
    """One panel. `queries` are pairs: a short expression, and the name of its series."""
    title: str
    queries: tuple
    normal: str
    act: str
    kind: str = "timeseries"
    width: int = 8
    height: int = LINE_HEIGHT
    unit: str = ""  # "": what the expressions give
    stacked: bool = False
    steps: tuple = ()  # of colours: (from, colour)
    columns: tuple = ()  # of a table: (label or "Value #A", its title, unit or "")
    maximum: float | None = None


@dataclasses.dataclass(frozen=True)
class Board:
    """One file. `rows` are pairs: a title, and its panels from left to right."""
    uid: str
    title: str
    words: str
    rows: tuple
    instances: str = "simm_ready"  # whose label `instance` can be chosen
    chosen: tuple = ()  # further labels that can be chosen: (label, metric that has it)


def lines(title, *queries, **more):
    return Panel(title, queries, **more)


def figure(title, expression, **more):
    more = {"kind": "stat", "width": 3, "height": FIGURE_HEIGHT} | more
    return Panel(title, ((expression, title),), **more)


def bars(title, expression, name, **more):
    """How much of each class, as bars beside each other."""
    return Panel(title, ((expression, name),), kind="bargauge", **more)


def heat(title, expression, **more):
    return Panel(title, ((expression, "{{le}}"),), kind="heatmap", **more)


def table(title, queries, columns, **more):
    return Panel(title, tuple((query, "") for query in queries), kind="table", columns=columns,
                 **more)


def description(panel, metrics):
    names = dict.fromkeys(metric.name for expression, _ in panel.queries
                          for _, name, _ in selectors(expression)
                          if (metric := metric_of(name, metrics)))
    meanings = [f"- `{name}`: {metrics[name].help}" for name in names]
    return "\n\n".join(part for part in (f"**Normal:** {panel.normal}",
                                         f"**What to do:** {panel.act}",
                                         "\n".join(meanings)) if part)


def unit_of_panel(panel):
    if panel.unit:
        return panel.unit
    units = {unit_of(expression) for expression, _ in panel.queries}
    if len(units) != 1:
        raise BadBoard(f"{panel.title}: its series have several units: {sorted(units)}")
    return units.pop()


def steps(panel):
    plain = ((None, "text" if panel.kind == "stat" else "blue"),)
    return [{"value": value, "color": colour} for value, colour in panel.steps or plain]


def field_config(panel):
    unit = unit_of_panel(panel)
    # Figures are rounded by Grafana, but a share in per cent has one digit.
    defaults = {"unit": unit} | ({"decimals": 1} if unit == "percentunit" else {})
    overrides = []
    if panel.kind == "timeseries":
        defaults |= {"min": 0, "custom": {
            "fillOpacity": 25 if panel.stacked else 8, "lineWidth": 1, "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"}}}
    elif panel.kind != "heatmap":
        defaults["thresholds"] = {"mode": "absolute", "steps": steps(panel)}
    if panel.kind in ("stat", "bargauge"):
        defaults |= {"color": {"mode": "thresholds"}, "min": 0}
    if panel.maximum is not None:
        defaults["max"] = panel.maximum
    for _, title, unit in panel.columns:
        if unit:
            overrides.append({"matcher": {"id": "byName", "options": title},
                              "properties": [{"id": "unit", "value": unit}]})
    return {"defaults": defaults, "overrides": overrides}


def options(panel):
    reduced = {"values": False, "calcs": ["lastNotNull"], "fields": ""}
    return {
        "timeseries": {"legend": {"displayMode": "list", "placement": "bottom", "calcs": [],
                                  "showLegend": True},
                       "tooltip": {"mode": "multi", "sort": "desc"}},
        "stat": {"reduceOptions": reduced, "colorMode": "value", "graphMode": "area",
                 "textMode": "value", "justifyMode": "auto", "orientation": "auto"},
        "bargauge": {"reduceOptions": reduced, "displayMode": "basic", "orientation": "horizontal",
                     "valueMode": "color", "showUnfilled": True},
        "heatmap": {"calculate": False, "yAxis": {"unit": unit_of_panel(panel)},
                    "color": {"mode": "scheme", "scheme": "Blues", "steps": 64, "exponent": 0.5,
                              "fill": "blue", "reverse": False},
                    "cellGap": 1, "legend": {"show": True},
                    "tooltip": {"mode": "single", "yHistogram": True}},
        "table": {"showHeader": True, "cellHeight": "sm"},
    }[panel.kind]


def transformations(panel):
    """Of a table: one row for each set of labels, the columns that are named, in their order."""
    return [{"id": "merge", "options": {}},
            {"id": "filterFieldsByName",
             "options": {"include": {"names": [name for name, _, _ in panel.columns]}}},
            {"id": "organize", "options": {
                "excludeByName": {},
                "indexByName": {name: at for at, (name, _, _) in enumerate(panel.columns)},
                "renameByName": {name: title for name, title, _ in panel.columns}}}]


def panel_json(panel, number, place, variables, metrics):
    targets = []
    for at, (expression, legend) in enumerate(panel.queries):
        target = {"refId": chr(ord("A") + at), "datasource": SOURCE,
                  "expr": expand(expression, variables, metrics)}
        if panel.kind == "table":
            target |= {"format": "table", "instant": True}
        elif panel.kind == "bargauge":
            target |= {"instant": True, "legendFormat": legend}
        else:
            target |= {"legendFormat": legend}
        if panel.kind == "heatmap":
            target["format"] = "heatmap"
        targets.append(target)
    found = {"id": number, "type": panel.kind, "title": panel.title,
             "description": description(panel, metrics), "gridPos": place, "datasource": SOURCE,
             "fieldConfig": field_config(panel), "options": options(panel), "targets": targets}
    if panel.kind == "table":
        found["transformations"] = transformations(panel)
    return found


def laid_out(rows):
    """(panel or title of a row, its place) for all, line by line; each line is filled."""
    y = 0
    for title, panels in rows:
        yield title, {"h": 1, "w": COLUMNS, "x": 0, "y": y}
        y, x, height = y + 1, 0, 0
        for panel in panels:
            if x == COLUMNS:
                y, x, height = y + height, 0, 0
            if x + panel.width > COLUMNS or (x and panel.height != height):
                raise BadBoard(f"{title}: {panel.title} does not fill its line with the others")
            yield panel, {"h": panel.height, "w": panel.width, "x": x, "y": y}
            x, height = x + panel.width, panel.height
        if x != COLUMNS:
            raise BadBoard(f"{title}: its last line has {x} of {COLUMNS} columns")
        y += height


def variable(label, query):
    return {"type": "query", "name": label, "label": label, "datasource": SOURCE,
            "query": {"query": query, "refId": label}, "definition": query,
            "refresh": 2, "sort": 1, "multi": True, "includeAll": True, "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]}}


def board_json(board, metrics):
    chosen = tuple(label for label, _ in board.chosen)
    panels = []
    for number, (panel, place) in enumerate(laid_out(board.rows), 1):
        if isinstance(panel, str):
            panels.append({"id": number, "type": "row", "title": panel, "gridPos": place,
                           "collapsed": False, "panels": []})
        else:
            panels.append(panel_json(panel, number, place, ("instance",) + chosen, metrics))
    variables = [{"type": "datasource", "name": "datasource", "label": "Prometheus",
                  "query": "prometheus"},
                 variable("job", "label_values(simm_ready, job)"),
                 variable("instance", "label_values("
                          + expand(board.instances, (), metrics) + ", instance)")]
    variables += [variable(label, "label_values("
                           + expand(metric, ("instance",), metrics) + f", {label})")
                  for label, metric in board.chosen]
    return {
        "uid": board.uid, "title": board.title, "description": board.words, "tags": ["simm"],
        "schemaVersion": SCHEMA_VERSION, "version": 1, "editable": True, "graphTooltip": 1,
        "refresh": "30s", "time": {"from": "now-6h", "to": "now"}, "timezone": "browser",
        "links": [{"type": "dashboards", "title": "SiMM", "tags": ["simm"], "asDropdown": True,
                   "icon": "external link", "tooltip": "", "url": "", "includeVars": True,
                   "keepTime": True, "targetBlank": False}],
        "annotations": {"list": [{
            "name": "Restarts", "datasource": SOURCE, "enable": True, "iconColor": "orange",
            "expr": expand("changes(process_start_time_seconds[5m]) > 0", ("instance",), metrics),
            "titleFormat": "{{instance}} was restarted", "useValueForTime": False}]},
        "templating": {"list": variables}, "panels": panels,
    }
