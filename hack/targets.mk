# SPDX-License-Identifier: Apache-2.0
# Targets of single areas, included by the Makefile.

# --- partition ---

##@ Planner

$(B)/test/bench/planner_bench: $(B)/test/bench/planner_bench.o $(UNIT_SUPPORT) $(TEST_LIBS)
	@echo "  LINK    $@"
	@$(CC) $(LDFLAGS) $< $(B)/test/unit/mig_oracle_support.o $(B)/test/unit/mig_tables_support.o \
	    -Wl,--start-group $(TEST_LIBS) -Wl,--end-group $(LDLIBS) -o $@

.PHONY: bench-planner
bench-planner: $(B)/test/bench/planner_bench ## Planner: worst and mean time over every multiset of every model
	@$<

# --- preferred devices ---

$(B)/test/bench/preferred_bench: $(B)/test/bench/preferred_bench.o $(B)/test/unit/topologies_support.o $(TEST_LIBS)
	@echo "  LINK    $@"
	@$(CC) $(LDFLAGS) $< $(B)/test/unit/topologies_support.o \
	    -Wl,--start-group $(TEST_LIBS) -Wl,--end-group $(LDLIBS) -o $@

.PHONY: bench-preferred
bench-preferred: $(B)/test/bench/preferred_bench ## Which devices a pod should get: mean and worst time of a choice
	@$<

# --- golden files ---

