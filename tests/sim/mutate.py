#!/usr/bin/python3
"""Writes the mutated sources of one mutant.

usage: mutate.py MUTANTS.json NAME SOURCE_ROOT OUTPUT_DIR

Each `from` of mutants.json has to occur exactly once in its file, so that a mutant whose code has
changed meanwhile is noticed at build time and not silently harmless. A header is refused, because
nobody would include the mutated one. A file whose text stays the same is left alone, so another
mutant's change compiles nothing here.
"""
import json
import pathlib
import sys


def mutated_sources(mutant, source_root):
    texts = {}
    for edit in mutant["edits"]:
        name = edit["file"]
        if not name.endswith(".cpp"):
            sys.exit(f"mutant '{mutant['name']}' changes {name}: nobody would include that")
        text = texts.get(name) or (source_root / name).read_text()
        if text.count(edit["from"]) != 1:
            sys.exit(f"mutant '{mutant['name']}' no longer applies to {name}: its text occurs "
                     f"{text.count(edit['from'])} times:\n{edit['from']}")
        texts[name] = text.replace(edit["from"], edit["to"])
    return texts


def main():
    mutants_file, wanted, source_root, output = sys.argv[1:]
    mutants = json.loads(pathlib.Path(mutants_file).read_text())
    mutant = next(m for m in mutants if m["name"] == wanted)
    for name, text in mutated_sources(mutant, pathlib.Path(source_root)).items():
        target = pathlib.Path(output) / pathlib.Path(name).name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text() != text:
            target.write_text(text)


main()
