# Entrepôt. `make` alone says what there is. Each target installs what it needs into .venv, once.

PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
# One stamp for each set of packages: serving, Spark beside it, everything.
CORE   := $(VENV)/.installed-core
SPARK  := $(VENV)/.installed-spark
TIERED := $(VENV)/.installed-tiered
DEV    := $(VENV)/.installed
SHELL  := /bin/bash
TEST_WORKERS ?= 3
SOAK_MINUTES ?= 60
PYTEST := $(BIN)/python -m pytest
SIDE_BY_SIDE = -n $(TEST_WORKERS) --dist loadgroup

# Without Python's cache each of many test processes and commands would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run cluster test interop soak test-busy conformance check format coverage bench profile demo demo-spark demo-tier docs proto sbom vulnerabilities peers peers-npm peers-go peers-etcd peers-maven peers-java-sdk peers-amqp-java peers-go-sdk peers-rust engine lock clean

help: ## this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(DEV) ## create .venv with all that tests and tools need: 1.7 GB, 2 minutes; the command is .venv/bin/entrepot

# What is there already is not asked for again: a larger set stands for the smaller ones.
$(CORE): pyproject.toml setup.py constraints.txt
	@[ -n "$$(find $(SPARK) $(DEV) -newer pyproject.toml -newer setup.py -newer constraints.txt 2>/dev/null)" ] || \
	  { $(call install,.,what serving needs,200 MB and half a minute,--no-compile) ; }
	@touch $@

$(SPARK): pyproject.toml setup.py constraints.txt
	@[ -n "$$(find $(DEV) -newer pyproject.toml -newer setup.py -newer constraints.txt 2>/dev/null)" ] || \
	  { $(call install,.[spark],Spark with a Java of its own,1.2 GB and a minute and a half) ; }
	@touch $(CORE) $@

$(TIERED): pyproject.toml setup.py constraints.txt
	@[ -n "$$(find $(DEV) -newer pyproject.toml -newer setup.py -newer constraints.txt 2>/dev/null)" ] || \
	  { $(call install,.[tiered$(comma)demo],what a folder of cold messages needs,500 MB and a minute) ; }
	@touch $(CORE) $@

$(DEV): pyproject.toml setup.py constraints.txt
	@$(call install,.[dev],what tests and tools need,1.7 GB and two minutes)
	@touch $(CORE) $(SPARK) $@

comma := ,

# $(1): what pip is asked for; $(2), $(3): how that is told; $(4): more for pip.  Of what pip says, every tenth package is
# a line.  A first start compiles the little that it loads sooner than pip compiles all; many tests at once do not.
define install
set -e -o pipefail; \
python=$$(command -v $(PYTHON) || command -v python3) || { echo "Python 3.11 is needed and not there" >&2; exit 1; }; \
"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
  || { echo "Python 3.11 or later is needed, $$("$$python" --version) is there: make setup PYTHON=..." >&2; exit 1; }; \
echo "Installing $(2) into $(VENV): about $(3), once."; \
[ -x $(BIN)/pip ] || "$$python" -m venv $(VENV); \
PYTHONUNBUFFERED=1 $(BIN)/python -m pip install --disable-pip-version-check $(4) --progress-bar off -c constraints.txt -e '$(1)' \
  | { n=0; while IFS= read -r line; do case "$$line" in \
        Collecting*|Processing*) n=$$((n + 1)); [ $$((n % 10)) -ne 0 ] || echo "  $$n packages found";; \
        "Installing collected"*) echo "  unpacking them";; \
      esac; done; }
endef

run: $(CORE) ## start the server with a store under ./data (make run ARGS='--mqtt-port 1884')
	@exec $(BIN)/entrepot serve $(ARGS)

cluster: $(CORE) ## start 3 name servers, 3 replicas, 3 gateways on free ports (make cluster ARGS='--brokers 3')
	@exec $(BIN)/python -m deploy.cluster $(ARGS)

engine: setup peers-etcd peers-maven ## start a RocketMQ cluster, etcd and two gateways in front of them (with Java, Maven and Go)
	@exec $(BIN)/python -m tests.engine

