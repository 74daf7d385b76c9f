#!/bin/sh
# Starts two real engines and the router in front of them, and stops all on Ctrl-C.
#
#   serve.sh vllm|sglang|llama|ollama [further options of router.py: --ports, --listen, --admin, --logs, --dir]
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
router=${REAL_ROUTER:-}
if [ -z "$router" ]; then
  bin=$(mktemp -d)
  trap 'rm -rf "$bin"' EXIT
  (cd "$here/.." && go build -o "$bin/warmpath" ./cmd/warmpath)
  router=$bin/warmpath
fi
trap : INT TERM # router.py ends on them and stops what it started; this shell then cleans up
python3 -B "$here/router.py" "$@" --router "$router" &
pid=$!
wait "$pid" || kill -TERM "$pid" 2>/dev/null || :
wait "$pid" 2>/dev/null || :
