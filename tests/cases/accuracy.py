#!/usr/bin/env python3
"""How far from what was measured, from score.py's output: README's table between its two markers, or the page's as JSON.

usage: accuracy.py README.md | OUT.json
"""
import glob, json, re, subprocess, sys

FOLDER = "tests/cases/measured"


def percent(x):
    return "" if x is None else "0" if x == 0 else f"{100 * x:.2f} %" if x < .0995 else f"{100 * x:.0f} %"


def score():
    run = subprocess.run([sys.executable, f"{FOLDER}/score.py", "build/vram", *sorted(glob.glob(f"{FOLDER}/*.jsonl")), "--json"],
                         capture_output=True, text=True)
    if run.returncode not in (0, 1) or not run.stdout.startswith("["):
        sys.exit(run.stderr)
    return json.loads(run.stdout)


def table(groups):
    exact = [g for g in groups if g["class"] == "exact"]
    modelled = [g for g in groups if g["class"] == "modelled"]
    rows, right = sum(g["rows"] for g in exact), sum(g["rows"] - g["exact_wrong"] - g["refused"] for g in exact)
    refused = sum(g["refused"] for g in groups)
    out = [
        f"Of {sum(g['rows'] for g in groups):,} measured numbers, {rows:,} are of the kind where any difference is a fault (parameters, caches, "
        f"files): **{right:,} come out to the byte**. Of {len(modelled)} groups of measured peaks and buffers, "
        f"**{sum(not g['miss'] for g in modelled)} are inside their target** for median and 90th percentile."
        + (f" {refused:,} scenarios are not answered yet." if refused else ""), "",
        "<details><summary>Every group</summary>", "",
        "| group | judged as | rows | not answered | equal | median error | 90 % within | runs or not, right | |",
        "|---|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    for g in groups:
        equal = g["rows"] - g["exact_wrong"] - g["refused"] if g["class"] == "exact" else ""
        fits = f"{g['fits_right']} of {g['fits']}" if g["fits"] else ""
        out.append(f"| {g['group']} | {g['class']} | {g['rows']} | {g['refused'] or ''} | {equal} | {percent(g['median'])} | {percent(g['p90'])} | {fits} | "
                   f"{'off target' if g['miss'] else ''} |")
    return out + ["", "</details>"]


def main():
    path, groups = sys.argv[1], score()
    if path.endswith(".json"):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"groups": [{"id": g["group"], "class": g["class"], "rows": g["rows"], "refused": g["refused"], "median": g["median"], "p90": g["p90"]}
                                  for g in groups]}, file)
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
    print(re.sub(r"\*\*", "", out[0]))


if __name__ == "__main__":
    main()
