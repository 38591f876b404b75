#!/usr/bin/env python3
"""Turns result files of simm-bench (--json lines, and the last line of replay) into plots.

usage: report.py OUTPUT_DIRECTORY RESULT_FILE...

ratios.png   value / baseline of every figure that has a baseline
values.png   the figures themselves, a panel per unit
replay.png   hit rate beside the best possible one, and fetch times, per file and model
Lines that are not JSON objects (tables, progress) are skipped. Prints the files it wrote.
"""
import json
import pathlib
import sys

try:
    import matplotlib
except ImportError:
    sys.exit("report: needs matplotlib: apt-get install python3-matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

PARAMS_SHOWN = ("path", "wait", "page_bytes", "working_set_bytes", "ranks", "processes", "threads")


def read_lines(paths):
    """(results, replays): figures, and (file stem, replay object) pairs."""
    results, replays = [], []
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            if not line.startswith("{"):
                continue
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue
            if "name" in entry and "value" in entry:
                results.append(entry)
            elif "best_hit_rate" in entry:
                replays.append((path.stem, entry))
    return results, replays


def label_of(result):
    shown = [f"{key}={result['params'][key]}" for key in PARAMS_SHOWN if key in result["params"]]
    return result["name"] + ("\n" + " ".join(shown) if shown else "")


def bars(axes, labels, values, title):
    places = range(len(values))
    axes.barh(places, values)
    axes.set_yticks(places)
    axes.set_yticklabels(labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_title(title, fontsize=9)
    for place, value in zip(places, values):
        axes.text(value, place, f" {value:.4g}", va="center", fontsize=7)
    axes.margins(x=0.15)


def save(figure, path):
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    print(path)


def plot_ratios(results, directory):
    rows = [result for result in results if result["ratio"] is not None]
    if not rows:
        return
    figure, axes = pyplot.subplots(figsize=(8, 1 + 0.5 * len(rows)))
    bars(axes, [label_of(row) for row in rows], [row["ratio"] for row in rows], "value / baseline")
    axes.axvline(1, color="grey", linewidth=0.8)
    save(figure, directory / "ratios.png")


def plot_values(results, directory):
    units = list(dict.fromkeys(result["unit"] for result in results))
    if not units:
        return
    counts = [sum(result["unit"] == unit for result in results) for unit in units]
    figure, panels = pyplot.subplots(len(units), figsize=(8, 1 + sum(counts) * 0.5 + len(units)),
                                     squeeze=False, gridspec_kw={"height_ratios": counts})
    for axes, unit in zip(panels[:, 0], units):
        rows = [result for result in results if result["unit"] == unit]
        bars(axes, [label_of(row) for row in rows], [row["value"] for row in rows], unit)
    save(figure, directory / "values.png")


def plot_replays(replays, directory):
    rows = [(f"{stem}\n{model['model']}", model) for stem, entry in replays
            for model in entry.get("models", [])]
    if not rows:
        return
    figure, panels = pyplot.subplots(1, 2, figsize=(10, 2 + 0.6 * len(rows)))
    labels = [f"{label} {what}" for label, _ in rows for what in ("hit rate", "best possible")]
    rates = [100 * model[key] for _, model in rows for key in ("hit_rate", "best_hit_rate")]
    bars(panels[0], labels, rates, "hit rate, percent")
    labels = [f"{label} {what}" for label, _ in rows for what in ("p50", "p99")]
    times = [model[key] for _, model in rows for key in ("fetch_p50_us", "fetch_p99_us")]
    bars(panels[1], labels, times, "fetch of up to 128 pages, us")
    save(figure, directory / "replay.png")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.split("\n\n")[1])
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    paths = [pathlib.Path(name) for name in sys.argv[2:]]
    missing = [str(path) for path in paths if not path.is_file()]
    if missing:
        sys.exit(f"report: no such file: {', '.join(missing)}")
    results, replays = read_lines(paths)
    if not results and not replays:
        sys.exit("report: no results in these files: write them with simm-bench --json")
    plot_ratios(results, directory)
    plot_values(results, directory)
    plot_replays(replays, directory)


if __name__ == "__main__":
    main()
