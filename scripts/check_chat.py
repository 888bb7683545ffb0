#!/usr/bin/env python3
"""Compare our chat templates with the Python package `jinja2`, set up as `transformers` does.

    pip install jinja2
    scripts/check_chat.py TEMPLATE_OR_FOLDER ...

Folders are searched for `*.jinja`; the source package of `llama-cpp-python` on PyPI has seventy. Each template renders
several conversations. Where `jinja2` fails we must fail as well, and give no other text. Exits with 1 at a difference.
"""

import argparse
import difflib
import json
import subprocess
import sys
from pathlib import Path

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

ROOT = Path(__file__).resolve().parent.parent
USER = {"role": "user", "content": " What is 1 < 2 & 'three'?\n"}
ASSISTANT = {"role": "assistant", "content": "<think>\nLet me see.\n</think>\n\nIt is \"true\". 😀"}
SYSTEM = {"role": "system", "content": "Be brief.\n\n"}
MORE = {"role": "user", "content": "Naïve?"}
CONVERSATIONS = [
    [USER], [SYSTEM, USER], [USER, ASSISTANT, MORE], [SYSTEM, USER, ASSISTANT, MORE, ASSISTANT, USER], [USER, ASSISTANT],
    [ASSISTANT, USER], [USER, MORE], [SYSTEM], [], [{"role": "tool", "content": "3"}, USER], [{"role": "developer", "content": "x"}, USER],
]


class Generation(jinja2.ext.Extension):
    """`{% generation %}`: only marks a part of the text."""

    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def environment():
    def refuse(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = refuse
    return made


def theirs(source, messages, answer, switches):
    try:
        template = environment().from_string(source)
        return template.render(
            messages=messages, add_generation_prompt=answer, bos_token="<bos>", eos_token="<eos>", tools=None, documents=None, **switches
        )
    except Exception as error:
        return error


def ours(path, messages, answer, switches):
    parts = [p.encode() for m in messages for p in (m["role"], m["content"])]
    stdin = b"".join(b"%d\n%s" % (len(p), p) for p in parts)
    flags = ["--answer"] * answer + [f"{name}={'true' if on else 'false'}" for name, on in switches.items()]
    result = subprocess.run([*EXAMPLE, str(path), *flags], input=stdin, capture_output=True)
    return result.stdout.decode() if result.returncode == 0 else RuntimeError(result.stderr.decode().strip())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="TEMPLATE_OR_FOLDER")
    parser.add_argument("--example", metavar="PROGRAM", help="the built example `render` (default: cargo builds it)")
    args = parser.parse_args()
    global EXAMPLE
    if args.example:
        EXAMPLE = [args.example]
    else:
        EXAMPLE = ["cargo", "run", "-q", "--release", "-p", "tilewright-models", "--example", "render", "--"]
    files = [f for p in map(Path, args.paths) for f in (sorted(p.rglob("*.jinja")) if p.is_dir() else [p])]
    wrong = texts = refusals = 0
    for path in files:
        source = path.read_text(encoding="utf-8")
        shown = False
        for messages in CONVERSATIONS:
            for answer, switches in ((True, {}), (False, {}), (True, {"enable_thinking": False})):
                expected, got = theirs(source, messages, answer, switches), ours(path, messages, answer, switches)
                if isinstance(expected, Exception) and isinstance(got, Exception):
                    refusals += 1
                    continue
                if expected == got:
                    texts += 1
                    continue
                wrong += 1
                if not shown:
                    shown = True
                    print(f"{path.name}: {[m['role'] for m in messages]}, answer {answer}, {switches}")
                    if isinstance(expected, Exception) or isinstance(got, Exception):
                        print(f"  theirs: {str(expected)[:300]!r}\n  ours:   {str(got)[:300]!r}")
                    else:
                        lines = difflib.unified_diff(expected.splitlines(True), got.splitlines(True), "theirs", "ours", n=1)
                        print("".join(f"  {line!r}\n" for line in list(lines)[:12]), end="")
    print(f"{len(files)} templates: {texts} texts equal, {refusals} refused by both, {wrong} differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
