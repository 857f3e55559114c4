#!/usr/bin/env python3
"""Bundle the presets: every file of presets/ in one JSON text, and the same text as a C array.

usage: bundle.py PRESETS_DIR OUT.json OUT.c
"""
import glob, json, os, sys


def load(pattern, key):
    """The files of a folder in the order they name, which must leave nothing to chance."""
    items = []
    for path in sorted(glob.glob(pattern)):
        with open(path, encoding="utf-8") as file:
            try:
                item = json.load(file)
                item[key], item["id"]
            except (ValueError, KeyError, TypeError) as problem:
                sys.exit(f"{path}: {problem!r}")
        items.append(item)
    ids = [item["id"] for item in items]
    if len(set(ids)) != len(ids):
        sys.exit(f"{pattern}: an id occurs twice")
    return sorted(items, key=lambda item: (item[key], item["id"]))


def main():
    folder, out_json, out_c = sys.argv[1:]
    gpus = os.path.join(folder, "gpus.json")
    bundle = {
        "models": load(os.path.join(folder, "models", "*.json"), "rank"),
        "gpus": json.load(open(gpus, encoding="utf-8"))["gpus"] if os.path.exists(gpus) else [],
        "scenarios": load(os.path.join(folder, "scenarios", "*.json"), "order"),
    }
    with open(out_json, "w", encoding="utf-8") as file:
        json.dump(bundle, file, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text = json.dumps(bundle, separators=(",", ":"), allow_nan=False).encode("ascii")  # ASCII: each byte fits any char
    with open(out_c, "w", encoding="ascii") as file:
        file.write("/* made by c_core/embed_presets.py from presets/ */\n#include <stddef.h>\n"
                   "extern const char vram_presets[];\nextern const size_t vram_presets_bytes;\n"
                   f"const size_t vram_presets_bytes = {len(text)};\nconst char vram_presets[] = {{\n")
        for start in range(0, len(text), 32):
            file.write(",".join(map(str, text[start:start + 32])) + ",\n")
        file.write("0};\n")


if __name__ == "__main__":
    main()
