# Everything that one does with this repository. `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X main.version=$(VERSION)
SQLC     := CGO_ENABLED=0 go tool -modfile=internal/tools/sqlc.mod sqlc
LINT     := go tool -modfile=internal/tools/lint.mod golangci-lint
PACKAGES ?= ./...
BENCHED   = $(sort $(patsubst %/,./%,$(dir $(shell git grep -l 'func Benchmark' -- '*_test.go'))))
FLEETS    = 10,100,1000

.PHONY: help setup build demo demo-scrapy test test-unprivileged test-long chaos soak lint fix gen bench bench-go bench-fleet bench-loads clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what the machine lacks: Redis, Postgres, a browser, a virtual environment with Scrapy
	@./internal/tools/setup.sh

build: ## build bin/crawlkeeper
	@mkdir -p bin
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/crawlkeeper ./cmd/crawlkeeper

demo: build ## watch real crawlers being kept alive, on private servers (FOR=20s ends it)
	@./internal/tools/setup.sh servers
	./bin/crawlkeeper demo $(if $(FOR),--for $(FOR))

demo-scrapy: build ## the same with the Scrapy project of examples/scrapy
	@./internal/tools/setup.sh scrapy
	./bin/crawlkeeper demo --scrapy $(if $(FOR),--for $(FOR))

test: setup ## every test, with the race detector, against real servers
	go test -race -timeout 20m $(PACKAGES)
	cd examples/scrapy && ../../.venv/bin/python -m unittest -q

test-unprivileged: setup ## every test as an ordinary user without capabilities; only root can become one
	./internal/tools/unprivileged.sh -race -timeout 30m $(PACKAGES)

test-long: setup ## soaks, long fuzzing, nightly things (FUZZ=10m for each target)
	CRAWLKEEPER_TEST_LONG=1 go test -race -timeout 3h $(PACKAGES)
	./internal/tools/fuzz.sh $(or $(FUZZ),10m)

chaos: setup ## break everything at random, storm after storm (FOR=5m, SEED=7 for that one again, STORM=60s, CRAWLERS=30, ONLY=redis)
	go test -race -count=1 -v -timeout 0 -run 'TestBreaker$$' ./internal/chaos -args -for $(or $(FOR),5m) -seed $(or $(SEED),0) -storm $(or $(STORM),60s) -crawlers $(or $(CRAWLERS),30) -only '$(ONLY)' $(if $(AGAIN),-again)

soak: setup ## a day of a fleet, compressed; takes no more at its end (FOR=30m CRAWLERS=200)
	go test -count=1 -timeout 0 -v -run 'TestSoak$$' ./internal/e2e -args -soak $(or $(FOR),30m) -soak-crawlers $(or $(CRAWLERS),200)

lint: ## formatting, vet, golangci-lint, modernisations, generated code
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt would change:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	$(LINT) run ./...
	@diff=$$(go fix -diff ./...); test -z "$$diff" || { echo "$$diff"; echo "run: make fix"; exit 1; }
	$(SQLC) diff -f sql/sqlc.yaml

fix: ## format and modernise
	gofmt -w $$(git ls-files '*.go')
	go fix ./...

gen: ## generate code anew: queries, the configuration's schema
	$(SQLC) generate -f sql/sqlc.yaml
	go generate ./...

bench: $(if $(N),,bench-go) bench-fleet ## what it costs: hot paths and whole fleets (N=1000: a fleet of that size alone)

bench-go: ## Go benchmarks of the hot paths, for benchstat (COUNT=10, PACKAGES=./sql)
	@./internal/tools/setup.sh servers >&2
	go test -run '^$$' -bench . -benchmem -count $(or $(COUNT),1) $(if $(filter ./...,$(PACKAGES)),$(BENCHED),$(PACKAGES))

bench-fleet: build ## whole fleets beside a floor (N=10,100,1000 JSON=1 ARGS='-rest 60s')
	@./internal/tools/setup.sh servers >&2
	@go run ./internal/bench -n $(or $(N),$(FLEETS)) $(if $(JSON),-json) $(ARGS)

bench-loads: build ## special loads, in one table (LOADS=cron,lines JSON=1 ARGS='-cron-sources 1000')
	@./internal/tools/setup.sh servers >&2
	@go run ./internal/bench -loads $(or $(LOADS),all) -rest 60s $(if $(JSON),-json) $(ARGS)

clean: ## remove what was built
	rm -rf bin
