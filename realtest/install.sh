#!/bin/sh
# Installs real engines and the official clients for the tests of this folder.
#
#   install.sh vllm|sglang|llama|ollama|clients|users|aiperf|nixl|nixl_sglang|all [DIR]
#
# DIR is $WARMPATH_REAL or ~/.cache/warmpath-real. Nothing outside DIR is changed and nothing needs root. Python packages
# come from the configured package index, llama-server from the Debian archive that apt is configured for. What is there
# already is left as it is. Runs at low priority; every step has a time limit ($STEP_TIMEOUT seconds, 1200).
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
what=${1:-}
dir=${2:-${WARMPATH_REAL:-${HOME:-/tmp}/.cache/warmpath-real}}
limit=${STEP_TIMEOUT:-1200}

say() { echo "install: $*"; }
fail() { echo "install: $*" >&2; exit 1; }
need() { command -v "$1" >/dev/null 2>&1 || fail "$2"; }
bounded() { timeout "$limit" nice -n 10 "$@" || fail "failed or took over $limit s: $*"; }

# python311 prints a Python 3.11; the pinned wheels were tried with that version. PYTHON names another one to try.
python311() {
  for p in "${PYTHON:-}" python3.11 python3; do
    if [ -n "$p" ] && command -v "$p" >/dev/null 2>&1; then
      if [ "$p" = "${PYTHON:-}" ] || "$p" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
        echo "$p"
        return
      fi
    fi
  done
  fail "needs Python 3.11 with venv (Debian 12: apt-get install python3.11-venv), or PYTHON=/path/to/another"
}

# venv NAME PINS [pip options...] makes DIR/NAME and installs the pins, unless it has done so for these very pins.
venv() {
  name=$1 pins=$2
  shift 2
  mark=$dir/$name/installed
  if cmp -s "$here/$pins" "$mark"; then
    say "$name is there"
    return
  fi
  python=$(python311)
  say "installing $name (Python packages of $pins)"
  bounded "$python" -m venv "$dir/$name"
  bounded "$dir/$name/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@" -r "$here/$pins"
  fresh=yes
}

# done_with NAME PINS remembers that the pins are installed, as the last step.
done_with() { cp "$here/$2" "$dir/$1/installed"; }

