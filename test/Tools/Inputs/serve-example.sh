#!/usr/bin/env bash
# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# serve-example.sh TILEWRIGHTC KERNELS FOLDER PROGRAM: compiles the bundles of examples/serve.cpp in a folder, and runs the
# program, that one or serve.rs, with them. All results must be right; without a GPU it must say what it skipped. Other
# bundles, and none, are refused.
set -euo pipefail

tilewrightc=$1 kernels=$2 folder=$3 program=$4
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
compile() {
  "$tilewrightc" "$kernels/$1.mlir" --param D=64 --param T=f16 "${@:3}" --emit=bundle -o "$2"
}
compile attention_append append.twb
compile attention_decode decode.twb --param GROUP=4 --param PAGE_ROWS=16
compile attention_forward prefill.twb --param PACKED=true --param CAUSAL=bottom_right --param PAGE_ROWS=16

expect() { # TEXT FILE: a line that matches
  if ! grep -Eq "$1" "$2"; then
    echo "no line of $2 matches '$1':"
    cat "$2"
    exit 1
  fi
}
"$program" append.twb decode.twb prefill.twb >log.txt
cat log.txt
expect '^attention_append D=64,DV=64,T=f16$' log.txt
expect '^attention_decode D=64,DV=64,T=f16,GROUP=4,PAGE_ROWS=16$' log.txt
expect '^attention_forward D=64,DV=64,T=f16,CAUSAL=bottom_right,PACKED=true,CACHED=true,PAGE_ROWS=16$' log.txt
expect '^10 requests in [0-9]+ steps, [1-9][0-9]* of them mixed: [0-9]+ rows, [0-9]+ new tokens, greatest error .*: ok$' log.txt
expect '^(serve: SKIPPED the graph, there is no GPU: .+|in a graph: [0-9]+ rows per second, [0-9]+ new tokens per second)$' log.txt

refuse() { # TEXT ARGUMENTS: the program fails with it
  if "$program" "${@:2}" >refused.txt 2>&1; then
    echo "was not refused: ${*:2}"
    exit 1
  fi
  expect "$1" refused.txt
}
refuse '^serve: expected the names of three bundles: append, decode, prefill$' append.twb decode.twb
refuse "^serve: 'decode.twb' has no kernel or program 'attention_append'" decode.twb append.twb prefill.twb
refuse "^serve: '.*nothing.twb'|^serve: cannot .*nothing.twb" nothing.twb decode.twb prefill.twb
compile attention_decode pages-of-64.twb --param GROUP=4 --param PAGE_ROWS=64
refuse "^serve: 'pages-of-64.twb' .*'attention_decode'" append.twb pages-of-64.twb prefill.twb
