# SPDX-License-Identifier: GPL-2.0-only
# What a person types. Each goal is one script; the scripts say more.

# What the series are for: a folder of patches/.
override BASE := $(or $(BASE),$(file <patches/default))
BASES := $(notdir $(patsubst %/base,%,$(wildcard patches/*/base)))
$(if $(filter-out $(BASES),$(BASE)),$(error no base '$(BASE)', choose from: $(BASES)))
# Its source: a tree you already have, or Debian's package.
LINUX_SRC ?=
# The kernels of the lab to check, of those that the base names.
OF_BASE = $(shell sed -n 's/^$(1) *= *//p' patches/$(BASE)/base)
ALL_KERNELS := $(call OF_BASE,kernels)
KERNELS ?= $(ALL_KERNELS)
UNKNOWN := $(filter-out $(ALL_KERNELS),$(KERNELS))
$(if $(UNKNOWN),$(error no kernel '$(UNKNOWN)', choose from: $(ALL_KERNELS)))
export BASE LINUX_SRC KERNELS
# What the scripts themselves need; the lab installs what its kernels need.
NEEDED := git python3 xz-utils

help:
	@echo 'The KVM statistics file descriptor for Linux $(BASE), and the lab that boots it.'
	@echo
	@echo '  make demo             see the statistics of a running guest'
	@echo '  make check            run all tests on all kernels'
	@echo
	@echo '  make tree             make the kernel tree build/$(BASE)/linux: a commit per patch, a branch per series'
	@echo '  make import           bring the commits of build/$(BASE)/linux back into the repository'
	@echo '  make series           export each series for git am into build/$(BASE)/series'
	@echo '  make bench            count the instructions of opening and reading, and what serve costs'
	@echo '  make check-bisect     build every patch on every kernel'
	@echo '  make check-warnings   compile KVM with W=1 and sparse on every kernel'
	@echo '  make check-races      run all tests on a kernel that watches for data races'
	@echo '  make check-migration  migrate and restore a Linux guest in the middle of perf stat'
	@echo '  make check-mutants    break KVM here and there: some test has to see it; takes an hour'
	@echo '  make soak             ten million operations on statistics files of all kinds'
	@echo '  make check-NAME       run one check: $(filter-out all long,$(notdir $(wildcard checks/*)))'
	@echo '  make record-debugfs   record what the base kernels have in debugfs'
	@echo '  make clean            remove build/'
	@echo
	@echo '  lab/run KERNEL -- PROGRAM ARG...   run a static program on a kernel of the lab'
	@echo
	@echo 'BASE      = $(BASE) (choose from: $(BASES))'
	@echo 'LINUX_SRC = $(or $(LINUX_SRC),(none: the package $(call OF_BASE,package)))'
	@echo 'KERNELS   = $(KERNELS)'

demo: used-tree
	@lab/demo

# What the kernels need is installed while the source of one is fetched.
check:
	@$(MAKE) -s -j2 packages used-tree
	@checks/all

# One check of checks/ or of checks/long/; it has the kernel tree made if it needs one.
check-%: needed
	@checks/all $*

bench: needed
	@checks/all bench kvm-stats-serve-cost

soak: check-soak

tree: needed
	@scripts/tree

# For what runs on it: work in it that is not imported stays, and it is said.
used-tree: needed
	@scripts/tree --use

packages: needed
	@lab/install

needed:
	@scripts/install-packages $(NEEDED)

import:
	@scripts/import

series: needed
	@scripts/series

record-debugfs: used-tree
	@lab/record-debugfs

clean:
	rm -rf build

.PHONY: help demo check tree used-tree packages needed import series bench soak record-debugfs clean
