# The same steps as .ci/run, one at a time.

export CGO_ENABLED ?= 0

.PHONY: all build test race lint fuzz gen cover bench bench-relay crash soak soak-node sim interop

all: build lint test

build:
	go build -o ace ./cmd/ace

test:
	go test ./...

race:
	.ci/run race

lint:
	.ci/run static

# A short run of each fuzz target; FUZZ_SECONDS=60 for a longer one.
fuzz:
	.ci/run fuzz

# man/ and completions/ are made from the commands themselves.
gen:
	go run ./cmd/ace gen

cover:
	go test -coverpkg=./... -coverprofile=cover.out ./...
	go tool cover -func=cover.out | tail -n 1

bench:
	go test -run '^$$' -bench . -benchmem -count 7 ./bench/...

# The relay beside PostgreSQL, Redis and NATS, as far as they are installed. A
# short run: make bench-relay ROUNDS=1 SECONDS=1 QUEUED=10000.
ROUNDS ?= 7
SECONDS ?= 3
QUEUED ?= 1000000
bench-relay:
	go run -C bench/peers . -rounds $(ROUNDS) -seconds $(SECONDS) -queued $(QUEUED) $(BENCH_FLAGS)

# The relay killed and started again under load, a short round; KILLS=10000 for
# the long one, SEED=n to repeat the plan of another.
KILLS ?= 40
SEED ?= 0
crash:
	go test ./internal/crash -count=1 -run 'TestCrash$$' -kills $(KILLS) -seed $(SEED) -timeout 0 -v

# Two listeners and their relay, restarted and killed while keys are replaced; a
# soak that fails leaves its folder.
MINUTES ?= 1
soak:
	go test ./internal/crash -count=1 -run 'TestSoak$$' -minutes $(MINUTES) -seed $(SEED) -timeout 0 -v

# The same with a handler that fails, hangs and floods, over a relay that drops,
# doubles, delays and refuses.
soak-node:
	go test ./internal/crash -count=1 -run 'TestNodeSoak$$' -minutes $(MINUTES) -seed $(SEED) -timeout 0 -v

# Simulated worlds of endpoints and relays, on all cores; SEEDS=100000 for a long
# round, which says each minute how far it is, SEED=n SEEDS=1 to see one again.
SEEDS ?= 1000
sim:
	go test ./internal/sim -count=1 -run 'TestSim$$' -seeds $(SEEDS) -seed $(SEED) -timeout 0 -v

# Against the JavaScript implementation beside the specification.
interop:
	.ci/run interop
