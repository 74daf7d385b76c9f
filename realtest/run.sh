#!/bin/sh
# Runs the tests of this folder: builds the router, then drives it in front of the engines that are installed.
#
#   run.sh [vllm|sglang|llama|ollama ...]      the router in front of two engines of each kind
#   run.sh users [NAME ...]             what users have before, behind and beside the router, over simulated engines
#   run.sh aiperf                       the router in front of simulated engines, measured by aiperf
#   DIRECT=1 run.sh [kind ...]          no router: what the tests expect of the engines themselves
#
# WARMPATH_REAL says where install.sh put things (~/.cache/warmpath-real), REAL_ROUTER names a router that is built
# already, REAL_LOGS a folder for the logs. Any further selection: TESTS="test_real.VLLMTest.test_count_tokens".
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
WARMPATH_REAL=${WARMPATH_REAL:-${HOME:-/tmp}/.cache/warmpath-real}
export WARMPATH_REAL
python=$WARMPATH_REAL/venv-clients/bin/python
if [ ! -x "$python" ]; then
  echo "run: the clients are not installed: run $here/install.sh clients $WARMPATH_REAL" >&2
  exit 2
fi
users=
if [ "${1:-}" = users ]; then
  users=yes
  shift
fi
[ $# -eq 0 ] || export REAL_KINDS="$*"
[ "$*" != aiperf ] || TESTS=${TESTS:-test_aiperf}
built=
if [ -n "${DIRECT:-}" ]; then
  unset REAL_ROUTER
elif [ -z "${REAL_ROUTER:-}" ]; then
  built=$(mktemp -d)
  trap 'rm -rf "$built"' EXIT
  (cd "$here/.." && go build -o "$built/warmpath" ./cmd/warmpath)
  export REAL_ROUTER="$built/warmpath"
fi
cd "$here"
if [ -n "$users" ]; then
  status=0
  "$python" -B -W ignore::ResourceWarning users.py "$@" || status=$?
  exit $status
fi
# shellcheck disable=SC2086 # TESTS may name several
"$python" -B -W ignore::ResourceWarning -m unittest -v ${TESTS:-test_real}
