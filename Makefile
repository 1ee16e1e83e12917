# What people run. The scripts behind it are in tools/; each says at its top what it does.
.PHONY: help run build test e2e sdk-suites lint generate bench bench-shared bench-functions package-functions bench-bucket

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 14

run: ## serve on the embedded store, with data in ./tailrace-data (ARGS="--memory" for flags)
	go run ./cmd/tailrace serve $(ARGS)

build: ## bin/tailrace
	go build -trimpath -o bin/tailrace ./cmd/tailrace

test: ## everything: lint, generated files, race-checked tests, end-to-end suites; names what it left out
	tools/test

e2e: ## only the end-to-end suites, against a fresh build
	tools/test build e2e e2e-shared e2e-bucket

sdk-suites: ## the public S2 SDKs' own suites, from their checkouts in PEERS=DIR (SUITES="go ts python verification")
	tools/sdk-suites "$(PEERS)" $(SUITES)

lint: ## gofmt, vet, staticcheck, module checks
	tools/lint

sim: ## simulate SEEDS seeds from FIRST on (drawn if absent), as docs/correctness.md says
	go test ./coordinator/sim -run 'TestSeeds$$' -v -timeout 0 -sim.limit 0 -sim.seeds $(or $(SEEDS),1000) -sim.first $(or $(FIRST),0)

generate: ## write the generated files anew
	go generate ./...

bench: ## measure a fresh server beside the file system below it, as Markdown for docs/results.md
	BENCH_COMMAND="make bench" go run ./e2e/bench $(ARGS)

bench-shared: ## the same on a bucket and a table, beside those two alone
	BENCH_COMMAND="make bench-shared" TAILRACE_E2E_STORES=s3+dynamodb tools/with-servers versitygw dynalite -- go run ./e2e/bench $(ARGS)

bench-bucket: ## the same on a bucket alone (STORE=minio for another than versitygw)
	BENCH_COMMAND="make bench-bucket$(if $(STORE), STORE=$(STORE))" TAILRACE_E2E_STORES=s3+s3 tools/with-servers $(or $(STORE),versitygw) -- go run ./e2e/bench $(ARGS)

bench-functions: ## measure the Lambda functions beside one that does nothing, in the emulator of AWS
	BENCH_COMMAND="make bench-functions" tools/with-servers versitygw dynalite -- go run ./e2e/bench/functions $(ARGS)

package-functions: ## bin/functions/ARCH/NAME.zip of the Lambda functions, the same bytes on every machine (ARGS="-arch arm64")
	go run ./tools/packagefunctions $(ARGS)
