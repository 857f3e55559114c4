#!/usr/bin/env python3
"""How far from what was measured, from score.py's output: README's table between its two markers and the record beside this
file, or the page's table as JSON.

usage: accuracy.py README.md | OUT.json
"""
import glob, json, re, subprocess, sys

HERE = "tests/cases"
FOLDER = f"{HERE}/measured"
RECORD = f"{HERE}/recorded.json"


def percent(x):
    return "0" if x == 0 else "below 0.01 %" if x < .00005 else f"{100 * x:.2f} %" if x < .0995 else f"{100 * x:.0f} %"


def score():
    run = subprocess.run([sys.executable, f"{FOLDER}/score.py", "build/vram", *sorted(glob.glob(f"{FOLDER}/*.jsonl")), "--json"],
                         capture_output=True, text=True)
    if run.returncode not in (0, 1) or not run.stdout.startswith("["):
        sys.exit(run.stderr)
    return json.loads(run.stdout)


def result(g):
    """What a group came to, in a few words."""
    parts = []
    if g["class"] == "exact":
        parts.append(f"{g['rows'] - g['exact_wrong'] - g['refused']} equal")
    elif g["median"] is not None:
        parts.append(f"median {percent(g['median'])}, 90 % within {percent(g['p90'])}")
    if g["fits"]:
        parts.append(f"{g['fits_right']} right about whether it runs")
    if g["refused"]:
        parts.append(f"{g['refused']} not answered")
    return "; ".join(parts)


def table(groups):
    judged = [g for g in groups if g["class"] != "loose"]
    loose = [g for g in groups if g["class"] == "loose"]
    exact = [g for g in judged if g["class"] == "exact"]
    modelled = [g for g in judged if g["class"] == "modelled"]
    rows, right = sum(g["rows"] for g in exact), sum(g["rows"] - g["exact_wrong"] - g["refused"] for g in exact)
    refused = sum(g["refused"] for g in groups)
    out = [
        f"Of {sum(g['rows'] for g in groups):,} measured numbers, {rows:,} are of the kind where any difference is a fault (parameters, caches, "
        f"files): **{right:,} come out to the byte**. Of {len(modelled)} groups of measured peaks and buffers, "
        f"**{sum(not g['miss'] for g in modelled)} are inside their target** for median and 90th percentile."
        + (f" {refused:,} scenarios are not answered yet." if refused else "")
        + " The page shows each group's worst case. A test fails when a group gets worse than this.", "",
        "<details><summary>Every group</summary>", "",
        "| group | numbers | result | target |", "|---|--:|---|---|",
    ]
    for g in judged:
        out.append(f"| {g['group']}{' (exact)' if g['class'] == 'exact' else ''} | {g['rows']} | {result(g)} | {'**missed**' if g['miss'] else 'met'} |")
    return out + ["", f"{sum(g['rows'] for g in loose):,} more, in {len(loose)} groups, left too much unsaid to be judged: they bound the estimate from afar.", "</details>"]


def worst(g):
    """The page's row of a group's worst case: which model, what was set, which number."""
    w = g["worst"]
    if not w or g["class"] != "modelled":
        return None
    model = w["scenario"].get("model")
    settings = {}

    def walk(tree, path):
        for key, value in tree.items():
            if isinstance(value, dict) and (path or key != "gpu"):
                walk(value, path + [key])
            elif path or key not in ("version", "model", "task", "overheads"):
                settings[".".join(path + [key])] = value.get("preset") if isinstance(value, dict) else value

    walk({k: v for k, v in w["scenario"].items() if k != "model"}, [])
    return {"model": model if isinstance(model, str) else "", "settings": settings, "of": w["reading"]["of"], "phase": w["reading"].get("phase"),
            "components": w["reading"].get("components"), "measured": w["measured"], "estimate": w["estimate"], "error": w["error"]}


def record_of(groups):
    short = lambda x: x if x is None else float(f"{x:.4g}")
    return {f"{g['group']}/{g['class']}": {"rows": g["rows"], "refused": g["refused"], "wrong": g["exact_wrong"], "median": short(g["median"]), "p90": short(g["p90"]),
                                           "fits_right": g["fits_right"]} for g in groups}


def write_record(groups):
    """Writes it, and says of which groups it now records something worse: that is for whoever commits it to defend."""
    new = record_of(groups)
    with open(RECORD, encoding="utf-8") as file:
        old = json.load(file)
    for group in sorted(old.keys() & new.keys()):
        for key, better in (("median", -1), ("p90", -1), ("wrong", -1), ("refused", -1), ("fits_right", 1)):
            a, b = old[group][key], new[group][key]
            if a is not None and b is not None and (b - a) * better < 0 and not group.endswith("/loose"):
                print(f"worse than recorded before: {group} {key} {a} -> {b}")
    with open(RECORD, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(new.items())) + "\n}\n")


def main():
    path, groups = sys.argv[1], score()
    if path.endswith(".json"):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"groups": [{"id": g["group"], "class": g["class"], "rows": g["rows"], "refused": g["refused"], "median": g["median"], "p90": g["p90"], "miss": g["miss"],
                                   "fits": g["fits"], "fits_right": g["fits_right"], "worst": worst(g)} for g in groups]}, file)
        return
    out = table(groups)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    new, times = re.subn(r"(<!-- accuracy: made by make accuracy -->\n).*?(<!-- accuracy: end -->)",
                         lambda m: m[1] + "\n".join(out) + "\n" + m[2], text, flags=re.S)
    if times != 1:
        sys.exit(f"{path}: the markers are not there once")
    with open(path, "w", encoding="utf-8") as file:
        file.write(new)
    write_record(groups)
    print(re.sub(r"\*\*", "", out[0]))


if __name__ == "__main__":
    main()
