#!/usr/bin/env bash
# What `make demo` shows: three programs, each compiled once, run and verified at several sizes.
set -euo pipefail
cd "$(dirname "$0")/.."
tilewright=target/release/tilewright

"$tilewright" doctor
echo
"$tilewright" run programs/softmax.tensor --set R=3 --set C=5
echo
"$tilewright" verify programs/softmax.tensor --sizes 'R=0,1,3,65;C=0,1,5,1000'
echo
"$tilewright" verify programs/rmsnorm_matmul.tensor --sizes 'S=0,1,7,64,129' --set D=512 --set N=300
echo
"$tilewright" verify programs/attention_causal.tensor \
  --sizes 'S=0,1,5,64;T=0,1,5,100' --set H=2 --set G=3 --set K=40 --set V=24
