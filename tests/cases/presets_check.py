#!/usr/bin/env python3
"""Check the preset files, and with a program what comes out of them.

usage: presets_check.py [--vram build/vram]

Without a program: every file parses, ids are unique and equal the file's name, ranks and orders run from 1, the keys that
the build and the page read are there, both languages say something and state the same numbers, every path of a scenario is
one of the spec's, every model and GPU that is named exists, no number is NaN or infinite, and chapters.jsonl is what the
presets say. With one: every scenario and variant gives a report, every model's counts are exact, every case of
chapters.jsonl comes out. Prints "N passed, M failed"; exit status 1 when one failed.
"""
import argparse, glob, json, math, os, re, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
PRESETS = os.path.relpath(os.path.join(HERE, "..", "..", "presets"))

PATHS = set("""version task model weights engine context prompt batch kv_cache kv_cache_k kv_cache_v transformers.attention
vllm.engine vllm.gpu_memory_utilization vllm.max_num_batched_tokens vllm.max_num_seqs vllm.block_size vllm.cuda_graphs
sglang.mem_fraction_static llama_cpp.ubatch llama_cpp.flash_attention llama_cpp.gpu_layers llama_cpp.slots llama_cpp.swa_full
llama_cpp.kv_unified llama_cpp.output_rows llama_cpp.imatrix llama_cpp.mla_cache speculative.mtp_tokens
training.method training.precision training.autocast training.gradients training.optimizer training.optimizer_states
training.optimizer_impl training.sequence_length training.micro_batch training.gradient_accumulation training.checkpointing
training.attention training.loss training.packing training.dropout training.clip training.optimizer_in_backward
training.offload_activations training.kernels lora.rank lora.targets lora.dtype lora.dora lora.dropout lora.prepare_kbit
rl.algorithm rl.critic rl.reference rl.reward rl.prompt rl.response rl.rollout_batch rl.group_size rl.forward_batch
rl.rollout_engine rl.share_weights rl.offload_idle parallel.data parallel.zero parallel.tensor parallel.sequence
parallel.pipeline parallel.context parallel.expert parallel.engine parallel.virtual_pipeline parallel.expert_tensor
parallel.bucket_elements parallel.bucket_mib parallel.bucket_view parallel.overlap parallel.prefetch
parallel.prefetch_elements parallel.persistence_elements parallel.max_live_elements parallel.subgroup_elements
parallel.offload gpu gpus overheads""".split())
WHOLE = {"model", "gpu", "rl.critic", "rl.reference", "rl.reward"}  # values that may be objects of their own

passed, failures = 0, []


def check(ok, what):
    global passed
    if ok:
        passed += 1
    else:
        failures.append(what)
        print("not ok - " + what)
    return ok


def section(name, run, *arguments):
    """Runs one group of checks and says so when none of them failed."""
    before, wrong = passed, len(failures)
    result = run(*arguments)
    if len(failures) == wrong:
        print(f"ok - {name}: {passed - before} checks")
    return result


