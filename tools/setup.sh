#!/usr/bin/env bash
# Creates the virtual environment that every target uses. Says what is missing and how to get it.
set -euo pipefail
if [ -z "${PYTHON:-}" ]; then
  echo "landed needs Python 3.11 or newer and found none on the PATH." >&2
  echo "Install one (Debian: apt-get install python3 python3-venv; macOS: brew install python) or name it: make PYTHON=/path/to/python3" >&2
  exit 1
fi
if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "landed needs Python 3.11 or newer; $PYTHON is $("$PYTHON" --version 2>&1)." >&2
  exit 1
fi
if ! "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null; then
  echo "$PYTHON cannot create virtual environments (Debian: apt-get install python3-venv)." >&2
  exit 1
fi
if ! { [ -x "$VENV/bin/python" ] && "$VENV/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }; then
  echo "Creating $VENV with $("$PYTHON" --version 2>&1) …"
  rm -rf "$VENV"
  "$PYTHON" -m venv "$VENV"
fi
echo "Installing dependencies into $VENV …"
if ! "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check -e '.[dev]'; then
  echo "The dependencies could not be installed: landed needs reach to a Python package index (see pip config, PIP_INDEX_URL)." >&2
  exit 1
fi
