#!/usr/bin/env python3
"""Plain English in documents: sentences too long or without a name, and words that mislead.

Only documents of CHECKED are checked: those that somebody has gone through. The list grows.
Prints one line a violation, `file:line: what, and the remedy`, and exits 1 when there is any.
`check_words.py --self-test` feeds each rule a violation. `check_words.py FILE...` checks others.
"""
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKED = ("CONTRIBUTING.md", "README.md", "config/kubernetes/KUBERNETES.md",
           "daemon/ARCHITECTURE.md", "daemon/LIMITS.md",
           "daemon/OBSERVABILITY.md", "daemon/PROMISES.md", "daemon/SECURITY.md",
           "daemon/TRACING.md", "daemon/TROUBLESHOOTING.md", "daemon/cluster/CLUSTER.md",
           "daemon/cluster/HELLO.md", "daemon/store/STORE.md",
           "daemon/tools/simm-bench/BENCHMARKS.md", "daemon/tools/simm-bench/TRACE.md",
           "daemon/tools/simmctl/ADMIN.md", "daemon/transport/rdma/FIRST_HOUR.md",
           "daemon/transport/rdma/RDMA.md", "daemon/transport/tcp/TCP.md", "ipc/ATTACH.md",
           "ipc/FORMAT.md", "libclient/API.md",
           "python/README.md", "python/SGLANG.md", "scripts/PACKAGES.md", "systemd/DEPLOY.md",
           "tests/CLIENTS.md", "tests/README.md", "tests/siege/SIEGE.md",
           "tests/sim/SIMULATION.md")
SENTENCE_WORDS_MAX = 25
SENTENCE_WORDS_MEDIAN_MAX = 15
COLUMNS_MAX = 120
BANNED = (
    (re.compile(r"(?:^|[.:] )It\b"), "a bare `It` at the start: name the thing"),
    (re.compile(r"\blikewise\b", re.I), "`likewise`: say what is the same"),
    (re.compile(r"\bof it\b"), "`of it`: name the thing"),
    (re.compile(r"\b(?:Who|[Ww]hoever)\b[^?]{24,}[.]$"), "`Who` as a subject: name the person"),
    (re.compile(r"\bnobody\b[^.]* but\b", re.I), "`nobody ... but`: say who does"),
)


def paragraphs(text):
    """(first line, text) of each paragraph and list item; no code, tables, headings, comments."""
    found, start, words = [], 0, []
    fenced = commented = False

    def end():
        if words:
            found.append((start, " ".join(words)))
        words.clear()

    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if bare.startswith("```"):
            fenced = not fenced
        if bare.startswith("<!--"):
            commented = True
        shown = not (fenced or commented or bare.startswith(("```", "|", "#"))
                     or (line.startswith("    ") and not words))
        if bare.endswith("-->"):
            commented = False
        if not shown or not bare:
            end()
            continue
        item = re.match(r"(?:[-*]|\d+\.) +", bare)
        if item:
            end()
            bare = bare[item.end():]
        if not words:
            start = number
        words.append(bare)
    end()
    return found


def sentences(paragraph):
    """The sentences of a paragraph; a link counts as its text, a name in backticks as one word."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", paragraph)
    plain = re.sub(r"`[^`]*`", "Name", plain).replace("**", "")
    return [part for part in re.split(r"(?<=[.!?])\s+(?=[A-Z0-9(])|(?<=:)\s*$", plain) if part]


def length(sentence):
    return len(re.findall(r"[A-Za-z0-9][\w'’/.,-]*", sentence))


def check_text(text):
    """Yields (line, message) for each violation of one document."""
    fenced, lengths = False, []
    lines = text.splitlines()
    for number, (before, line, after) in enumerate(zip(["", *lines], lines, [*lines[1:], ""]), 1):
        if line.startswith("```"):
            fenced = not fenced
        if not (fenced or line.startswith(("|", "    "))) and len(line) > COLUMNS_MAX:
            yield number, f"{len(line)} columns, at most {COLUMNS_MAX}"
        is_head = line.startswith("|") and not before.startswith("|")
        if is_head and not fenced and not re.match(r"\|[ :-]*-", after):
            yield number, "a table without a rule under its head: an empty line cuts it in two"
    for number, paragraph in paragraphs(text):
        for sentence in sentences(paragraph):
            words = length(sentence)
            lengths.append(words)
            if words > SENTENCE_WORDS_MAX:
                yield number, (f"a sentence of {words} words, at most {SENTENCE_WORDS_MAX}: "
                               f"\"{sentence[:50]}...\"")
            for pattern, message in BANNED:
                if pattern.search(sentence):
                    yield number, f"{message}: \"{sentence[:50]}...\""
    if lengths and statistics.median(lengths) > SENTENCE_WORDS_MEDIAN_MAX:
        yield 1, (f"a median of {statistics.median(lengths)} words a sentence, "
                  f"at most {SENTENCE_WORDS_MEDIAN_MAX}")


def self_test():
    wrong = {
        "long sentence": "A " + "word " * 26 + "ends.",
        "median": ("A sentence with quite a few words more than fifteen which is not yet too long. "
                   * 3),
        "it": "The daemon starts. It serves.",
        "likewise": "Gets wait, puts likewise.",
        "of it": "The rest of it is free.",
        "who": "Who finds no room is declined.",
        "nobody but": "Nobody waits for the manager but changes of the map.",
        "table": "| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |\n",
        "columns": "word " * 4 + "x" * 120,
    }
    right = ("# It is a heading\n\n"
             "The daemon starts. A client attaches to `It`, [it](It.md), too.\n\n"
             "- First.\n- Second.\n\n| It | of it |\n|---|---|\n| 1 | 2 |\n\n"
             "```\nlikewise\n```\n\n    It of it\n")
    silent = [rule for rule, text in wrong.items() if not list(check_text(text))]
    false_alarms = list(check_text(right))
    if silent or false_alarms:
        print(f"silent rules: {silent}; false alarms: {false_alarms}")
    return 1 if silent or false_alarms else 0


def main():
    if "--self-test" in sys.argv:
        return self_test()
    violations = 0
    for document in sys.argv[1:] or CHECKED:
        for number, message in check_text((ROOT / document).read_text(encoding="utf-8")):
            print(f"{document}:{number}: {message}")
            violations += 1
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
