# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Completion of the tools for bash, and by bashcompinit for zsh. Each tool prints its own options, so that nothing here
# changes with them. Install it by a line in ~/.bashrc or ~/.zshrc:
#
#   source .../tools/completion/tilewright.bash

if [ -n "${ZSH_VERSION-}" ]; then
  autoload -U +X compinit && compinit
  autoload -U +X bashcompinit && bashcompinit
fi

_tilewright_prefix() {
  while IFS= read -r line; do
    printf '%s%s\n' "$1" "$line"
  done
}

# _tilewright_complete TOOL TOKEN BEFORE: prints the completions of TOKEN, one in each line: options; after an option and "="
# or a blank, the values that it lists; else files, also after "x=". BEFORE is the token before TOKEN.
_tilewright_complete() {
  local tool=$1 token=$2 option=$3 value prefix="" words
  case $token in
    -*=*) option=${token%%=*} prefix=${token%%=*}= ;;
    -*)
      "$tool" --print-options 2>/dev/null | cut -f1 | sed 's/^\(--[^=]*=\).*/\1/; s/^\(-[^-]\)=.*/\1/' | grep -e "^$token"
      return
      ;;
  esac
  value=${token#"$prefix"}
  words=$("$tool" --print-options 2>/dev/null | cut -f1 | grep -e "^$option=[^ ]*|" | head -n 1)
  if [ -n "$words" ]; then
    printf '%s\n' "${words#*=}" | tr '|' '\n' | grep -e "^$value" | _tilewright_prefix "$prefix"
    return
  fi
  case $value in
    *=*) value=${token##*=} prefix=${token%"${token##*=}"} ;;
  esac
  compgen -f -- "$value" | _tilewright_prefix "$prefix"
}

_tilewright() {
  # The words of bash end at "=" and ":", so the tokens are taken from the line.
  local line=${COMP_LINE:0:$COMP_POINT} token before prefix="" answer
  token=${line##*[[:space:]]}
  before=${line%"$token"}
  before=${before%"${before##*[![:space:]]}"}
  before=${before##*[[:space:]]}
  # bash replaces only the text after the last of these characters.
  if [ -n "${BASH_VERSION-}" ]; then
    prefix=${token%"${token##*[=:]}"}
  fi
  COMPREPLY=()
  while IFS= read -r answer; do
    COMPREPLY+=("${answer#"$prefix"}")
  done < <(_tilewright_complete "${COMP_WORDS[0]}" "$token" "$before")
  # No blank after "--emit=".
  case ${COMPREPLY[0]-} in
    *=) type compopt >/dev/null 2>&1 && compopt -o nospace 2>/dev/null ;;
  esac
  return 0
}

complete -o filenames -F _tilewright tilewright-run tilewrightc tilewright-opt tilewright-bench tilewright-demo \
  tilewright-reduce
