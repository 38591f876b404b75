"""What the JSON of the status page says of a figure, and how the page writes it."""
import math


def byte_text(n):
    units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    unit = 0
    while n >= 1024 and unit < len(units) - 1:
        n /= 1024
        unit += 1
    return f"{n:,.0f} {units[unit]}" if unit == 0 else f"{n:.1f} {units[unit]}"


def time_text(ns):
    for limit, unit, size in ((1e6, "µs", 1e3), (1e9, "ms", 1e6), (120e9, "s", 1e9)):
        if ns < limit:
            return f"{round(ns)} ns" if ns < 1e3 else f"{ns / size:.1f} {unit}"
    raise ValueError(ns)


def percentile(totals, name, share):
    classes = [totals.get(f"{name}.log2_{i:02}", 0) for i in range(40)]
    place, seen = math.ceil(share * sum(classes)), 0
    for i, n in enumerate(classes):
        seen += n
        if seen >= place and seen > 0:
            return 2 ** i
    raise ValueError(name)


def own_moves(reports):
    moves = reports.get("moves", {})
    return {f"{reports['status'].get('role')}/{moves.get('daemon')}": moves}


def figure(reports, of):
    """What the JSON says of the figure that an element names in data-of."""
    kind, rest = of.split(":", 1)
    totals = reports["totals"]
    if kind == "totals":
        return sum(totals[name] for name in rest.split("+") if name)
    what, name = rest.rsplit(":", 1)
    if kind == "percentile":
        return percentile(totals, what, float(name))
    rows = {"node": {f"{n['role']}/{n['name']}": n for page in reports.get("nodes", [])
                     for n in page["nodes"]},
            "peer": {p["name"]: p for p in reports.get("peers", {}).get("peers", [])},
            "held": {t["tenant"]: t for t in reports.get("store_tenants", [])},
            "moved": {t["tenant"]: t for t in reports.get("tenants", [])},
            "moves": {**reports.get("drains", {}), **own_moves(reports)},
            "hot": {k["key_hash"]: k for k in reports.get("hot", {}).get("keys", [])},
            "nic": {f"{n['nic']}/{n['port']}": n for n in reports.get("nics", [])}}
    return rows[kind][what][name]
