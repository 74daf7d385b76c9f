# Shortcuts for what CONTRIBUTING.md describes. Run "make" for the list.

.DEFAULT_GOAL := help
FUZZ ?= 30s
PKG ?= ./prompt

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: ## run all tests
	go test ./...

.PHONY: race
race: ## run all tests under the race detector
	CGO_ENABLED=1 go test -race ./...

.PHONY: fmt
fmt: ## format the code
	go run mvdan.cc/gofumpt@v0.12.0 -l -w .

.PHONY: lint
lint: ## go vet and staticcheck
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

.PHONY: fuzz
fuzz: ## fuzz one package, each target for a while: make fuzz PKG=./engine FUZZ=2m
	@for target in $$(grep -hoE '^func Fuzz[A-Z][A-Za-z0-9_]*' $(PKG)/*_test.go | sed 's/^func //'); do \
		echo "$(PKG) $$target"; \
		go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZ) $(PKG) || exit 1; \
	done

.PHONY: golden
golden: ## write the golden scripts anew; read the diff before you commit it
	go test ./policy ./route ./sim ./sim/engine -rewrite

.PHONY: docs
docs: ## write the generated references in docs/ anew
	go test ./internal/metrics -run TestReference -update
	go test ./internal/config -run TestReference -update

.PHONY: figures
figures: ## write the tables of measured figures in docs/ anew; some minutes
	go test ./sim -run 'TestScenarios|TestWholeAnswers|FirstTurns|GateAndCap|TestFlooded|TestMechanisms|TestLeaving' -long -rewrite

.PHONY: results
results: ## measure policies on the grid and write docs/results.md, an hour of one core: make results TRACES=/path/to/traces
	cd bench && go run ./results -traces "$(TRACES)"

.PHONY: build
build: ## build a static binary, bin/warmpath
	CGO_ENABLED=0 go build -trimpath -tags grpcnotrace -ldflags='-s -w' -o bin/warmpath ./cmd/warmpath

.PHONY: release
release: ## make a release in dist/ without publishing it: programs, deb, rpm, image, SBOM, checksums
	GOBIN=$(CURDIR)/bin GOFLAGS= go install github.com/goreleaser/goreleaser/v2@v2.14.0
	GOBIN=$(CURDIR)/bin GOFLAGS= go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
	PATH="$(CURDIR)/bin:$$PATH" bin/goreleaser release --snapshot --clean
	$(MAKE) image

.PHONY: image
image: ## pack the programs in dist/ into an OCI image, dist/image.tar; make release has made them
	cd release && go run ./image -out ../dist/image.tar -tag "$$(sed -n 's/.*"version":"\([^"]*\)".*/\1/p' ../dist/metadata.json)" \
		-at "$$(TZ=UTC0 git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)" \
		amd64=../dist/warmpath_linux_amd64_v1/warmpath arm64=../dist/warmpath_linux_arm64_v8.0/warmpath
	cd dist && grep -v ' image.tar$$' SHA256SUMS >sums && sha256sum image.tar >>sums && mv sums SHA256SUMS

.PHONY: reproducible
reproducible: ## make the release twice and compare it byte for byte; some minutes
	release/reproducible.sh

.PHONY: site
site: ## the documents as a static site in _site/, checked; needs Python 3.11 (look at it: python3 -m http.server -d _site)
	site/build.sh

.PHONY: demo
demo: ## simulated engines, the router and round robin side by side
	go run ./cmd/warmpath demo

.PHONY: bench
bench: ## measure the router against nginx and HAProxy (bench/README.md)
	cd bench && go run .

.PHONY: arena
arena: ## the routers of public registries and warmpath, side by side (docs/arena.md); installs them, then about 10 minutes on two cores
	cd bench && go run ./arena

.PHONY: clients
clients: ## install what users have (client libraries, agents, LiteLLM, aiperf, a collector) and play each against the router
	realtest/install.sh users
	realtest/run.sh users

.PHONY: ci
ci: ## everything that CI checks
	.ci/run