# Tests that call golden_check write what they got instead of comparing it.
GOLDEN_TESTS := $(patsubst %.c,build/san/%,$(shell grep -l golden_check test/unit/*_test.c 2>/dev/null))

.PHONY: golden
golden: ## Rewrite the golden files below test/golden (review the diff)
	@$(MAKE) -s VARIANT=san $(GOLDEN_TESTS)
	@for t in $(GOLDEN_TESTS); do GOLDEN_REWRITE=1 $$t >/dev/null 2>&1 || true; done
	@$(MAKE) -s VARIANT=release all
	@GOLDEN_REWRITE=1 /usr/bin/python3 -m pytest -p no:cacheprovider -q test/e2e/test_standalone.py -k golden >/dev/null || true
	@git status --short test/golden

# --- the transaction's torture test: its driver, and the library that the NVML tests load ---
$(B)/test/e2e/txn_driver: $(B)/test/e2e/txn_driver.o $(TEST_LIBS)
	@$(CC) $(LDFLAGS) $< -Wl,--start-group $(TEST_LIBS) -Wl,--end-group $(LDLIBS) -o $@
all: $(B)/test/e2e/txn_driver

# What gives one process another time. Without fortification: it stands in for the checked calls, too.
all: $(B)/test/fault/skew.so
$(B)/test/fault/skew.so: test/fault/skew.c Makefile
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS) -std=gnu17 $(WARN) $(WARN_$(CC)) -O2 -g -fPIC -shared $< -ldl -o $@
$(B)/test/unit/nvml_old.so $(B)/test/unit/mxsml_mad.so: $(B)/%.so: %.c
	@mkdir -p $(@D)
	@$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC -shared $(LINK_$(VARIANT):-pie=) $< -o $@
$(B)/test/unit/nvml_test: $(B)/test/unit/nvml_old.so | sim
$(B)/test/unit/mxsml_test: $(B)/test/unit/mxsml_mad.so
$(B)/test/unit/mxsml_mad.so: test/unit/mxsml_mad.h test/unit/mad_bytes.h
# A library gone mad that is part of the program: what it exports is found there.
NVML_MAD := $(B)/test/unit/nvml_mad.o $(B)/test/unit/nvml_mad_telemetry.o
$(B)/test/unit/nvml_mad_test $(B)/test/fuzz/nvml_fuzz: $(NVML_MAD)
$(B)/test/unit/nvml_mad_test $(B)/test/fuzz/nvml_fuzz: LDFLAGS += -rdynamic $(NVML_MAD)
$(B)/test/fuzz/mxsml_fuzz: $(B)/test/unit/mxsml_mad.o
$(B)/test/fuzz/mxsml_fuzz: LDFLAGS += -rdynamic $(B)/test/unit/mxsml_mad.o
$(B)/test/unit/gpu_labels_test $(B)/test/unit/mxsml_test $(B)/test/unit/gpu_all_test $(B)/test/unit/nvml_telemetry_test $(B)/test/unit/mxsml_telemetry_test: | sim
$(B)/test/unit/gpu_watch_test: | $(B)/cleave-agent sim
# --- end of the transaction's part ---

# --- the code of docs/adding-a-vendor.md: taken out of it, compiled and tested as ours is ---

VENDOR := $(B)/adding-a-vendor
# Its folder, and the files of ours of which it changes a line; the document says which, and the
# test that there are no others.
VENDOR_FILES := $(shell hack/doc-code.sh docs/adding-a-vendor.md --list)
VENDOR_CHANGED := $(addprefix $(VENDOR)/,$(wildcard $(VENDOR_FILES)))
VENDOR_NEW := $(filter-out $(VENDOR_CHANGED),$(addprefix $(VENDOR)/,$(VENDOR_FILES)))
# vendors.c reads the changed vendors.def, which is found first.
VENDOR_OBJECTS := $(patsubst %.c,%.o,$(filter %.c,$(VENDOR_NEW) $(VENDOR_CHANGED))) \
    $(VENDOR)/nodeagent/vendor/vendors.o
VENDOR_TEST := $(B)/test/unit/adding_a_vendor_test

$(VENDOR_CHANGED): $(VENDOR)/%: %
$(VENDOR)/nodeagent/vendor/vendors.c: $(VENDOR)/%: %
	@mkdir -p $(@D)
	@cp $< $@
$(VENDOR_NEW) $(VENDOR_CHANGED): $(VENDOR)/%: docs/adding-a-vendor.md hack/doc-code.sh
	@mkdir -p $(@D)
	@hack/doc-code.sh $< $* > $@.part && mv $@.part $@
# Its headers are seen first. What is changed here stands in for the library's object of that name.
$(VENDOR_OBJECTS) $(VENDOR_TEST).o: CPPFLAGS := -I$(VENDOR) $(CPPFLAGS)
$(VENDOR_TEST).o: CPPFLAGS += -DVENDOR_FILES='"$(VENDOR_FILES)"'
$(VENDOR_OBJECTS) $(VENDOR_TEST).o: | $(VENDOR_NEW) $(VENDOR_CHANGED)
$(VENDOR_OBJECTS): %.o: %.c Makefile
	@echo "  CC      $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@
$(VENDOR_TEST): $(VENDOR_TEST).o $(VENDOR_OBJECTS) $(UNIT_SUPPORT) $(TEST_LIBS) | sim
	@$(CC) $(LDFLAGS) $< $(VENDOR_OBJECTS) $(UNIT_SUPPORT) -Wl,--start-group $(TEST_LIBS) -Wl,--end-group $(LDLIBS) -lcriterion -o $@

# --- the code of docs/adding-a-mode.md: the same, with its line in a copy of api/modes.def ---

MODE := $(B)/adding-a-mode
MODE_FILES := $(shell hack/doc-code.sh docs/adding-a-mode.md --list)
MODE_MADE := $(addprefix $(MODE)/,$(MODE_FILES))
# What reads api/modes.def for a table is compiled again; an enum only gets one more number.
MODE_AGAIN := $(addprefix $(MODE)/,api/device.c nodeagent/mode/card_mode.c)
MODE_OBJECTS := $(patsubst %.c,%.o,$(filter %.c,$(MODE_MADE)) $(MODE_AGAIN))
MODE_TEST := $(B)/test/unit/adding_a_mode_test

$(MODE_AGAIN): $(MODE)/%: %
	@mkdir -p $(@D)
	@cp $< $@
$(MODE_MADE): $(MODE)/%: docs/adding-a-mode.md hack/doc-code.sh api/modes.def
	@mkdir -p $(@D)
	@hack/doc-code.sh $< $* > $@.part && mv $@.part $@
$(MODE_OBJECTS) $(MODE_TEST).o: CPPFLAGS := -I$(MODE) $(CPPFLAGS)
$(MODE_TEST).o: CPPFLAGS += -DMODE_FILES='"$(MODE_FILES)"'
$(MODE_OBJECTS) $(MODE_TEST).o: | $(MODE_MADE)
$(MODE_TEST).o: docs/adding-a-mode.md # its list of files
$(MODE_OBJECTS): %.o: %.c Makefile
	@echo "  CC      $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@
$(MODE_TEST): $(MODE_TEST).o $(MODE_OBJECTS) $(UNIT_SUPPORT) $(TEST_LIBS)
	@$(CC) $(LDFLAGS) $< $(MODE_OBJECTS) $(UNIT_SUPPORT) -Wl,--start-group $(TEST_LIBS) -Wl,--end-group $(LDLIBS) -lcriterion -o $@

# --- demo ---

##@ Demo

.PHONY: demo
demo: ## Watch the main job: real etcd and API server, simulated nodes of four kinds; leaves it running
	@hack/install-deps.sh
	@$(MAKE) -s VARIANT=release all
	@hack/demo.sh start

.PHONY: demo-stop
demo-stop: ## End what the demo left running
	@hack/demo.sh stop

.PHONY: pictures
pictures: ## Make the pictures of docs/pictures again, from what the demo shows
	@hack/install-deps.sh
	@$(MAKE) -s VARIANT=release all
	@mkdir -p docs/pictures
	@CLEAVE_DEMO_DIR=$(CURDIR)/build/pictures CLEAVE_DEMO_LATENCY=none CLEAVE_DEMO_PICTURES=$(CURDIR)/docs/pictures hack/demo.sh start
	@CLEAVE_DEMO_DIR=$(CURDIR)/build/pictures hack/demo.sh stop

.PHONY: demo-shares
demo-shares: ## Watch ten pods share a card: a real kubelet, containerd and kube-scheduler (as root); leaves it running
	@hack/install-deps.sh
	@$(MAKE) -s VARIANT=release all
	@hack/demo-shares.sh start

.PHONY: demo-shares-stop
demo-shares-stop: ## End what it left running
	@hack/demo-shares.sh stop

# --- chart ---

##@ Install

.PHONY: chart
chart: ## The Helm chart of config/, as the folder build/chart/cleave and as build/chart/cleave-<version>.tgz; needs kubectl
	@hack/chart.py --version '$(VERSION)'

# --- bench ---

$(B)/test/bench/plugin_call: $(B)/test/bench/plugin_call.o $(TEST_LIBS)
	@echo "  LINK    $@"
	@$(CC) $(LDFLAGS) $< -Wl,--start-group $(TEST_LIBS) -Wl,--end-group $(LDLIBS) -o $@

# --- arbiter ---

$(B)/test/bench/arbiter_bench: $(B)/test/bench/arbiter_bench.o $(TEST_LIBS)
	@echo "  LINK    $@"
	@$(CC) $(LDFLAGS) $< -Wl,--start-group $(TEST_LIBS) -Wl,--end-group $(LDLIBS) -o $@

.PHONY: bench-arbiter
bench-arbiter: $(B)/test/bench/arbiter_bench ## Turns on cards: what 16 contended ones cost the agent
	@$<

# --- telemetry ---

$(B)/test/bench/scrape_bench: $(B)/test/bench/scrape_bench.o $(TEST_LIBS)
	@echo "  LINK    $@"
	@$(CC) $(LDFLAGS) $< -Wl,--start-group $(TEST_LIBS) -Wl,--end-group $(LDLIBS) -o $@

.PHONY: bench-scrape
bench-scrape: $(B)/test/bench/scrape_bench ## Telemetry of 16 cards with 7 instances: a scrape, a reading, memory
	@$<

##@ Measure

.PHONY: bench
bench: ## Speed and size as ratios within one run (parts and counts: test/bench/bench.py)
	@hack/install-deps.sh --with-koordinator
	@$(MAKE) -s VARIANT=release all build/release/test/bench/plugin_call
	@$(MAKE) -s VARIANT=release bench-planner
	@$(MAKE) -s VARIANT=release bench-scrape
	@test/bench/bench.py

# --- measures of the code and of its tests ---

.PHONY: stats
stats: ## Sizes of files and functions beside those of other code, and the longest functions
	@hack/stats.py

.PHONY: coverage
coverage: ## What the unit tests run, by folder, in lines and branches
	$(with_deps)
	@hack/coverage.py

.PHONY: conformance
conformance: ## One suite of the API client's promises, on the fake server and on a real one
	@hack/install-deps.sh
	@hack/run-tests.sh unit kc_conformance
	@hack/run-tests.sh e2e test_conformance

# --- gRPC: our end, for a foreign one to talk to ---

$(B)/test/grpc/peer: $(B)/test/grpc/peer.o $(TEST_LIBS)
	@$(CC) $(LDFLAGS) $< -Wl,--start-group $(TEST_LIBS) -Wl,--end-group $(LDLIBS) -o $@

# --- calls made to fail: the library that does it ---

# Plain: it lies between the program and the sanitizer's own wrappers, and defines what headers declare.
FAIL_LIB := build/san/test/failing/fail.so
$(FAIL_LIB): test/failing/fail.c
	@mkdir -p $(@D)
	@echo "  CC      $<"
	@gcc $(CPPFLAGS) -std=gnu17 $(WARN) -Wno-redundant-decls -O1 -g -fno-builtin -fno-omit-frame-pointer \
	    -pthread -fPIC -shared $< -o $@ -ldl
$(B)/test/failing/paths: $(B)/test/failing/paths.o $(TEST_LIBS)
	@$(CC) $(LDFLAGS) $< -Wl,--start-group $(TEST_LIBS) -Wl,--end-group $(LDLIBS) -o $@
.PHONY: failing-build
failing-build: $(FAIL_LIB) $(B)/test/failing/paths $(B)/cleave-agent $(B)/test/e2e/txn_driver

# --- a second Kubernetes ---

##@ Nightly

.PHONY: nightly
nightly: export KUBE_VERSION := $(or $(KUBE_VERSION),1.36)
nightly: ## The tests with a real kubelet and those of the scheduler once more, on Kubernetes 1.36.3, built on the first run; T=label other end-to-end tests
	@hack/install-deps.sh --with-koordinator
	@hack/run-tests.sh e2e "$(or $(T),real_kubelet or new_kubernetes or test_scheduler)"
	@[ -n "$(T)" ] || hack/run-tests.sh limiter older

# --- soak and fleet ---

##@ Soak and scale

.PHONY: soak
soak: ## Random changes and faults, with memory, descriptors and invariants watched; SOAK_MINUTES=5 SOAK_SEED=n
	@hack/install-deps.sh
	@$(MAKE) -s VARIANT=release all
	@/usr/bin/python3 test/soak/soak.py --minutes $(or $(SOAK_MINUTES),5) $(if $(SOAK_SEED),--seed $(SOAK_SEED))

# Agents by the hundred in one process, with cards in memory.
$(B)/test/fleet/hollow: $(B)/test/fleet/hollow.o $(B)/test/unit/gpu_fake_support.o $(TEST_LIBS)
	@echo "  LINK    $@"
	@$(CC) $(LDFLAGS) $< $(B)/test/unit/gpu_fake_support.o -Wl,--start-group $(TEST_LIBS) -Wl,--end-group $(LDLIBS) -o $@

.PHONY: fleet
fleet: ## A cluster of FLEET_NODES="100 1000" hollow nodes on a real API server: times, requests, memory
	@hack/install-deps.sh
	@$(MAKE) -s VARIANT=release all build/release/test/fleet/hollow
	@/usr/bin/python3 test/fleet/fleet.py $(or $(FLEET_NODES),100 1000)
$(B)/test/race/nvml_cards $(B)/test/race/mxsml_cards: | sim

# --- the limiter's modules, which are in no library of ours ---

limiter_test = $(eval $(1): $(addprefix $(B)/limiter/,$(2))) $(eval $(1): LDFLAGS += $(addprefix $(B)/limiter/,$(2)))
$(call limiter_test,$(B)/test/unit/ledger_test,ledger.o)
$(call limiter_test,$(B)/test/unit/array_size_test,array_size.o)
$(call limiter_test,$(B)/test/unit/proc_stat_test,proc_stat.o)
$(call limiter_test,$(B)/test/unit/peer_test,peer.o proc_stat.o)
$(call limiter_test,$(B)/test/unit/word_lock_test,word_lock.o peer.o proc_stat.o)
$(call limiter_test,$(B)/test/race/ledger,ledger.o)
$(call limiter_test,$(B)/test/fuzz/proc_stat_fuzz,proc_stat.o)
