# Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The commands of the project. Everything below `build` is CMake's; see CMakePresets.json and CONTRIBUTING.md.
#
#   make demo         set up, build, and run attention forward and backward against the reference, on the GPU too where
#                     there is one (examples/gpu_attention.cpp)
#   make tools        set up, and build the command-line tools
#   make check        set up, build, and run the tests
#   make check-full   the long lists of the tests, a minute of each fuzz target, and tests of package and wheel
#   make check-sanitized  the tests under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer, by clang;
#                     ONLY=native: those of runtime and libraries without MLIR
#   make coverage     lines and branches that the tests run, in build-coverage/coverage; ONLY=native as above
#   make package      one self-contained .tar.xz with tools, kernels and tests
#   make wheel        the same for Python, a .whl in dist/
#   make docs         refresh docs/reference from the .td files and the tests
#   make frameworks   PyTorch and JAX into the build directory, for the tests of the Python package: 2.6 GB from PyPI
#   make digests      the table that locks the code of shipped kernels, after a change that is meant to alter it
#   make site         the documentation as web pages, in build/site
#   make format       clang-format the sources
#   make clean        remove the build directories
#
# BUILD=dir builds elsewhere; JOBS=n sets the number of parallel jobs.

SHELL := /bin/bash
.DEFAULT_GOAL := check
BUILD ?= build
# One job per core, but no more than memory holds: a unit of many files that include MLIR takes up to 2 GB.
JOBS ?= $(shell awk -v cores=$$(nproc) '/MemTotal/ { n = int($$2 / 2000000); print n < 1 ? 1 : n < cores ? n : cores }' /proc/meminfo)

.PHONY: dependencies configure build tools demo check check-full check-sanitized coverage package wheel docs digests site \
  format frameworks clean

dependencies:
	@scripts/install-dependencies.sh

configure: dependencies
	@[ -f $(BUILD)/build.ninja ] || cmake --preset dev -B $(BUILD)

build: configure
	@cmake --build $(BUILD) --parallel $(JOBS)

tools: configure
	@cmake --build $(BUILD) --parallel $(JOBS) --target tools

demo: configure
	@cmake --build $(BUILD) --parallel $(JOBS) --target demo
	@$(BUILD)/bin/tilewright-demo
	@for direction in forward backward; do \
	  $(BUILD)/bin/tilewrightc kernels/attention_$$direction.mlir --param D=64 --param T=f16 --param CAUSAL=top_left \
	    --emit=bundle -o $(BUILD)/$$direction.twb || exit 1; done
	@$(BUILD)/bin/gpu_attention $(BUILD)/forward.twb $(BUILD)/backward.twb

check: build
	@scripts/install-ptxas.sh $(BUILD)
	@cd $(BUILD) && ctest --output-on-failure --parallel $(JOBS) --no-tests=error --timeout 1800

check-full: export TILEWRIGHT_TEST_TIER := full
check-full: build
	@scripts/install-ptxas.sh $(BUILD)
	@scripts/fuzz.sh 60
	@cd $(BUILD) && ctest --output-on-failure --parallel $(JOBS) --no-tests=error --timeout 36000
	@$(MAKE) package wheel
	@TILEWRIGHT_TEST_TIER=smoke scripts/test-package.sh
	@scripts/test-wheel.sh

check-sanitized:
	@scripts/check-sanitized.sh $(JOBS) $(ONLY)

coverage:
	@scripts/coverage.sh $(JOBS) $(ONLY)

package:
	@scripts/install-dependencies.sh package
	@scripts/make-package.sh $(JOBS)

wheel:
	@scripts/install-dependencies.sh wheel
	@[ -f build-package/build.ninja ] || cmake --preset package
	@cmake --build build-package --parallel $(JOBS) --target tools tilewright
	@scripts/make-wheel.py

docs: configure
	@cmake --build $(BUILD) --parallel $(JOBS) --target refresh-reference-docs
	@/usr/bin/python3 scripts/diagnostics.py --write
	@/usr/bin/python3 scripts/library.py --write
	@/usr/bin/python3 scripts/kernels.py --write

digests: configure
	@scripts/install-ptxas.sh $(BUILD)
	@cmake --build $(BUILD) --parallel $(JOBS) --target tilewrightc
	@PATH=$(abspath $(BUILD))/bin:$$PATH:$(abspath $(BUILD))/ptxas \
	  /usr/bin/python3 test/Kernels/Inputs/digests.py --write --jobs $(JOBS)

frameworks:
	@scripts/install-frameworks.sh $(BUILD)

site:
	@scripts/install-dependencies.sh
	@/usr/bin/python3 scripts/make-site.py $(BUILD)

format:
	@scripts/install-dependencies.sh
	@git ls-files '*.h' '*.cpp' | xargs clang-format-22 -i

clean:
	rm -rf $(BUILD) build-debug build-package build-sanitized build-thread-sanitized build-coverage