test: setup ## everything once, cheaply: 10 minutes on two cores (make test ARGS='-k mqtt')
	$(PYTEST) --tier default $(SIDE_BY_SIDE) $(ARGS)

interop: setup ## other people's clients, suites and servers, after make peers; two hours (make interop ARGS='-k kombu')
	$(PYTEST) --tier interop $(SIDE_BY_SIDE) $(ARGS)
	[ -n "$(ARGS)" ] || { $(BIN)/python -m tests.conformance.amqp.run --record && $(BIN)/python -m tests.conformance.mqtt.report; }

soak: setup ## kills, clusters, floods, deep searches, planted faults (make soak SOAK_MINUTES=60; SEED=... repeats a round)
	$(BIN)/python -m tests.tiers.soak --minutes $(SOAK_MINUTES) --workers $(TEST_WORKERS) $(if $(SEED),--seed $(SEED)) $(ARGS)

test-busy: setup ## make test three times beside two processes that keep the cores busy
	$(BIN)/python -m tests.tiers.busy --workers $(TEST_WORKERS) $(ARGS)

conformance: setup ## other people's AMQP suites, here and on RabbitMQ; an hour and a half (make conformance ARGS='kombu --record')
	$(BIN)/python -m tests.conformance.amqp.run $(ARGS)

check: setup ## format, lint, strict types, import contracts, circles of folders, lengths, dead code
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -q tests/unit/test_folder_circles.py tests/unit/test_lengths.py
	$(BIN)/vulture

format: setup ## put the code in its format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

coverage: setup ## branch coverage by room, of the default tier or of a part: make coverage ARGS='tests/unit/security'
	$(BIN)/python -m tests.tiers.coverage_by_room --workers $(TEST_WORKERS) $(ARGS)

bench: setup ## benchmarks beside other brokers (needs a C compiler; make bench ARGS=...)
	$(BIN)/python -m benchmarks $(ARGS)

profile: setup ## where the server's CPU time goes under a load: WORK=mqtt, amqp, http, remote or engine (needs a C compiler)
	$(BIN)/python -m benchmarks.profiled $(WORK) $(ARGS)

demo: $(CORE) ## devices, consumers and a killed server, and nothing lost
	$(BIN)/python examples/demo.py $(ARGS)

demo-tier: $(TIERED) ## messages that go cold into a folder, replayed over MQTT and read by DuckDB
	$(BIN)/python examples/demo_tier.py $(ARGS)

demo-spark: $(SPARK) ## 500 devices into a Delta table, a job that is killed, the reckoning and a page of plots
	$(BIN)/python examples/demo_spark.py $(ARGS)

docs: setup ## write references into docs/: settings, commands and API from the program, failures from the tests
	$(BIN)/python -m entrepot.gateway.cli.references docs
	$(BIN)/python -m tests.failures docs
	$(BIN)/python -m tests.contract_rocketmq docs
	$(BIN)/python -m tests.conformance.mqtt.report
	$(BIN)/python -m tests.walks
	$(BIN)/python -m tests.e2e.http.kept_document docs

proto: setup ## generate the stubs of protocols from their .proto
	$(BIN)/python -m grpc_tools.protoc -I . --python_out=. --mypy_out=quiet:. \
	  --plugin=protoc-gen-mypy=$(BIN)/protoc-gen-mypy entrepot/protocols/rocketmq/v2.proto entrepot/protocols/cloudevents/cloudevents.proto \
	  $(addprefix entrepot/protocols/etcd/,kv.proto auth.proto rpc.proto)