def no_duplicates(pairs):
    keys = [k for k, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError("duplicate key among " + ", ".join(keys))
    return dict(pairs)


def not_a_number(text):
    raise ValueError(text + " is not JSON")


def load(path):
    try:
        with open(path, encoding="utf-8") as f:
            value = json.load(f, object_pairs_hook=no_duplicates, parse_constant=not_a_number)
    except (OSError, ValueError) as e:
        check(False, f"{path}: {e}")
        return None
    check(True, path)
    return value


def numbers(value):
    if isinstance(value, dict):
        for v in value.values():
            yield from numbers(v)
    elif isinstance(value, list):
        for v in value:
            yield from numbers(v)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def count(value, least=1):
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**53


def flatten(scenario, prefix=""):
    for key, value in scenario.items():
        path = prefix + key
        if isinstance(value, dict) and path not in WHOLE:
            yield from flatten(value, path + ".")
        else:
            yield path, value


def patched(scenario, patch):
    """The scenario with each dotted path of the patch set."""
    out = json.loads(json.dumps(scenario))
    for path, value in patch.items():
        *folders, last = path.split(".")
        at = out
        for folder in folders:
            at = at.setdefault(folder, {})
        at[last] = value
    return out


def check_paths(where, pairs, models, gpus):
    for path, value in pairs:
        check(path in PATHS, f"{where}: {path} is no path of a scenario")
        if path == "model" and isinstance(value, str):
            check(value in models, f"{where}: no model {value}")
        if path in ("rl.critic", "rl.reference", "rl.reward") and isinstance(value, str):
            check(value in models or value in ("same", "none", "adapter", "precomputed"), f"{where}: no model {value}")
        if path == "gpu":
            name = value["preset"] if isinstance(value, dict) else value
            check(name in gpus, f"{where}: no GPU {name}")


def check_text(where, text):
    ok = isinstance(text, dict) and all(isinstance(text.get(l), str) and text[l].strip() == text[l] != "" for l in ("en", "zh"))
    check(ok and set(text) == {"en", "zh"}, f"{where}: needs words in en and zh")
    if ok:
        check(re.search("[\u4e00-\u9fff]", text["zh"]) or len(text["zh"]) < 40, f"{where}: the Chinese is not Chinese")  # a name stays
        said = [set(re.findall(r"\d{1,3}(?:,\d{3})+", text[l])) for l in ("en", "zh")]
        check(said[0] == said[1], f"{where}: numbers in one language only: {sorted(said[0] ^ said[1])}")


def check_models():
    models = {}
    for path in sorted(glob.glob(os.path.join(PRESETS, "models", "*.json"))):
        m, name = load(path), os.path.basename(path)[:-5]
        if m is None:
            continue
        check(m.get("id") == name, f"{path}: id {m.get('id')}")
        check(len(name) < 48, f"{path}: id too long for the core")
        for key in ("name", "family", "hf_repo", "released"):
            check(isinstance(m.get(key), str) and m[key], f"{path}: {key}")
        check("license" in m and (m["license"] is None or isinstance(m["license"], str)), f"{path}: license")
        check(count(m.get("params_total")) and count(m.get("params_active")) and m["params_active"] <= m["params_total"], f"{path}: parameters")
        config = m.get("config")
        check(isinstance(config, dict) and isinstance(config.get("model_type"), str), f"{path}: config.model_type")
        check(isinstance(m.get("source"), list) and m["source"] and all(isinstance(s, str) and s for s in m["source"]), f"{path}: source")
        check(all(math.isfinite(n) for n in numbers(m)), f"{path}: a number is not finite")
        check(set(m) <= {"id", "name", "family", "hf_repo", "released", "license", "rank", "params_total", "params_active", "config", "source", "note"}, f"{path}: unknown key")
        models[m.get("id")] = m
    check(sorted(m.get("rank") for m in models.values()) == list(range(1, len(models) + 1)), "models: ranks do not run from 1")
    check(len({m["name"] for m in models.values()}) == len(models), "models: two have one name")
    check(len(models) >= 60, "models: fewer than 60")
    return models


def check_gpus():
    path = os.path.join(PRESETS, "gpus.json")
    data, gpus = load(path), {}
    if data is None:
        return gpus
    check(isinstance(data.get("note"), list) and data["note"], f"{path}: note")
    for g in data["gpus"]:
        where = f"{path}: {g.get('id')}"
        check(g.get("id") not in gpus, where + " twice")
        check(isinstance(g.get("id"), str) and 0 < len(g["id"]) < 48, where)
        for key in ("name", "vendor"):
            check(isinstance(g.get(key), str) and g[key], f"{where}: {key}")
        for key in ("memory_bytes", "memory_marketed_bytes"):
            check(count(g.get(key)), f"{where}: {key}")
        check(g.get("cuda_total_bytes") is None or count(g["cuda_total_bytes"]), f"{where}: cuda_total_bytes")
        check("cuda_total_bytes" in g and count(g.get("context_bytes"), 0), f"{where}: context_bytes")
        total = g["cuda_total_bytes"] or g["memory_bytes"]
        check(0.6 * g["memory_bytes"] < total - g["context_bytes"] <= 1.02 * g["memory_marketed_bytes"] * 1.04, f"{where}: usable memory out of proportion")
        for key in ("apple", "common"):
            check(isinstance(g.get(key), bool), f"{where}: {key}")
        for key in ("bandwidth_gb_s", "compute_capability", "multiprocessors"):
            check(key in g and (g[key] is None or g[key] > 0), f"{where}: {key}")
        check(isinstance(g.get("dense_tflops"), dict), f"{where}: dense_tflops")
        check(isinstance(g.get("source"), list) and g["source"], f"{where}: source")
        check(all(math.isfinite(n) for n in numbers(g)), f"{where}: a number is not finite")
        gpus[g["id"]] = g
    need = "a100-80gb rtx-4090 h100-sxm h200-sxm a100-40gb rtx-3090 rtx-6000-ada rtx-a5000 a800-80gb t4 rtx-4090-d l40s".split()
    for name in need:
        check(name in gpus, f"{path}: {name} is missing")
    check(15 <= sum(g["common"] for g in gpus.values()) <= 30, f"{path}: number of common GPUs")
    return gpus


def check_scenarios(models, gpus):
    scenarios = {}
    for path in sorted(glob.glob(os.path.join(PRESETS, "scenarios", "*.json"))):
        s, name = load(path), os.path.basename(path)[:-5]
        if s is None:
            continue
        check(re.fullmatch(r"\d\d-.+", name) and name[3:] == s.get("id") and int(name[:2]) == s.get("order"), f"{path}: name, id and order disagree")
        check(s.get("id") not in scenarios, f"{path}: id twice")
        check("chapter" in s and (s["chapter"] is None or s["chapter"] in range(1, 8)), f"{path}: chapter")
        told = {"question", "say", "trap"} # of a chapter, and of the story that leads to the first
        guide = told | {"controls"} if s.get("chapter") else told if "say" in s else set()
        check(set(s) <= {"id", "order", "chapter", "title", "text", "scenario", "quoted", "variants"} | guide, f"{path}: unknown key")
        check(guide <= set(s), f"{path}: a guide with parts missing")
        check_text(f"{path}: title", s.get("title"))
        check_text(f"{path}: text", s.get("text"))
        for part in [s.get("question"), s.get("trap"), *s.get("say", [])] if guide else []:
            check_text(f"{path}: guide", part)
        check(s["scenario"].get("version") == 1, f"{path}: version")
        check_paths(path, flatten(s["scenario"]), models, gpus)
        for v in s.get("variants", []):
            check_text(f"{path}: variant", v.get("title"))
            check(isinstance(v.get("patch"), dict) and v["patch"], f"{path}: patch")
            check_paths(path, v["patch"].items(), models, gpus)
            check(patched(s["scenario"], v["patch"]) != s["scenario"], f"{path}: a variant changes nothing: {v['patch']}")
        for q in s.get("quoted", []):
            check(count(q.get("bytes")) and isinstance(q.get("id"), str), f"{path}: quoted")
            check_text(f"{path}: quoted", q.get("text"))
        check(all(math.isfinite(n) for n in numbers(s)), f"{path}: a number is not finite")
        scenarios[s["id"]] = s
    check(sorted(s["order"] for s in scenarios.values()) == list(range(1, len(scenarios) + 1)), "scenarios: orders do not run from 1")
    check([s["chapter"] for s in sorted(scenarios.values(), key=lambda s: s["order"])][:7] == list(range(1, 8)), "scenarios: the chapters come first")
    stated = [(q["id"], q["bytes"]) for s in scenarios.values() if s["chapter"] == 4 for q in s.get("quoted", [])]
    check(stated == [("activations", 40000000000), ("total", 152000000000)], "chapter 4: what the lecture states")
    return scenarios


def check_cases(scenarios):
    path, rows = os.path.join(HERE, "chapters.jsonl"), []
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.strip():
                rows.append(json.loads(line, object_pairs_hook=no_duplicates, parse_constant=not_a_number))
    check(len({r["id"] for r in rows}) == len(rows), f"{path}: an id twice")
    for r in rows:
        where = f"{path}: {r['id']}"
        check(set(r) - {"chapter"} == {"id", "preset", "patch", "scenario", "reading", "expected", "arithmetic"}, where + ": keys")
        s = scenarios.get(r["preset"])
        if check(s is not None, where + ": no such preset"):
            check(s["chapter"] == r.get("chapter"), where + ": chapter")
            check(patched(s["scenario"], r["patch"]) == r["scenario"], where + ": the scenario is not the preset's with the patch")
    check({r.get("chapter") for r in rows} >= set(range(1, 8)), f"{path}: a chapter without a case")
    return rows


def entry_bytes(report, reading, phase):
    total = 0
    for e in report["entries"]:
        if reading.get("components", "all") not in ("all",) and e["component"] not in reading["components"]:
            continue
        if e["component"] in reading.get("except", []):
            continue
        if "role" in reading and e["role"] not in reading["role"]:
            continue
        if "what" in reading and e["what"] not in reading["what"]:
            continue
        if phase is None or phase in e["phases"]:
            total += e["bytes"]
    return total


def read(report, row):
    """What a case names in a report: as in measured/README.md, and of one role or part, a verdict, a rule of thumb."""
    reading = row["reading"]
    of, phase = reading["of"], reading.get("phase", "any")
    if of.startswith("params_"):
        return report["model"][of]
    if of == "verdict":
        return next(f["verdict"] for f in report["fits"] if f["gpu"] == reading["gpu"])
    if of == "rule_of_thumb":
        return next(r["bytes"] for r in report["rules_of_thumb"] if r["id"] == reading["id"])
    if of != "bytes":
        return report[of]
    if phase == "peak":
        return max(entry_bytes(report, reading, p["id"]) for p in report["phases"])
    return entry_bytes(report, reading, None if phase == "any" else phase)


def run(vram, jobs):
    """One report for each scenario, in order."""
    text = "".join(json.dumps(s) + "\n" for _, s in jobs)
    done = subprocess.run([vram, "batch"], input=text, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if not check(len(lines) == len(jobs), f"{vram} batch: {len(jobs)} in, {len(lines)} out, exit {done.returncode}: {done.stderr[:300]}"):
        return []
    return [(where, json.loads(line)) for (where, _), line in zip(jobs, lines)]


def check_program(vram, models, scenarios, cases):
    jobs = [(f"scenario {s['id']}", s["scenario"]) for s in scenarios.values()]
    jobs += [(f"scenario {s['id']} with {json.dumps(v['patch'])}", patched(s["scenario"], v["patch"])) for s in scenarios.values() for v in s.get("variants", [])]
    for where, report in run(vram, jobs):
        check("error" not in report, f"{where}: {report.get('error')}")
        if "error" not in report:
            check(report["peak"]["bytes"] == max(p["bytes"] for p in report["phases"]) > 0, f"{where}: peak")
            check(all(math.isfinite(n) for n in numbers(report)), f"{where}: a number is not finite")
    jobs = [(m["id"], {"version": 1, "task": "inference", "model": m["id"], "engine": "bare", "context": 1}) for m in models.values()]
    for name, report in run(vram, jobs):
        if check("error" not in report, f"model {name}: {report.get('error')}"):
            for key in ("params_total", "params_active"):
                got, want = report["model"][key], models[name][key]
                check(got == want, f"model {name}: {key} {got:.0f}, not {want} ({got - want:+.0f})")
    for row, (_, report) in zip(cases, run(vram, [(r["id"], r["scenario"]) for r in cases])):
        try:
            got = read(report, row)
        except (KeyError, StopIteration):
            got = report.get("error", "no such reading")
        check(got == row["expected"], f"case {row['id']}: {got}, not {row['expected']} ({row['arithmetic']})")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--vram", help="the program, to run everything through it")
    a = ap.parse_args()
    models, gpus = section("models", check_models), section("GPUs", check_gpus)
    scenarios = section("scenarios", check_scenarios, models, gpus)
    cases = section("chapters.jsonl", check_cases, scenarios)
    if a.vram:
        section(a.vram, check_program, a.vram, models, scenarios, cases)
    print(f"{passed} passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
