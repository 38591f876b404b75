#!/usr/bin/env python3
"""Turns result files of simm-bench (--json lines, and the last line of replay) into plots.

usage: report.py OUTPUT_DIRECTORY png|svg RESULT_FILE...

efficiency   payload over all memory of a full store, by sizes of the objects
changeover   a store that goes over from one model's pages to another's
hit_rate     by size of the cache: each eviction policy and the optimal one
restart      how long until the first object of a full store is there again
replay       hit rate beside the best possible one, and fetch times, per file and model
course       hit rate and bytes of a replay over its time, per file and model
ratios       value / baseline of all other figures that have a baseline
values       all other figures, a panel per unit
Each is drawn when there is something to draw. Lines that do not begin with a brace (tables,
progress) are skipped; one that does and is no result is an error. Prints the files it wrote.
"""
import collections
import json
import math
import pathlib
import sys

PARAMS_SHOWN = ("operation", "path", "wait", "attacker_priority", "page_bytes",
                "working_set_bytes", "object_bytes", "objects", "entries", "ranks", "processes",
                "threads")
FIELDS = {"name": str, "value": (int, float), "unit": str, "params": dict}
# Figures with a plot of their own, and the parameters that it needs.
PARAMS_NEEDED = {
    "store.efficiency": {"sizes": str, "worst": (int, float)},
    "store.changeover": {"from": str, "to": str, "timeline": dict},
    "store.hit_rate": {"policy": str, "cache_part": (int, float), "cold_misses": bool,
                       "trace": str},
    "store.restart": {"object_bytes": int, "arena_bytes": int},
    "store.meta_bytes": {"object_bytes": int},
}
REPLAY_FIELDS = {"model": str, "hit_rate": (int, float), "best_hit_rate": (int, float),
                 "fetch_p50_us": (int, float), "fetch_p99_us": (int, float)}
TIMELINE = ("put_arenas", "efficiency", "stranded_bytes", "short_hole_bytes", "new_bytes",
            "evictions_per_put")
GIB = 1 << 30


class BadInput(Exception):
    """What is wrong with a result file, and where."""


def need(fields, of, where):
    for field, kind in fields.items():
        value = of.get(field)
        wrong_bool = isinstance(value, bool) and kind is not bool
        if not isinstance(value, kind) or wrong_bool or value in (math.inf, -math.inf):
            raise BadInput(f"{where}: field {field!r} is missing or not what simm-bench writes")


def check_result(entry, where):
    need(FIELDS, entry, where)
    baseline = entry.get("baseline")
    if baseline is not None:
        need({"baseline": (int, float), "ratio": (int, float, type(None))}, entry, where)
    need(PARAMS_NEEDED.get(entry["name"], {}), entry["params"], where)
    if entry["name"] in ("store.hit_rate", "store.changeover") and baseline is None:
        raise BadInput(f"{where}: {entry['name']} without a baseline")
    if entry["name"] == "store.changeover":
        timeline = entry["params"]["timeline"]
        need({name: list for name in TIMELINE}, timeline, where)
        if len({len(timeline[name]) for name in TIMELINE}) != 1 or not timeline[TIMELINE[0]]:
            raise BadInput(f"{where}: the series of the timeline are not equally long")


def read_file(path, results, replays):
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as wrong:
        raise BadInput(f"{path}: can not be read: {wrong}") from wrong
    before = len(results) + len(replays)
    for number, line in enumerate(lines, 1):
        if not line.startswith("{"):
            continue
        where = f"{path}:{number}"
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as wrong:
            raise BadInput(f"{where}: not JSON ({wrong.msg} in column {wrong.colno}): "
                           "is the line cut short?") from wrong
        if "best_hit_rate" in entry:
            models = entry.get("models", [])
            for model in models:
                need(REPLAY_FIELDS, model, where)
                if "course" in model:
                    need({"course": dict, "seconds": (int, float)}, model, where)
                    need({"hit_rate": list, "bytes_per_s": list}, model["course"], where)
            replays += [(path.stem, model) for model in models]
        else:
            check_result(entry, where)
            results.append({"ratio": None, "baseline": None, **entry, "file": path.stem})
    if len(results) + len(replays) == before:
        raise BadInput(f"{path}: no results: write them with simm-bench --json")