# Other people's programs that the tests talk to.  Debian starts servers of its own, on 1883, 5672 and 9090: they are stopped.
PEERS := mosquitto mosquitto-clients rabbitmq-server amqp-tools prometheus strace curl iproute2 chromium
peers: setup peers-npm peers-go peers-etcd peers-maven peers-java-sdk peers-amqp-java peers-go-sdk peers-rust ## install Debian's, npm's, Go's, Maven's and cargo's clients and servers that the tests use
	@set -eu; \
	if ! command -v apt-get >/dev/null; then echo "peers: no apt-get here, nothing installed; tests that need $(PEERS) are skipped"; exit 0; fi; \
	missing=; for p in $(PEERS); do dpkg-query -W -f='$${Status}' "$$p" 2>/dev/null | grep -q '^install ok installed' || missing="$$missing $$p"; done; \
	if [ -z "$$missing" ]; then echo "peers: $(PEERS) are there"; exit 0; fi; \
	if [ "$$(id -u)" = 0 ]; then root=; elif command -v sudo >/dev/null; then root=sudo; \
	else echo "peers: neither root nor sudo, not installed:$$missing"; exit 0; fi; \
	$$root apt-get update -qq; \
	$$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	for s in mosquitto rabbitmq-server prometheus; do case " $$missing " in *" $$s "*) \
	  if [ -d /run/systemd/system ]; then $$root systemctl disable --now $$s >/dev/null 2>&1 || true; \
	  else $$root service $$s stop >/dev/null 2>&1 || true; \
	    if command -v update-rc.d >/dev/null; then $$root update-rc.d $$s disable >/dev/null 2>&1 || true; fi; fi;; esac; done; \
	echo "peers: installed$$missing"

peers-npm:
	@if ! command -v npm >/dev/null; then echo "peers: no npm here, MQTT.js, amqplib, cloudevents and rocketmq-client-nodejs are not installed; their tests are skipped"; exit 0; fi; \
	if npm install --prefix tests/peers --no-save --no-package-lock --no-audit --no-fund --ignore-scripts --silent \
	  --fetch-retries 1 --fetch-timeout 60000; \
	then echo "peers: MQTT.js, amqplib, cloudevents and rocketmq-client-nodejs are there"; \
	else echo "peers: the npm registry does not answer, MQTT.js, amqplib, cloudevents and rocketmq-client-nodejs are not installed; their tests are skipped"; fi

# S3 servers, h2spec and etcd, each built once: minutes, most for SeaweedFS; PEERS_GO=no leaves them out.  "go install" of
# a version refuses a go.mod with replacements: SeaweedFS is built where Go has unpacked it, etcd in a module of our own.
VERSITYGW := v1.8.0
H2SPEC    := v2.2.1+incompatible
SEAWEEDFS := v0.0.0-20261109003541-7506e5f91cd6
GO_BIN    := $(CURDIR)/tests/peers/bin
peers-go:
	@if [ "$(PEERS_GO)" = no ]; then echo "peers: versitygw, SeaweedFS and h2spec are left out"; exit 0; fi; \
	if ! command -v go >/dev/null; then echo "peers: no Go here, versitygw, SeaweedFS and h2spec are not installed; their tests are skipped"; exit 0; fi; \
	mkdir -p $(GO_BIN); exec 2>$(GO_BIN)/log; failed=; \
	{ [ -e $(GO_BIN)/.versitygw-$(VERSITYGW) ] || \
	    { GOBIN=$(GO_BIN) go install -ldflags='-s -w' github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW) && touch $(GO_BIN)/.versitygw-$(VERSITYGW); }; } || failed="$$failed versitygw"; \
	{ [ -e $(GO_BIN)/.h2spec-$(H2SPEC) ] || \
	    { GOBIN=$(GO_BIN) go install -ldflags='-s -w' github.com/summerwind/h2spec/cmd/h2spec@$(H2SPEC) && touch $(GO_BIN)/.h2spec-$(H2SPEC); }; } || failed="$$failed h2spec"; \
	{ [ -e $(GO_BIN)/.seaweedfs-$(SEAWEEDFS) ] || \
	    { where=$$(go mod download -json github.com/seaweedfs/seaweedfs@$(SEAWEEDFS) | sed -n 's/^\t"Dir": "\(.*\)",$$/\1/p') && [ -n "$$where" ] && \
	      go -C "$$where" build -ldflags='-s -w' -o $(GO_BIN)/weed ./weed && touch $(GO_BIN)/.seaweedfs-$(SEAWEEDFS); }; } || failed="$$failed SeaweedFS"; \
	if [ -z "$$failed" ]; then echo "peers: versitygw, SeaweedFS and h2spec are there"; \
	else tail -3 $(GO_BIN)/log; echo "peers: Go did not build$$failed: tests with it are skipped"; fi

