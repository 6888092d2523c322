# SPDX-License-Identifier: Apache-2.0
# Cleave's build. `make` alone lists what there is; everything is built below build/.
# Sources are found by folder: a new .c file needs no line here.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

# release | san (gcc, ASan+UBSan) | clang (clang, ASan+UBSan) | tsan | cov | fuzz (libFuzzer)
VARIANT ?= release
B := build/$(VARIANT)
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

VENDORS := $(patsubst nodeagent/%/,%,$(wildcard nodeagent/vendor/*/))
# The order is the order of the layers, top first (hack/check-layers.sh).
LIB_DIRS := kubectl scheduler reconcilers reconcilers/records controller $(addprefix nodeagent/,commands loop report audit telemetry \
    slots offer health change mode kubelet cdi vendor $(VENDORS)) runtime $(addprefix nodeagent/,arbiter container gpu) service kubeclient interop partition api base
# Linked into tests only.
TEST_DIRS := kubeclient/fake
PACKAGES := libcurl jansson yaml-0.1 libmicrohttpd libseccomp openssl libnghttp2 libprotobuf-c
HAVE_DEPS := $(shell pkg-config --exists $(PACKAGES) gnutls criterion 2>/dev/null && command -v protoc-c dpkg-source >/dev/null && echo yes)

CC_release := gcc
CC_san := gcc
CC_clang := clang-14
CC_tsan := gcc
CC_cov := gcc
CC_fuzz := clang-14
CC := $(CC_$(VARIANT))
# What was compiled once, in whatever folder, is not compiled again (docs/adr/0041); `make CCACHE=` does without.
CCACHE := $(shell command -v ccache)
export CCACHE
export CCACHE_DIR ?= $(or $(CLEAVE_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/cleave)/ccache

WARN := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wcast-qual -Wcast-align \
    -Wwrite-strings -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wpointer-arith \
    -Wundef -Wformat=2 -Wvla -Walloca -Wswitch-enum -Wnull-dereference -Wdouble-promotion \
    -Wimplicit-fallthrough -Wredundant-decls -Wnested-externs -Wdate-time -Werror
WARN_gcc := -Wlogical-op -Wduplicated-cond -Wduplicated-branches
WARN_clang-14 := -Wthread-safety
HARDEN := -D_FORTIFY_SOURCE=3 -fstack-protector-strong -fstack-clash-protection -fcf-protection -fPIE
# More than 150 sanitized test programs are built: gold and -g1 (lines, no variables) take half the time of a link.
GOLD := $(if $(shell command -v ld.gold),-fuse-ld=gold)
SAN := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

# No path of the machine and nothing unused in it: two builds are the same, bit for bit, and small.
NO_FOLDER := -ffile-prefix-map=$(CURDIR)=.
FLAGS_release := -O2 -g $(HARDEN) -ftrivial-auto-var-init=zero -ffunction-sections -fdata-sections $(NO_FOLDER)
# An agent runs on every node, and its code waits for hardware and for the network: small counts more
# than fast. base/, partition/ and reconcilers/ compute, and are compiled for speed.
$(foreach d,nodeagent api kubeclient service interop,build/release/$d/%.o): CFLAGS += -Os
FLAGS_san := -O1 -g1 $(SAN) $(NO_FOLDER)
# The tests themselves run once: without optimising they are compiled in half the time.
build/san/test/unit/%.o: CFLAGS += -O0
FLAGS_clang := -O1 -g $(SAN)
FLAGS_tsan := -O1 -g1 -fsanitize=thread $(NO_FOLDER)
FLAGS_cov := -O0 -g --coverage
FLAGS_fuzz := -O1 -g $(SAN) -fsanitize=fuzzer-no-link
LINK_release := -pie -Wl,-z,relro,-z,now,-z,noexecstack,-z,pack-relative-relocs -Wl,--gc-sections,--as-needed
LINK_san := $(SAN) $(GOLD) -Wl,--as-needed
LINK_clang := $(SAN)
LINK_tsan := -fsanitize=thread $(GOLD)
LINK_cov := --coverage
LINK_fuzz := $(SAN) -fsanitize=fuzzer

CPPFLAGS := -D_GNU_SOURCE -I. -I$(B)/gen $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null)
CFLAGS := -std=gnu17 $(WARN) $(WARN_$(CC)) $(FLAGS_$(VARIANT)) -pthread
LDFLAGS := $(LINK_$(VARIANT)) -pthread
LDLIBS := $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -ldl
# The release build has the libraries in it, libcurl as hack/images/curl.sh builds it (docs/adr/0030);
# its maps say which files they are. The others load Debian's.
ifeq ($(VARIANT),release)
CURL := $(shell hack/images/curl.sh --folder)/lib/libcurl.a
LDLIBS := -Wl,-Bstatic $(patsubst -lcurl,$(CURL),$(filter-out -ldl,$(LDLIBS))) -Wl,-Bdynamic -ldl
MAP = -Wl,-Map=$@.map
endif

src_of = $(filter-out $(1)/main.c,$(wildcard $(1)/*.c))
obj_of = $(patsubst %.c,$(B)/%.o,$(1))
lib_of = $(B)/lib$(subst /,-,$(1)).a
# What protoc-c makes of the .proto files, found as "nodeagent/kubelet/proto/x.pb-c.h".
PROTO_STEMS := $(patsubst %.proto,$(B)/gen/%.pb-c,$(wildcard nodeagent/kubelet/proto/*.proto))
PROTO_HEADERS := $(addsuffix .h,$(PROTO_STEMS))
PROTO_LIB := $(B)/libproto.a
LIBS := $(foreach d,$(LIB_DIRS),$(call lib_of,$(d))) $(PROTO_LIB)
TEST_LIBS := $(foreach d,$(TEST_DIRS),$(call lib_of,$(d))) $(LIBS)

BINARIES := $(addprefix $(B)/,cleave-controller cleave-scheduler cleave-agent cleave-child cleave-watch cleave-runtime kubectl-cleave)
UNIT_TESTS := $(patsubst %.c,$(B)/%,$(wildcard test/unit/*_test.c))
# Fakes and harnesses that several tests share: test/unit/*_support.c. A test links those that it uses, and loads the libraries
# that these need: it is smaller, and starts sooner.
UNIT_SUPPORT := $(B)/libtest-unit-support.a
RACE_TESTS := $(patsubst %.c,$(B)/%,$(wildcard test/race/*.c))
FUZZERS := $(patsubst %.c,$(B)/%,$(wildcard test/fuzz/*_fuzz.c))

##@ General

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9_-]+:.*##/ {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## Install what is missing: compilers, libraries, the test control plane
	@hack/install-deps.sh

# The build needs pkg-config's answers, so what is missing is installed before make reads on.
define with_deps
	@$(if $(HAVE_DEPS),true,hack/install-deps.sh --no-kube)
endef

##@ Build

.PHONY: all
all: $(BINARIES) sim limiter ## Build our programs, the limiter and the simulator (VARIANT=release|san|clang|tsan|cov)

.PHONY: sim
sim: ## Build the simulated vendor libraries
	@if [ -f sim/Makefile ]; then $(MAKE) -s -C sim VARIANT=$(VARIANT); fi

.PHONY: limiter
limiter: ## Build the libraries that hold limits in a container
	@$(MAKE) -s -C limiter VARIANT=$(VARIANT)

.PHONY: images
images: ## Build OCI images of our programs into build/images, for "ctr images import" or "podman load"
	$(with_deps)
	@$(MAKE) -s VARIANT=release build/release/cleave-controller build/release/cleave-scheduler build/release/cleave-agent limiter
	@VERSION='$(VERSION)' hack/images/build.sh

.PHONY: clean
clean: ## Remove build/
	rm -rf build

.SECONDARY:
$(B)/%.o: %.c Makefile | $(PROTO_HEADERS)
	@mkdir -p $(@D)
	@echo "  CC      $<"
	@$(CCACHE) $(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

# What says the version is compiled anew when that is another: a label and a program must not differ.
VERSIONED := $(shell grep -l CLEAVE_VERSION $(foreach d,controller nodeagent test/fleet $(LIB_DIRS),$(wildcard $(d)/*.c)))
$(call obj_of,$(VERSIONED)): $(B)/version
$(call obj_of,$(VERSIONED)): CPPFLAGS += -DCLEAVE_VERSION='"$(VERSION)"'
$(B)/version: FORCE
	@mkdir -p $(@D)
	@echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' >$@
.PHONY: FORCE

# The ..._INIT macros cast away const, about which -Wcast-qual would complain wherever they are used.
$(B)/gen/%.pb-c.c $(B)/gen/%.pb-c.h: %.proto Makefile
	@mkdir -p $(@D)
	@protoc-c --c_out=$(B)/gen $<
	@sed -i 's/(char \*)protobuf_c_empty_string/(char *)(size_t)protobuf_c_empty_string/g' $(B)/gen/$*.pb-c.h

# Without our warnings: nobody can do anything about them there.
$(PROTO_STEMS:=.o): %.o: %.c %.h Makefile
	@echo "  CC      $<"
	@$(CCACHE) $(CC) $(CPPFLAGS) $(filter-out $(WARN) $(WARN_$(CC)),$(CFLAGS)) -c $< -o $@

$(PROTO_LIB): $(PROTO_STEMS:=.o) | $(CURL)
	@rm -f $@ && ar rcs $@ $^

# For the checkers, which compile for themselves.
.PHONY: generated
generated: $(PROTO_HEADERS)

# FORCE unless the archive was made of just these objects: a source that is gone, or that is back beside
# an older object of its own, leaves none that is newer than the archive. Make 4.3 takes the last newline off
# what it reads only where its buffer did not have to grow: without strip every make linked all programs anew.
made_of_others = $(if $(call differ,$(strip $(file <$(1).members)),$(strip $(2))),FORCE)
differ = $(subst x$(1)x,,x$(2)x)
define archive_rule
$(1): $(call obj_of,$(2)) $(call made_of_others,$(1),$(call obj_of,$(2)))
	@rm -f $$@ && ar rcs $$@ $$(filter %.o,$$^)
	$$(file >$$@.members,$$(filter %.o,$$^))
endef
$(foreach d,$(LIB_DIRS) $(TEST_DIRS),$(eval $(call archive_rule,$(call lib_of,$(d)),$(call src_of,$(d)))))
$(eval $(call archive_rule,$(UNIT_SUPPORT),$(wildcard test/unit/*_support.c)))

ifdef CURL
$(CURL):
	@hack/images/curl.sh

# Packages keep their files' old times: a new version of a static library is seen here, and links the programs anew.
STATIC_PACKAGES := libc6-dev libjansson-dev libmicrohttpd-dev libnghttp2-dev libprotobuf-c-dev libseccomp-dev libssl-dev libyaml-dev
$(BINARIES): $(B)/libraries
$(B)/libraries: FORCE
	@mkdir -p $(@D)
	@{ echo $(CURL); dpkg-query -W $(STATIC_PACKAGES); } >$@.new && if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
endif

$(B)/cleave-controller: $(B)/controller/main.o $(LIBS)
	@echo "  LINK    $@"
	@$(CC) $(LDFLAGS) $(MAP) $< -Wl,--start-group $(LIBS) -Wl,--end-group $(LDLIBS) -o $@

$(B)/cleave-scheduler: $(B)/scheduler/main.o $(LIBS)
	@echo "  LINK    $@"
	@$(CC) $(LDFLAGS) $(MAP) $< -Wl,--start-group $(LIBS) -Wl,--end-group $(LDLIBS) -o $@

$(B)/cleave-agent: $(B)/nodeagent/main.o $(LIBS)
	@echo "  LINK    $@"
	@$(CC) $(LDFLAGS) $(MAP) $< -Wl,--start-group $(LIBS) -Wl,--end-group $(LDLIBS) -o $@

# kubectl finds it by this name: "kubectl cleave".
$(B)/kubectl-cleave: $(B)/kubectl/main.o $(LIBS)
	@echo "  LINK    $@"
	@$(CC) $(LDFLAGS) $(MAP) $< -Wl,--start-group $(LIBS) -Wl,--end-group $(LDLIBS) -o $@

# The programs of child processes: of both, and of the agent alone.
$(B)/cleave-child: $(B)/child/main.o $(LIBS)
	@echo "  LINK    $@"
	@$(CC) $(LDFLAGS) $(MAP) $< -Wl,--start-group $(LIBS) -Wl,--end-group $(LDLIBS) -o $@
$(B)/cleave-watch: $(B)/child/watch/main.o $(LIBS)
	@echo "  LINK    $@"
	@$(CC) $(LDFLAGS) $(MAP) $< -Wl,--start-group $(LIBS) -Wl,--end-group $(LDLIBS) -o $@
$(B)/cleave-controller $(B)/cleave-scheduler $(B)/cleave-agent: | $(B)/cleave-child
$(B)/cleave-agent: | $(B)/cleave-watch

# It runs on hosts whose C library may be older than ours, so that the release build has that in it as well.
ALL_STATIC := $(if $(filter release,$(VARIANT)),-static-pie)
$(B)/cleave-runtime: $(B)/runtime/main.o $(LIBS)
	@echo "  LINK    $@"
	@$(CC) $(if $(ALL_STATIC),$(filter-out -pie,$(LDFLAGS)) $(ALL_STATIC),$(LDFLAGS)) $(MAP) $< -Wl,--start-group $(LIBS) -Wl,--end-group -ljansson -o $@
$(B)/cleave-agent: | $(B)/cleave-runtime

# Criterion finds its tests in a section that nothing names. What it must not do at each start: test/unit/criterion_support.c
UNIT_LINK := -Wl,--no-gc-sections $(foreach f,mbedtls_x509_crt_parse_file,-Wl,-u,$(f),--export-dynamic-symbol=$(f))
$(B)/test/unit/%_test: $(B)/test/unit/%_test.o $(UNIT_SUPPORT) $(TEST_LIBS)
	@$(CC) $(LDFLAGS) $(UNIT_LINK) $< -Wl,--start-group $(UNIT_SUPPORT) $(TEST_LIBS) -Wl,--end-group $(LDLIBS) -lcriterion -o $@

$(B)/test/race/%: $(B)/test/race/%.o $(TEST_LIBS)
	@$(CC) $(LDFLAGS) $< -Wl,--start-group $(TEST_LIBS) -Wl,--end-group $(LDLIBS) -o $@

# Each fuzzer is a libFuzzer target; test/fuzz/driver.c replays a corpus with any compiler. What
# several share: test/fuzz/*_support.c
FUZZ_DRIVER := $(if $(filter fuzz,$(VARIANT)),,$(B)/test/fuzz/driver.o)
FUZZ_SUPPORT := $(call obj_of,$(wildcard test/fuzz/*_support.c))
$(B)/test/limiter/%: $(B)/test/limiter/%.o $(TEST_LIBS)
	@$(CC) $(LDFLAGS) $< -Wl,--start-group $(TEST_LIBS) -Wl,--end-group $(LDLIBS) -o $@

$(B)/test/fuzz/%_fuzz: $(B)/test/fuzz/%_fuzz.o $(FUZZ_SUPPORT) $(FUZZ_DRIVER) $(TEST_LIBS)
	@$(CC) $(LDFLAGS) $< $(FUZZ_SUPPORT) $(FUZZ_DRIVER) -Wl,--start-group $(TEST_LIBS) -Wl,--end-group $(LDLIBS) -o $@

-include $(shell find $(B) -name '*.d' 2>/dev/null)

##@ Test

.PHONY: test
test: ## Everything that must hold: units, simulator, races, fuzz corpus, end to end on a real API server
	@hack/install-deps.sh --with-koordinator --with-helm
	@hack/run-tests.sh all

.PHONY: unit
unit: ## Unit tests under ASan+UBSan, in seconds; T=workqueue runs one module's
	$(with_deps)
	@hack/run-tests.sh unit "$(T)"

.PHONY: unit-build
unit-build: $(UNIT_TESTS)
.PHONY: race-build
race-build: $(RACE_TESTS)
.PHONY: fuzz-build
fuzz-build: $(FUZZERS)

.PHONY: race
race: ## Thread tests under TSan
	$(with_deps)
	@hack/run-tests.sh race

.PHONY: fuzz
fuzz: ## Replay every fuzz corpus under ASan+UBSan
	$(with_deps)
	@hack/run-tests.sh fuzz

.PHONY: fuzz-http
fuzz-http: ## 100,000 strangers' connections to both programs, as released and under ASan+UBSan; HTTP_CONNECTIONS=n
	$(with_deps)
	@HTTP_CONNECTIONS=$(or $(HTTP_CONNECTIONS),100000) hack/run-tests.sh strangers

.PHONY: fuzz-search
fuzz-search: ## Look for inputs that break something, FUZZ_SECONDS=60 each parser; T=yaml one of them
	$(with_deps)
	@$(MAKE) -s VARIANT=fuzz $(if $(T),build/fuzz/test/fuzz/$(T)_fuzz,fuzz-build)
	@hack/fuzz-search.sh $(or $(FUZZ_SECONDS),60) $(T)

.PHONY: e2e
e2e: ## End to end: real etcd and kube-apiserver, simulated GPUs
	@hack/install-deps.sh --with-koordinator --with-helm
	@hack/run-tests.sh e2e "$(T)"

.PHONY: torture
torture: ## Every plan of harm: each write and event of each workload, killed, lost, refused, missed; every property of the API; every call made to fail; hours
	@hack/install-deps.sh
	@$(MAKE) -s VARIANT=release all
	@/usr/bin/python3 test/fault/run.py --jobs 6 $(T)
	@CLEAVE_TORTURE=1 CLEAVE_FAILOVERS=100 /usr/bin/python3 -m pytest -p no:cacheprovider -q -s test/e2e/test_late_writes.py test/e2e/test_failover.py test/e2e/test_time.py test/e2e/test_blackhole.py
	@[ -n "$(T)" ] || CLEAVE_TORTURE=1 /usr/bin/python3 -m pytest -p no:cacheprovider -q test/e2e/test_fractional_stub.py test/e2e/test_fractional.py test/e2e/test_driver_limits.py -k "test_no_card_is_given_twice or whatever_is_killed"
	@[ -n "$(T)" ] || /usr/bin/python3 test/fault/walk.py
	@[ -n "$(T)" ] || FAILING=whole hack/run-tests.sh failing
	@[ -n "$(T)" ] || FAILING=whole hack/run-tests.sh limiter test_failing
	@[ -n "$(T)" ] || CLEAVE_TORTURE=1 hack/run-tests.sh limiter test_torture
	@[ -n "$(T)" ] || MUTATION_STRIDE=1 hack/run-tests.sh unit mutation
	@[ -n "$(T)" ] || MUTATION_STRIDE=1 hack/run-tests.sh unit agent_mutation
	@[ -n "$(T)" ] || FRACTION_CASES=1000000 hack/run-tests.sh unit fraction_oracle
	@[ -n "$(T)" ] || TURNS_CASES=1000 hack/run-tests.sh unit turns_oracle

##@ Check

.PHONY: lint
lint: ## Format, layers, headers, doc comments, the index of files, SPDX lines, clang-tidy, shell, spelling
	$(with_deps)
	@hack/lint.sh

.PHONY: dependencies
dependencies: ## Every library that the programs load, what is known to be wrong with it, and what was decided (docs/dependencies.md)
	@$(MAKE) -s VARIANT=release build/release/cleave-controller build/release/cleave-scheduler build/release/cleave-agent build/release/kubectl-cleave
	@hack/dependencies.py

.PHONY: format
format: ## Rewrite the C files with clang-format
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format-14 -i

-include hack/targets.mk
