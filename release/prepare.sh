#!/bin/sh
# Writes what packages hold beside the program: manual pages, completions, a configuration. Into .release/, the same bytes for the same commit.
set -eu
cd "$(dirname "$0")/.."
rm -rf .release
mkdir -p .release/man .release/completions
CGO_ENABLED=0 go build -trimpath -buildvcs=true -tags grpcnotrace -o .release/warmpath ./cmd/warmpath
.release/warmpath man .release/man
gzip -9n .release/man/*.1
.release/warmpath completion bash >.release/completions/warmpath.bash
.release/warmpath completion zsh >.release/completions/_warmpath
.release/warmpath completion fish >.release/completions/warmpath.fish
.release/warmpath init --output .release/warmpath.yaml