peers-etcd:
	@if [ "$(PEERS_GO)" = no ]; then echo "peers: etcd is left out"; exit 0; fi; \
	if ! command -v go >/dev/null; then echo "peers: no Go here, etcd is not installed; its tests are skipped"; exit 0; fi; \
	etcd=$$(sed -n 's|^\tgo.etcd.io/etcd/server/v3 \(v[0-9.]*\).*|\1|p' tests/peers/etcd/go.mod); stamp=$(GO_BIN)/.etcd-$$etcd; \
	if [ -e $$stamp ]; then echo "peers: etcd $$etcd is there"; exit 0; fi; \
	mkdir -p $(GO_BIN); \
	if go -C tests/peers/etcd build -ldflags='-s -w' -o $(GO_BIN)/etcd go.etcd.io/etcd/server/v3 2>$(GO_BIN)/etcd-log; \
	then touch $$stamp; echo "peers: etcd $$etcd is there"; \
	else tail -3 $(GO_BIN)/etcd-log; echo "peers: Go did not build etcd $$etcd: its tests are skipped"; fi

# Apache RocketMQ: 100 MB of jars, fetched once for the version that the pom says.
peers-maven:
	@version=$$(sed -n 's/.*<rocketmq.version>\(.*\)<.*/\1/p' tests/peers/pom.xml); into=tests/peers/rocketmq; \
	if ! command -v java >/dev/null; then echo "peers: no Java here, RocketMQ $$version is not fetched; its tests are skipped"; exit 0; fi; \
	if [ -e $$into/.fetched-$$version ]; then echo "peers: RocketMQ $$version is there"; exit 0; fi; \
	if ! command -v mvn >/dev/null; then echo "peers: no Maven here, RocketMQ $$version is not fetched; its tests are skipped"; exit 0; fi; \
	rm -rf $$into; mkdir -p $$into; \
	if mvn -B -q -f tests/peers/pom.xml dependency:copy-dependencies >$$into/log 2>&1; \
	then touch $$into/.fetched-$$version; echo "peers: RocketMQ $$version is there"; \
	else tail -3 $$into/log; echo "peers: Maven did not fetch RocketMQ $$version (the repository does not answer?); its tests are skipped"; fi

peers-java-sdk:
	@into=tests/peers/rocketmq-sdk; mkdir -p $$into; \
	if ! command -v mvn >/dev/null; then echo "peers: no Maven here, RocketMQ's Java SDK is not fetched; its tests are skipped"; exit 0; fi; \
	for version in $$(sed -n 's/.*<rocketmq.sdks>\(.*\)<.*/\1/p' tests/peers/pom.xml); do \
	  jar=rocketmq-client-java-$$version.jar; [ -e $$into/$$jar ] && { echo "peers: $$jar is there"; continue; }; \
	  if mvn -B -q dependency:copy -Dartifact=org.apache.rocketmq:rocketmq-client-java:$$version -DoutputDirectory=$$PWD/$$into >$$into/log 2>&1; \
	  then echo "peers: $$jar is there"; else tail -3 $$into/log; echo "peers: Maven did not fetch $$jar; its tests are skipped"; fi; done

# RabbitMQ's Java client with Netty, and Spring AMQP: 12 MB of jars, fetched once for the versions that the pom says.
peers-amqp-java:
	@from=tests/peers/amqp-java; into=$$from/lib; \
	client=$$(sed -n 's/.*<amqp-client.version>\(.*\)<.*/\1/p' $$from/pom.xml); spring=$$(sed -n 's/.*<spring-rabbit.version>\(.*\)<.*/\1/p' $$from/pom.xml); \
	said="amqp-client $$client and Spring AMQP $$spring"; stamp=$$from/.fetched-$$client-$$spring; \
	if [ -e $$stamp ]; then echo "peers: $$said are there"; exit 0; fi; \
	if ! command -v mvn >/dev/null; then echo "peers: no Maven here, $$said are not fetched; their tests are skipped"; exit 0; fi; \
	rm -rf $$into $$from/.fetched-*; mkdir -p $$into; \
	if mvn -B -q -f $$from/pom.xml dependency:copy-dependencies >$$into/log 2>&1; \
	then touch $$stamp; echo "peers: $$said are there"; \
	else tail -3 $$into/log; echo "peers: Maven did not fetch $$said (the repository does not answer?); their tests are skipped"; fi

