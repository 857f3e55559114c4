# make            builds everything into build/        make test      installs what tests need and runs all of them
# make check      the same tests, installing nothing   make accuracy  writes README's table of measured cases and records it
# make vram wasm page presets      one part alone      make check-c   gcc and clang, every warning an error
# make fuzz FUZZ_SECONDS=600       a longer hunt       make clean

.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
# V=1 shows whole commands; by default a line says what is being made
Q := $(if $(V),,@)
SAY = $(if $(V)$(findstring s,$(firstword -$(MAKEFLAGS))),:,echo "  $@")

CORE   := $(filter-out c_core/cli.c c_core/wasm.c,$(wildcard c_core/*.c c_core/json/*.c))
NATIVE := $(CORE) $(wildcard c_core/cli.c)
WASM   := $(CORE) $(wildcard c_core/wasm.c)

all: build/vram build/vram.wasm build/index.html
vram: build/vram
wasm: build/vram.wasm
page: build/index.html
presets: build/presets.json

# --------------------------------------------------------------------------------------------------------------- C flags

WARNINGS := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wdouble-promotion -Wstrict-prototypes -Wmissing-prototypes -Werror
# no fused multiply-add: every build on every machine then computes the same bits
HOUSE    := -std=c17 -ffp-contract=off $(WARNINGS) -Ic_core -isystem build/cjson
# cJSON keeps its own house
CJSON    := -std=c17 -ffp-contract=off -w
SANITIZE := -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

# A variant is a compiler and how it optimises; each has its objects in a folder of its own. CC may come from outside.
CC := gcc
CC_native    := $(CC)
FLAGS_native := -O2
CC_clang     := clang
FLAGS_clang  := -O2
CC_asan      := gcc
FLAGS_asan   := $(SANITIZE)
CC_fuzz      := clang
FLAGS_fuzz   := $(SANITIZE) -fsanitize=fuzzer-no-link
CC_wasm      := emcc
# -Oz: the module travels inside the page
FLAGS_wasm   := -Oz
FLAGS_wasm   += -mnontrapping-fptoint -mbulk-memory -msign-ext # instructions of every browser since 2021: 4 kB less

objects = $(patsubst %.c,build/obj/$(1)/%.o,$(2)) build/obj/$(1)/cjson/cJSON.o

define variant
build/obj/$(1)/%.o: %.c Makefile | build/cjson/cJSON.c
	@mkdir -p $$(@D); $$(SAY)
	$$(Q)$$(CC_$(1)) $$(HOUSE) $$(FLAGS_$(1)) -MMD -MP -c $$< -o $$@
build/obj/$(1)/cjson/cJSON.o: build/cjson/cJSON.c Makefile
	@mkdir -p $$(@D); $$(SAY)
	$$(Q)$$(CC_$(1)) $$(CJSON) $$(FLAGS_$(1)) -c $$< -o $$@
build/obj/$(1)/presets.o: build/presets.c
	@mkdir -p $$(@D); $$(SAY)
	$$(Q)$$(CC_$(1)) $$(HOUSE) $$(FLAGS_$(1)) -c $$< -o $$@
endef
$(foreach v,native clang asan fuzz wasm,$(eval $(call variant,$(v))))
-include $(wildcard build/obj/*/*/*.d build/obj/*/*/*/*.d)

build/cjson/cJSON.c:
	@$(SAY)
	$(Q)./build.sh cjson

# --------------------------------------------------------------------------------------------------------------- program

PRESETS := $(wildcard presets/gpus.json presets/models/*.json presets/scenarios/*.json)

# the list of files is a prerequisite too: a preset that went away must leave the bundle
build/presets.list: FORCE
	@mkdir -p build; printf '%s\n' $(PRESETS) | cmp -s - $@ || printf '%s\n' $(PRESETS) > $@
build/presets.json build/presets.c &: c_core/embed_presets.py build/presets.list $(PRESETS)
	@$(SAY)
	$(Q)python3 c_core/embed_presets.py presets build/presets.json build/presets.c

build/vram: $(call objects,native,$(NATIVE)) build/obj/native/presets.o
	@$(SAY)
	$(Q)$(CC) -O2 $^ -lm -o $@
build/asan/vram: $(call objects,asan,$(NATIVE)) build/obj/asan/presets.o
	@mkdir -p $(@D); $(SAY)
	$(Q)gcc $(SANITIZE) $^ -lm -o $@
build/clang/vram: $(call objects,clang,$(NATIVE)) build/obj/clang/presets.o
	@mkdir -p $(@D); $(SAY)
	$(Q)clang -O2 $^ -lm -o $@

# ------------------------------------------------------------------------------------------------------------------ wasm

WASM_FLAGS := -Oz
WASM_FLAGS += -sSTANDALONE_WASM --no-entry             # a bare module: no glue in JavaScript, no main
WASM_FLAGS += -sEXPORTED_FUNCTIONS=_vram_abi,_vram_input,_vram_call,_vram_output
WASM_FLAGS += -sMALLOC=emmalloc                        # the smallest allocator; one call at a time needs no better
WASM_FLAGS += -sFILESYSTEM=0                           # nothing reads files
WASM_FLAGS += -sTOTAL_STACK=4MB                        # room for a scenario's four models and a report as locals
WASM_FLAGS += -Wl,--stack-first                        # an overflowing stack traps below address 0 instead of eating data
WASM_FLAGS += -sINITIAL_MEMORY=64MB -sALLOW_MEMORY_GROWTH=0 # fixed, so no import tells of growth; untouched pages cost nothing

build/vram.wasm: $(call objects,wasm,$(WASM))
	@$(SAY)
	$(Q)emcc $(WASM_FLAGS) $^ -o $@
	$(Q)wasm-opt --code-folding --reorder-functions -Oz --enable-bulk-memory --enable-sign-ext --enable-nontrapping-float-to-int $@ -o $@ # folding like ends of code, and a second time, find 4 kB more

# ------------------------------------------------------------------------------------------------------------------ page

WEB := $(shell find web -path web/node_modules -prune -o -type f -print 2>/dev/null)

# npm writes this file at the end of an installation; building needs fewer packages than testing
web/node_modules/.package-lock.json: web/package-lock.json
	@$(SAY)
	$(Q)cd web && npm ci --omit=dev --no-audit --no-fund --loglevel=error >/dev/null && touch node_modules/.package-lock.json
web/node_modules/puppeteer-core/package.json: web/package-lock.json
	@$(SAY)
	$(Q)cd web && npm ci --no-audit --no-fund --loglevel=error >/dev/null && touch node_modules/.package-lock.json node_modules/puppeteer-core/package.json
# how right the estimates are, for the page to say
build/accuracy.json: tests/cases/accuracy.py build/vram $(wildcard tests/cases/measured/*)
	@$(SAY)
	$(Q)python3 tests/cases/accuracy.py $@
build/index.html: build/vram.wasm build/presets.json build/accuracy.json web/node_modules/.package-lock.json $(WEB)
	@$(SAY)
	$(Q)node web/build.mjs --wasm build/vram.wasm --presets build/presets.json --accuracy build/accuracy.json --out build

# ----------------------------------------------------------------------------------------------------------------- tests

CORE_TESTS := $(wildcard tests/core/*.c)

# calls from file to file that tests/core/work_test.c counts
COUNTED := vram_block_embedding vram_block_layer vram_block_head vram_run_forward vram_run_backward vram_sharding_bytes vram_sharding_each
COUNTED += vram_segments_take ggml_graph_run vram_config_read vram_estimate vram_judge

build/test/core: $(call objects,asan,$(CORE) $(CORE_TESTS)) build/obj/asan/presets.o
	@mkdir -p $(@D); $(SAY)
	$(Q)gcc $(SANITIZE) $(COUNTED:%=-Wl,--wrap=%) $^ -lm -o $@
build/test/core-clang: $(call objects,clang,$(CORE) $(CORE_TESTS)) build/obj/clang/presets.o
	@mkdir -p $(@D); $(SAY)
	$(Q)clang -O2 $(COUNTED:%=-Wl,--wrap=%) $^ -lm -o $@
# the same promises, kept by a fuzzer and replayed without one
build/test/fuzz: $(call objects,fuzz,$(CORE) tests/fuzz/fuzz_estimate.c) build/obj/fuzz/presets.o
	@mkdir -p $(@D); $(SAY)
	$(Q)clang $(SANITIZE) -fsanitize=fuzzer $^ -lm -o $@
build/test/replay: $(call objects,asan,$(CORE) tests/fuzz/fuzz_estimate.c tests/fuzz/replay.c) build/obj/asan/presets.o
	@mkdir -p $(@D); $(SAY)
	$(Q)gcc $(SANITIZE) $^ -lm -o $@

check-c: build/vram build/clang/vram build/asan/vram build/test/core build/test/core-clang

test:
	@./build.sh test-tools
	@$(MAKE) --no-print-directory check

check:
	@$(MAKE) --no-print-directory -s web/node_modules/puppeteer-core/package.json
	@$(MAKE) --no-print-directory -s -j2 all check-c build/test/fuzz build/test/replay
	@node tests/run.mjs

FUZZ_SECONDS ?= 60
export FUZZ_SECONDS
fuzz: build/test/fuzz build/test/replay build/vram.wasm
	@node tests/run.mjs fuzz

accuracy: build/vram
	@python3 tests/cases/accuracy.py README.md

# keeps build/cjson, which comes over the network
clean:
	rm -rf web/node_modules
	[ ! -d build ] || find build -mindepth 1 -maxdepth 1 ! -name cjson -exec rm -rf {} +

FORCE:
.PHONY: all vram wasm page presets check-c test check fuzz accuracy clean FORCE
