# SPDX-License-Identifier: GPL-2.0-only
# The goals that users type. Each goal is one script; the scripts have the details.

# The base kernel that the series target: a directory of patches/. Without BASE it is the
# default base; make check-landing and make check-all then cover more or all of them.
BASES := $(notdir $(patsubst %/base,%,$(wildcard patches/*/base)))
DEFAULT := $(file <patches/default)
CHOSEN := $(or $(BASE),$(DEFAULT))
$(if $(filter-out 1,$(words $(CHOSEN)))$(filter-out $(BASES),$(CHOSEN)),$(error no base '$(CHOSEN)', choose from: $(BASES)))
# The source of the base: a tree that you have, or Debian's package.
LINUX_SRC ?=
# The lab's kernels to check; without KERNELS those that a check uses.
KERNELS ?=
ALL_KERNELS := $(sort $(shell sed -n 's/^kernels *= *//p' patches/*/base))
UNKNOWN := $(filter-out $(ALL_KERNELS),$(KERNELS))
UNLISTED := $(foreach kernel,$(UNKNOWN),$(if $(wildcard lab/kernels/$(kernel).record),$(kernel)))
$(if $(UNLISTED),$(error no base lists the kernel '$(UNLISTED)': add it to kernels in patches/BASE/base))
$(if $(UNKNOWN),$(error no kernel '$(UNKNOWN)', choose from: $(ALL_KERNELS)))
export BASE LINUX_SRC KERNELS
# Packages that the scripts need; the lab installs the packages that its kernels need.
NEEDED := git python3 xz-utils

help:
	@echo 'The KVM statistics file descriptor for Linux $(CHOSEN), and the lab that boots it.'
	@echo
	@echo '  make demo             show the statistics of two running guests: 4 minutes at first'
	@echo '  make check            test the base and kvm-stats: 15 minutes on 2 CPUs at first'
	@echo '  make check-landing    test more kernels and base 6.12, before a merge: 55 minutes'
	@echo '  make check-all        run all tests of every base, before a release: 2 hours'
	@echo '  make check-NAME       run one check: $(filter-out tiers host long,$(notdir $(wildcard lab/checks/*)))'
	@echo '                        or one that takes long: $(filter-out host,$(notdir $(wildcard lab/checks/long/*)))'
	@echo '  lab/check --list      list what make check-all runs, with the costs of the last run'
	@echo
	@echo '  make tree             create the kernel tree build/$(CHOSEN)/linux: a commit per patch, a branch per series'
	@echo '  make import           bring the commits of build/$(CHOSEN)/linux back into the repository'
	@echo '  make series           export each series for git am into build/$(CHOSEN)/series'
	@echo '  make bench            count the instructions of opening and reading, and the cost of serve'
	@echo '  make soak             run ten million operations on all kinds of stats fds'
	@echo '  make record-debugfs   record the debugfs files of the base kernels'
	@echo '  make release          release VERSION: NEWS.md, changelogs, commit, tag, tarball'
	@echo '  make clean            remove build/'
	@echo
	@echo '  lab/run KERNEL -- PROGRAM ARG...   run a static program on a kernel of the lab'
	@echo
	@echo 'BASE      = $(or $(BASE),(7.3 and 6.12 for check-landing, every base for check-all, otherwise $(DEFAULT))) (choose from: $(BASES))'
	@echo 'LINUX_SRC = $(or $(LINUX_SRC),(none: Debian package of the base))'
	@echo 'KERNELS   = $(or $(KERNELS),(none: those that a check uses))'

demo: host-packages
	@lab/demo

check: host-packages
	@lab/check --tier check

check-landing: host-packages
	@lab/check --tier landing

check-all: host-packages
	@lab/check

# One check of lab/checks/ or lab/checks/long/.
check-%: host-packages
	@lab/check $*

bench: host-packages
	@lab/check bench kvm-stats-serve-cost

soak: check-soak

tree: host-packages
	@scripts/tree --whole

# Keep work in the tree that is not imported, and report it.
kernel-tree-as-is: host-packages
	@scripts/tree --use

import:
	@scripts/import

series: host-packages
	@scripts/series

host-packages:
	@lab/fetch/install-packages $(NEEDED)

lab-packages: host-packages
	@lab/install

record-debugfs: kernel-tree-as-is
	@lab/record-debugfs

release: host-packages
	@scripts/release '$(VERSION)'

clean:
	rm -rf build

.PHONY: help demo check check-landing check-all bench soak tree kernel-tree-as-is import \
	series host-packages lab-packages record-debugfs release clean
