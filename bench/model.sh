#!/usr/bin/env bash
# The main job, first in `make demo`: SmolLM2-135M-Instruct, brought into the cache folder, answers a question.
set -euo pipefail
cd "$(dirname "$0")/.."
model=$(bash scripts/fetch_model.sh smollm2)
echo "\$ tilewright generate $(basename "$model") --prompt 'What is the capital of France?' -n 32"
target/release/tilewright generate "$model" --prompt 'What is the capital of France?' -n 32
echo
