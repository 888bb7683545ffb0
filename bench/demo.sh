#!/usr/bin/env bash
# What `make demo` shows: three programs, each compiled once, run and verified at several sizes.
set -euo pipefail
cd "$(dirname "$0")/.."
tilewright=target/release/tilewright

"$tilewright" doctor
echo
"$tilewright" run programs/softmax.tensor --set S=3
echo
"$tilewright" verify programs/rmsnorm_matmul.tensor --sizes 'S=0,1,7,64,129'
echo
"$tilewright" verify programs/attention_causal.tensor --sizes 'S=0,1,5,64;T=0,1,5,100'
echo
"$tilewright" verify programs/softmax.tensor --sizes 'S=0,1,3,1000'