# cuda_stand_ins NAME gives torch the CUDA libraries that its default build is linked to: empty ones, since nothing of them
# is called on a CPU. They save 3 GB. With TORCH_USE_RTLD_GLOBAL=1 torch binds lazily and never looks for their functions.
cuda_stand_ins() {
  need cc "needs a C compiler named cc (Debian: apt-get install gcc libc6-dev)"
  lib=$("$dir/$1/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/torch/lib
  for so in libcublas.so.13 libcublasLt.so.13 libcudnn.so.9 libcufft.so.12 libcufile.so.0 libcupti.so.13 libcurand.so.10 \
    libcusolver.so.12 libcusparse.so.12 libcusparseLt.so.0 libnccl.so.2 libnvrtc.so.13 libnvshmem_host.so.3; do
    [ -e "$lib/$so" ] || echo 'int stand_in;' | cc -x c -shared -fPIC -nostdlib -Wl,-soname,"$so" -o "$lib/$so" -
  done
}

# model NAME makes the model folder with that environment's own libraries.
model() {
  [ -e "$dir/model/model.safetensors" ] && return
  say "making a random model in $dir/model"
  bounded "$dir/$1/bin/python" "$here/make_model.py" "$dir/model.new"
  rm -rf "$dir/model"
  mv "$dir/model.new" "$dir/model"
}

install_vllm() {
  ldconfig -p 2>/dev/null | grep -q 'libnuma\.so\.1' || fail "needs libnuma.so.1 (Debian: apt-get install libnuma1)"
  install_torch_engine venv-vllm pins-vllm.txt
  newest_vllm
}

# The newest vLLM whose build for CPU is published is 0.32.0. What is newer is made of its own Python files, over what that build has compiled.
VLLM=0.33.0
newest_vllm() {
  mark=$dir/venv-vllm/newest
  if [ "$(cat "$mark" 2>/dev/null)" != "$VLLM" ]; then
    say "putting the Python files of vLLM $VLLM into venv-vllm"
    bounded "$dir/venv-vllm/bin/python" -m pip download --quiet --disable-pip-version-check --no-input --no-deps --only-binary=:all: \
      -d "$dir/wheel" "vllm==$VLLM"
    bounded "$dir/venv-vllm/bin/python" -B "$here/overlay.py" "$dir/wheel/vllm-$VLLM"-*.whl
    rm -rf "$dir/wheel"
    echo "$VLLM" >"$mark"
  fi
}

# nixl adds to vLLM what hands KV cache over. Two lines are changed, each without effect unless its variable is set: NIXL's progress
# thread polls without a pause, and vLLM's worker spins for a second after each message, so that two idle engines keep two cores busy.
install_nixl() {
  [ -e "$dir/venv-vllm/installed" ] || install_vllm
  bounded "$dir/venv-vllm/bin/python" -m pip install -q --no-deps -r "$here/pins-nixl.txt"
  lib=$("$dir/venv-vllm/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  sed -i 's/agent_config.pthrDelay = 0$/agent_config.pthrDelay = int(__import__("os").environ.get("NIXL_PTHR_DELAY_US", "0"))/' "$lib/nixl_cu13/_api.py"
  grep -q VLLM_YIELD_SLEEP_S "$lib/vllm/distributed/utils.py" ||
    sed -i 's/^def sched_yield():$/_YIELD_SLEEP = float(os.environ.get("VLLM_YIELD_SLEEP_S", "0"))\n\n\ndef sched_yield():\n    if _YIELD_SLEEP > 0:\n        return time.sleep(_YIELD_SLEEP)/' "$lib/vllm/distributed/utils.py"
  grep -q NIXL_PTHR_DELAY_US "$lib/nixl_cu13/_api.py" && grep -q VLLM_YIELD_SLEEP_S "$lib/vllm/distributed/utils.py" || fail "vLLM or nixl is not the version that is known"
  touch "$dir/venv-vllm/nixl"
}

# nixl_sglang adds to SGLang what hands KV cache over. What must be changed in NIXL for it, shim/sitecustomize.py changes while it runs.
install_nixl_sglang() {
  [ -e "$dir/venv-sglang/installed" ] || install_sglang
  bounded "$dir/venv-sglang/bin/python" -m pip install -q --no-deps -r "$here/pins-nixl.txt"
  touch "$dir/venv-sglang/nixl"
}

install_sglang() { install_torch_engine venv-sglang pins-sglang.txt; }

install_torch_engine() {
  fresh=no
  venv "$1" "$2" --no-deps
  cuda_stand_ins "$1"
  model "$1"
  done_with "$1" "$2"
}

install_clients() {
  venv venv-clients pins-clients.txt
  done_with venv-clients pins-clients.txt
}

# users installs what test_clients.py plays beside the official Python clients; one that cannot be installed is left out, and its
# test says so.
install_users() {
  install_clients
  for part in langchain openai_agents agents openai_go otelcol litellm aiperf; do
    ("install_$part") || say "$part is left out"
  done
}

install_langchain() {
  venv venv-langchain pins-langchain.txt
  done_with venv-langchain pins-langchain.txt
}

install_openai_agents() {
  venv venv-openai-agents pins-openai-agents.txt
  done_with venv-openai-agents pins-openai-agents.txt
}

# agents are Node programs: the official Node client, the AI SDK, Claude Code and Codex (710 MB).
install_agents() {
  if cmp -s "$here/clients/package-lock.json" "$dir/node/installed"; then
    say "the Node programs are there"
    return
  fi
  need npm "needs npm of Node 20 or later (Debian: apt-get install npm)"
  say "installing the Node programs of clients/package.json"
  mkdir -p "$dir/node"
  cp "$here/clients/package.json" "$here/clients/package-lock.json" "$dir/node/"
  (cd "$dir/node" && bounded npm ci --no-audit --no-fund --loglevel=error) || exit 1
  cp "$here/clients/package-lock.json" "$dir/node/installed"
}

install_openai_go() { go_program openai-go; }

install_otelcol() { go_program otelcol; }

# go_program NAME builds clients/NAME, a module of its own.
go_program() {
  need go "needs Go"
  if cmp -s "$here/clients/$1/go.sum" "$dir/$1/installed" && [ "$dir/$1/$1" -nt "$here/clients/$1/main.go" ]; then
    say "$1 is there"
    return
  fi
  say "building $1"
  mkdir -p "$dir/$1"
  (cd "$here/clients/$1" && bounded env GOWORK=off go build -o "$dir/$1/$1" .) || exit 1
  cp "$here/clients/$1/go.sum" "$dir/$1/installed"
}

# litellm is one of the routers of the arena, which installs it.
install_litellm() {
  need go "needs Go"
  (cd "$here/../bench" && bounded go run ./arena -install -only litellm) || exit 1
}

# aiperf needs a tokenizer, which it would fetch: it gets one of our own, in a cache made by hand.
install_aiperf() {
  venv venv-aiperf pins-aiperf.txt
  if [ ! -e "$dir/cache/hf/hub/models--local--tiny/refs/main" ]; then
    say "making a tokenizer in $dir/cache/hf"
    rm -rf "$dir/cache/hf/hub/models--local--tiny"
    bounded "$dir/venv-aiperf/bin/python" -B "$here/make_tokenizer.py" "$dir/cache/hf/hub"
  fi
  done_with venv-aiperf pins-aiperf.txt
}

# llama-server is in Debian from forky on. Its packages, and the C library they are built for, are unpacked into DIR and never
# installed: apt works on lists of its own in DIR/apt, with the archive and the keys that this machine's apt already trusts.
install_llama() {
  if [ -x "$dir/llama/root/usr/bin/llama-server" ]; then
    say "llama-server is there"
  else
    need apt-get "llama-server is taken from Debian packages and this machine has no apt-get; see README.md"
    need dpkg-deb "needs dpkg-deb"
    archive=$(debian_archive)
    [ -n "$archive" ] || fail "apt has no Debian archive (a source with Origin Debian); run apt-get update once"
    private_apt "$archive" "${SUITE:-forky}"
    say "fetching the packages of llama-server"
    (cd "$dir/apt/debs" && bounded apt-get -q download llama.cpp-tools libllama0 libggml0 libc6 libssl3t64 libstdc++6 \
      libgcc-s1 libgomp1 libzstd1 zlib1g) || exit 1
    rm -rf "$dir/llama/root.new"
    mkdir -p "$dir/llama/root.new"
    for deb in "$dir"/apt/debs/*.deb; do
      bounded dpkg-deb -x "$deb" "$dir/llama/root.new"
    done
    rm -rf "$dir/apt" "$dir/llama/root"
    mv "$dir/llama/root.new" "$dir/llama/root"
    unset APT_CONFIG
  fi
  tiny_gguf
}

# tiny_gguf makes the model of llama-server and Ollama, or makes it anew when it is older than what makes it.
tiny_gguf() {
  if [ "$dir/llama/tiny.gguf" -nt "$here/make_gguf.py" ]; then
    return
  fi
  need python3 "needs python3 to write the model"
  say "making a random model in $dir/llama/tiny.gguf"
  mkdir -p "$dir/llama"
  bounded python3 "$here/make_gguf.py" "$dir/llama/tiny.gguf.new"
  mv "$dir/llama/tiny.gguf.new" "$dir/llama/tiny.gguf"
}

# ollama is in no package archive: one that is installed is used, and only its model is made. OLLAMA names another one.
install_ollama() {
  found=$(command -v "${OLLAMA:-ollama}") || fail "Ollama is not installed, or its bin/ollama not named in OLLAMA; it is in no package archive: see ollama.com"
  mkdir -p "$dir/ollama/bin"
  ln -sf "$(readlink -f "$found")" "$dir/ollama/bin/ollama"
  tiny_gguf
}

# debian_archive prints the address of the Debian archive that apt is configured for.
debian_archive() {
  apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    awk '$1 == "Debian" && $2 !~ /security/ { print $2; exit }'
}

# private_apt ARCHIVE SUITE points apt at lists of its own for the rest of this run.
private_apt() {
  say "reading the package lists of Debian $2"
  mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial" "$dir/apt/debs"
  : >"$dir/apt/status"
  echo "deb $1 $2 main" >"$dir/apt/sources.list"
  cat >"$dir/apt/apt.conf" <<EOF
Dir::Etc::sourcelist "$dir/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State::lists "$dir/apt/lists";
Dir::State::status "$dir/apt/status";
Dir::Cache "$dir/apt/cache";
Acquire::Languages "none";
APT::Sandbox::User "";
EOF
  export APT_CONFIG="$dir/apt/apt.conf"
  bounded apt-get -q update
}

case $what in
vllm | sglang | llama | ollama | clients | users | langchain | openai_agents | agents | openai_go | otelcol | litellm | aiperf | nixl | nixl_sglang | all) ;;
*) fail "usage: install.sh vllm|sglang|llama|ollama|clients|users|langchain|openai_agents|agents|openai_go|otelcol|litellm|aiperf|nixl|nixl_sglang|all [DIR]" ;;
esac
mkdir -p "$dir"
dir=$(CDPATH='' cd -- "$dir" && pwd)
start=$(date +%s)
if [ "$what" = all ]; then
  install_clients
  install_aiperf
  install_llama
  install_vllm
  install_sglang
else
  "install_$what"
fi
say "$what: done in $(($(date +%s) - start)) s, in $dir"
