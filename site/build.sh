#!/bin/sh
# Builds the documents as a static site into _site/ and checks it. Needs Python 3.11 or later with venv; the tools it pins are installed into
# .venv-site/ the first time, and once more when requirements.txt has changed.
set -eu
cd "$(dirname "$0")/.."
venv=.venv-site
if ! cmp -s site/requirements.txt "$venv/requirements.txt"; then
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check --require-hashes -r site/requirements.txt
  cp site/requirements.txt "$venv/requirements.txt"
fi
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --clean -f site/mkdocs.yml
"$venv/bin/python" site/check.py _site