def by_file(results):
    """The results of each file, in the order of the files."""
    found = collections.OrderedDict()
    for result in results:
        found.setdefault(result["file"], []).append(result)
    return found


def label_of(result):
    params = result["params"]
    # A parameter of the same name may be a table, which is too long for a label.
    shown = [f"{key}={params[key]}" for key in PARAMS_SHOWN
             if isinstance(params.get(key), (str, int, float))]
    return result["name"] + ("\n" + " ".join(shown) if shown else "")


def size_text(count):
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            break
        count /= 1024
    else:
        unit = "GiB"
    return f"{count:.3g} {unit}"


def number_text(value):
    for unit in ("", " k", " M"):
        if abs(value) < 1000:
            break
        value /= 1000
    else:
        unit = " G"
    return f"{value:.4g}{unit}"


class Plots:
    """Draws into a directory. pyplot comes from outside: it may not be there."""

    def __init__(self, pyplot, directory, form):
        self.pyplot, self.directory, self.form = pyplot, directory, form

    def save(self, figure, name):
        path = self.directory / f"{name}.{self.form}"
        figure.tight_layout()
        figure.savefig(path, dpi=120)
        self.pyplot.close(figure)
        print(path)

    @staticmethod
    def bars(axes, labels, values, title):
        places = range(len(values))
        axes.barh(places, values)
        axes.set_yticks(places)
        axes.set_yticklabels(labels, fontsize=7)
        axes.invert_yaxis()
        axes.set_title(title, fontsize=9)
        for place, value in zip(places, values):
            axes.text(value, place, f" {number_text(value)}", va="center", fontsize=7)
        axes.margins(x=0.15)
        axes.set_xlim(left=0)
        axes.tick_params(axis="x", labelsize=7)
        axes.xaxis.set_major_formatter(lambda value, _: number_text(value))

    def efficiency(self, results):
        files = by_file(results)
        names = list(dict.fromkeys(row["params"]["sizes"] for row in results))
        figure, axes = self.pyplot.subplots(figsize=(8, 1.5 + 0.35 * len(names) * len(files)))
        height = 0.8 / len(files)
        least = 100
        for number, (stem, rows) in enumerate(files.items()):
            places = [names.index(row["params"]["sizes"]) + height * number for row in rows]
            means = [100 * row["value"] for row in rows]
            worst = [100 * row["params"]["worst"] for row in rows]
            axes.barh(places, means, height=height * 0.9, label=f"{stem}: mean")
            axes.plot(worst, places, "k|", markersize=9, label=f"{stem}: worst moment",
                      gid=f"worst {stem}")
            for place, mean in zip(places, means):
                axes.text(mean, place, f" {mean:.1f}", va="center", fontsize=7)
            least = min([least, *worst])
        axes.set_yticks([place + 0.4 - height / 2 for place in range(len(names))])
        axes.set_yticklabels(names, fontsize=7)
        axes.invert_yaxis()
        axes.set_xlim(max(0, math.floor(least) - 2), 101)
        axes.set_xlabel("payload bytes over all memory of a full store, percent")
        axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1))
        self.save(figure, "efficiency")

    def changeover(self, results):
        files = by_file(results)
        figure, panels = self.pyplot.subplots(3, len(files), sharex="col", squeeze=False,
                                              figsize=(max(8, 6 * len(files)), 8))
        for column, (stem, rows) in zip(panels.T, files.items()):
            self.changeover_column(column, stem, rows)
        self.save(figure, "changeover")

    @staticmethod
    def changeover_column(column, stem, rows):
        start = 0.0
        for row in rows:
            params, line = row["params"], row["params"]["timeline"]
            at = [start + arenas for arenas in line["put_arenas"]]
            first = row is rows[0]
            shares = [100 * share for share in line["efficiency"]]
            column[0].plot(at, shares, "C0", gid=f"efficiency {stem} {params['to']}",
                           label="of all memory" if first else None)
            column[0].plot([start, at[-1]], [100 * row["baseline"]] * 2, "k:",
                           label="a store that held nothing else" if first else None)
            column[0].text(start, 1.01, f" {params['from']} →\n {params['to']}", fontsize=6,
                           va="bottom", transform=column[0].get_xaxis_transform())
            column[1].plot(at, [count / GIB for count in line["new_bytes"]], "C2",
                           label="pages of the new model" if first else None)
            column[1].plot(at, [count / GIB for count in line["short_hole_bytes"]], "C4",
                           label="in holes too short for the longest" if first else None)
            column[1].plot(at, [count / GIB for count in line["stranded_bytes"]], "C3",
                           label="in holes too short for any" if first else None)
            column[2].plot(at, line["evictions_per_put"], "C1")
            for axes in column:
                axes.axvline(start, color="grey", linewidth=0.8)
            start = at[-1]
        column[0].set_ylabel("payload, percent")
        column[0].set_title(stem, fontsize=9, pad=18)
        column[1].set_ylabel("GiB")
        column[2].set_ylabel("objects evicted per put")
        column[2].set_yscale("symlog", linthresh=1)
        column[2].set_ylim(bottom=0)
        column[2].set_xlabel("arenas' worth of puts")
        for axes in column[:2]:
            axes.legend(fontsize=7, loc="lower right")

    def hit_rate(self, results):
        traces = collections.OrderedDict()
        for row in results:
            traces.setdefault((row["file"], row["params"]["trace"]), []).append(row)
        figure, panels = self.pyplot.subplots(len(traces), 2, figsize=(11, 4 * len(traces)),
                                              squeeze=False)
        for pair, ((stem, trace), rows) in zip(panels, traces.items()):
            for axes, cold in zip(pair, (True, False)):
                self.hit_rate_panel(axes, [r for r in rows if r["params"]["cold_misses"] == cold],
                                    "cold" if cold else "warm")
                axes.set_title(f"{stem}, {trace} trace: " + (
                    "of all look-ups" if cold else "without blocks never seen before"), fontsize=9)
        self.save(figure, "hit_rate")

    @staticmethod
    def hit_rate_panel(axes, rows, suffix):
        lines = collections.OrderedDict(belady={})
        for row in rows:
            params = row["params"]
            lines["belady"][params["cache_part"]] = row["baseline"]
            lines.setdefault(params["policy"], {})[params["cache_part"]] = row["value"]
        for name, points in lines.items():
            parts = sorted(points)
            optimal = name == "belady"
            axes.plot([100 * part for part in parts], [100 * points[part] for part in parts],
                      "k:" if optimal else "-o", markersize=3, gid=f"{name} {suffix}",
                      label="optimal (Belady)" if optimal else name)
        axes.set_xscale("log")
        ticks = [100 * part for part in sorted(lines["belady"])]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
        axes.set_xticks([], minor=True)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("cache, percent of the unique blocks")
        axes.set_ylabel("prefix hits, percent")
        axes.legend(fontsize=7)

    def restart(self, results):
        figure, panels = self.pyplot.subplots(1, 2, figsize=(10, 2 + 0.4 * len(results)))
        for axes, name, title in zip(panels, ("store.restart", "store.meta_bytes"),
                                     ("seconds until the first object is there again",
                                      "bytes of metadata table per object")):
            rows = [row for row in results if row["name"] == name]
            labels = [f"{row['file']}\nobjects of {size_text(row['params']['object_bytes'])}"
                      + (f", arena of {size_text(row['params']['arena_bytes'])}"
                         if "arena_bytes" in row["params"] else "") for row in rows]
            self.bars(axes, labels, [row["value"] for row in rows], title)
        self.save(figure, "restart")

    def replay(self, rows):
        names = [f"{stem}\n{model['model']}" for stem, model in rows]
        figure, panels = self.pyplot.subplots(1, 2, figsize=(10, 2 + 0.6 * len(rows)))
        labels = [f"{name} {what}" for name in names for what in ("hit rate", "best possible")]
        rates = [100 * model[key] for _, model in rows for key in ("hit_rate", "best_hit_rate")]
        self.bars(panels[0], labels, rates, "hit rate, percent")
        labels = [f"{name} {what}" for name in names for what in ("p50", "p99")]
        times = [model[key] for _, model in rows for key in ("fetch_p50_us", "fetch_p99_us")]
        self.bars(panels[1], labels, times, "fetch of up to 128 pages, us")
        self.save(figure, "replay")

    def course(self, rows):
        """Of those that have one: simm.replay writes none."""
        figure, panels = self.pyplot.subplots(2, 1, figsize=(8, 6), sharex=True)
        for stem, model in rows:
            course, label = model["course"], f"{stem} {model['model']}"
            seconds = [model["seconds"] * (i + 1) / len(course["hit_rate"])
                       for i in range(len(course["hit_rate"]))]
            panels[0].plot(seconds, [100 * rate for rate in course["hit_rate"]], label=label)
            panels[1].plot(seconds, [rate / 1e9 for rate in course["bytes_per_s"]], label=label)
        panels[0].set_ylabel("hit rate, percent")
        panels[1].set_ylabel("moved, GB/s")
        panels[1].set_xlabel("seconds")
        panels[0].legend(fontsize="small")
        self.save(figure, "course")

    def ratios(self, rows):
        figure, axes = self.pyplot.subplots(figsize=(8, 1 + 0.5 * len(rows)))
        self.bars(axes, [label_of(row) for row in rows], [row["ratio"] for row in rows],
                  "value / baseline")
        axes.axvline(1, color="grey", linewidth=0.8)
        self.save(figure, "ratios")

    def values(self, results):
        units = list(dict.fromkeys(result["unit"] for result in results))
        counts = [sum(result["unit"] == unit for result in results) for unit in units]
        figure, panels = self.pyplot.subplots(
            len(units), figsize=(8, 1 + sum(counts) * 0.5 + len(units)), squeeze=False,
            gridspec_kw={"height_ratios": counts})
        for axes, unit in zip(panels[:, 0], units):
            rows = [result for result in results if result["unit"] == unit]
            self.bars(axes, [label_of(row) for row in rows], [row["value"] for row in rows], unit)
        self.save(figure, "values")

    def draw(self, results, replays):
        def named(*names):
            return [result for result in results if result["name"] in names]
        others = [result for result in results if result["name"] not in PARAMS_NEEDED]
        for plot, rows in ((self.efficiency, named("store.efficiency")),
                           (self.changeover, named("store.changeover")),
                           (self.hit_rate, named("store.hit_rate")),
                           (self.restart, named("store.restart", "store.meta_bytes")),
                           (self.replay, replays),
                           (self.course, [row for row in replays if "course" in row[1]]),
                           (self.ratios, [row for row in others if row["ratio"] is not None]),
                           (self.values, others)):
            if rows:
                plot(rows)


def load_pyplot():
    try:
        import matplotlib  # pylint: disable=import-outside-toplevel
    except ImportError:
        sys.exit("report: needs matplotlib: apt-get install python3-matplotlib")
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
    matplotlib.rcParams["path.simplify"] = False  # every point is drawn
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    return pyplot


def main():
    if len(sys.argv) < 4 or sys.argv[2] not in ("png", "svg"):
        sys.exit(__doc__.split("\n\n")[1])
    results, replays = [], []
    try:
        for name in sys.argv[3:]:
            read_file(pathlib.Path(name), results, replays)
    except BadInput as wrong:
        sys.exit(f"report: {wrong}")
    pyplot = load_pyplot()
    directory = pathlib.Path(sys.argv[1])
    try:
        directory.mkdir(parents=True, exist_ok=True)
        Plots(pyplot, directory, sys.argv[2]).draw(results, replays)
    except OSError as wrong:
        sys.exit(f"report: {directory}: can not write: {wrong}")


if __name__ == "__main__":
    main()
