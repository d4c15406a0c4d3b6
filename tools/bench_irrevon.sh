#!/usr/bin/env bash
# Creates the environment of IrrevonBench's harness where it is missing, and runs the benchmark in it. Arguments go to the benchmark.
set -euo pipefail
cd "$(dirname "$0")/.."
PACKAGE=irrevon==0.1.0
VENV=.venvs/irrevon
STAMP=$VENV/.ready

python_for_it() {
  # The package asks for 3.13; it also runs on what this project itself runs on.
  local candidate
  for candidate in $(compgen -c python3.13 | sort -u) "$HOME"/.pyenv/versions/3.13*/bin/python3 .venv/bin/python; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
}

if [ "$(cat "$STAMP" 2>/dev/null)" != "$PACKAGE" ] || ! "$VENV/bin/python" -c 'import irrevon' 2>/dev/null; then
  python=$(python_for_it)
  echo "Creating $VENV with $("$python" --version 2>&1) and $PACKAGE …" >&2
  rm -rf "$VENV"
  "$python" -m venv "$VENV"
  if ! "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --ignore-requires-python "$PACKAGE"; then
    echo "$PACKAGE could not be installed: the benchmark needs reach to a Python package index that has it (see pip config, PIP_INDEX_URL)." >&2
    exit 3
  fi
  echo "$PACKAGE" >"$STAMP"
fi
exec "$VENV/bin/python" -m "${BENCH_IRREVON_MODULE:-bench.irrevon}" "$@"