# Programs with RocketMQ's Go module and Rust crate, each built once; PEERS_GO=no and PEERS_RUST=no leave them out.  The
# crate needs no protoc.
peers-go-sdk:
	@if [ "$(PEERS_GO)" = no ]; then echo "peers: RocketMQ's Go SDK is left out"; exit 0; fi; \
	if ! command -v go >/dev/null; then echo "peers: no Go here, RocketMQ's Go SDK is not built; its tests are skipped"; exit 0; fi; \
	from=tests/peers/rocketmq-go; into=$$from/built; program=$$into/rocketmq-go-host; mkdir -p $$into; \
	if [ $$program -nt $$from/main.go ] && [ $$program -nt $$from/go.mod ]; then echo "peers: RocketMQ's Go SDK is there"; exit 0; fi; \
	if go -C $$from build -ldflags='-s -w' -o built/rocketmq-go-host . 2>$$into/log; \
	then echo "peers: RocketMQ's Go SDK is there"; \
	else tail -3 $$into/log; echo "peers: Go did not build RocketMQ's Go SDK (the module proxy does not have it?): its tests are skipped"; fi

peers-rust:
	@if [ "$(PEERS_RUST)" = no ]; then echo "peers: RocketMQ's Rust SDK is left out"; exit 0; fi; \
	if ! command -v cargo >/dev/null; then echo "peers: no cargo here, RocketMQ's Rust SDK is not built; its tests are skipped"; exit 0; fi; \
	from=tests/peers/rocketmq-rust; into=$$from/built; program=$$into/rocketmq-rust-host; mkdir -p $$into; \
	if [ $$program -nt $$from/src/main.rs ] && [ $$program -nt $$from/Cargo.lock ]; then echo "peers: RocketMQ's Rust SDK is there"; exit 0; fi; \
	if cargo build --quiet --locked --manifest-path $$from/Cargo.toml --target-dir $$into/target 2>$$into/log; \
	then cp $$into/target/debug/rocketmq-rust-host $$into/; rm -rf $$into/target; echo "peers: RocketMQ's Rust SDK is there"; \
	else tail -3 $$into/log; echo "peers: cargo did not build RocketMQ's Rust SDK: its tests are skipped"; fi

# Tools for releases, in an environment of their own; a later pip than 25 does not run pip-tools 7.6.
RELEASE_TOOLS := 'pip<26' pip-tools==7.6.2 cyclonedx-bom==7.5.0 pip-audit==2.10.1
TOOLS := .venv-release
$(TOOLS)/.installed: Makefile
	rm -rf $(TOOLS)
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check $(RELEASE_TOOLS)
	@touch $@

lock: $(TOOLS)/.installed ## resolve every dependency anew: constraints.txt, and requirements.lock with hashes; 5 minutes
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/pip install --quiet --disable-pip-version-check '.[dev]'
	{ echo "# Every package of .venv, pinned. Made by 'make lock'; not edited by hand."; \
	  .venv-lock/bin/pip freeze --exclude entrepot | grep '=='; } > constraints.txt
	rm -rf .venv-lock build
	$(TOOLS)/bin/pip-compile --quiet --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	  --no-header --no-annotate --strip-extras --extra etcd -c constraints.txt -o requirements.lock pyproject.toml

sbom: $(TOOLS)/.installed ## write dist/entrepot.cdx.json: the packages that serving needs, as CycloneDX
	@mkdir -p dist
	$(TOOLS)/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --of JSON \
	  -o dist/entrepot.cdx.json requirements.lock

vulnerabilities: $(TOOLS)/.installed ## ask PyPI's data for known vulnerabilities of the locked packages
	@$(TOOLS)/bin/pip-audit --strict --require-hashes --disable-pip -r requirements.lock || \
	  { echo "vulnerabilities: there are some, or the data does not answer for a package: see above" >&2; exit 1; }

clean: ## remove .venv and everything made; ./data stays
	rm -rf $(VENV) .venv-lock $(TOOLS) dist build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
