#!/usr/bin/env bash
# Everything that is checked, layer by layer, with the seconds of each. Stops at the first layer that fails.
set -euo pipefail
BIN=.venv/bin
summary=()

layer() {
  local name=$1 began=$SECONDS
  shift
  printf '\n=== %s\n' "$name"
  if ! "$@"; then
    printf '\nFAILED: %s\n' "$name" >&2
    exit 1
  fi
  summary+=("$(printf '%-28s %4d s' "$name" $((SECONDS - began)))")
}

other_pythons() {
  # Every other supported Python on this machine, by what answers and not by what is merely on the PATH.
  local own seen
  own=$("$BIN/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  seen=" $own "
  for candidate in $(compgen -c python3. | sort -u) "$HOME"/.pyenv/versions/3.*/bin/python3; do
    version=$("$candidate" -c 'import sys, venv, ensurepip; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
    case "$version" in 3.1[1-9]) ;; *) continue ;; esac
    case "$seen" in *" $version "*) continue ;; esac
    seen="$seen$version "
    echo "$version $candidate"
  done
}

on_other_python() {
  local version=$1 python=$2 venv=.venvs/$1
  if [ ! -x "$venv/bin/pytest" ]; then
    "$python" -m venv "$venv" && "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[dev]'
  fi
  "$venv/bin/pytest" -q -n 2 tests/unit tests/contract
}

layer "format and lint" bash -c "$BIN/ruff check . && $BIN/ruff format --check ."
layer "types" bash -c "$BIN/mypy && $BIN/mypy demo bench --exclude bench/irrevon"
layer "architecture" $BIN/lint-imports
layer "unit, property, contract" $BIN/pytest -q -n 2 tests/unit tests/property tests/contract
layer "simulation" $BIN/pytest -q -n 2 tests/simulation
layer "cases" $BIN/pytest -q -n 2 tests/cases
layer "registry for the tests" $BIN/python -m tests.schema_registry
layer "integration" $BIN/pytest -q -n 2 --dist loadfile tests/integration
layer "end to end" $BIN/pytest -q -n 2 --dist loadfile tests/e2e
layer "chaos" $BIN/pytest -q -n 2 --dist loadfile tests/chaos
while read -r version python; do
  [ -n "$version" ] && layer "unit, contract on $version" on_other_python "$version" "$python"
done < <(other_pythons)

printf '\nLayers:\n'
printf '  %s\n' "${summary[@]}"
