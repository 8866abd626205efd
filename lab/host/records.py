# SPDX-License-Identifier: GPL-2.0-only
"""The lab's records, which describe how kernels are built and booted."""

import copy
import os
from pathlib import Path

from . import base_file
from .base_file import Invalid, parse_lines

TOP = Path(__file__).resolve().parents[2]
LAB = TOP / "lab"
KERNELS = LAB / "kernels"
INSIDE = LAB / "inside"
# Directories of generated files: those of the base, and those shared by all bases.
BASE_BUILD_DIR = base_file.BUILD
BUILD = TOP / "build"
# The only object with debug information, for KVM's structs: debug information in all objects
# would take a quarter of the compile time.
WITH_TYPES = "virt/kvm/kvm_main.o"

# The keys of a record and their default values; None: the key is required. "key += value"
# appends to the value of the record named by like.
SCALAR_KEYS = {
    "like": "",                # another record, whose values are inherited
    "arch": None,              # the names used by kbuild
    "cross_compile": None,
    "llvm": "",                # compile with LLVM: -19 for clang-19
    "kselftest": "",           # its selftest library, a directory of lib/
    "image": "vmlinux",        # the file that QEMU boots; empty: compile only KVM
    "cpus": "2",               # of the test machine, in QEMU's syntax
    "clock": "host",           # of the test machine, one of CLOCKS
    "memory": "1G",
    "cmdline": "console=ttyS0",
    "node": "/dev/ttyS1",      # the result channel in the test machine
    "extmod": "",              # a directory of lab/inside: a module for this kernel
    "level": "guest",          # what the kernel supports,
    "reason": "",              # and the reason if it is not everything
}
LIST_KEYS = {
    "packages": None,          # Debian packages of the toolchain and the emulator
    "config": "",              # fragments in addition to common; the record's name
    "cflags": "",              # additional options for compiling programs
    "ldflags": "",
    "qemu": "",                # the emulator, its machine and CPU
    "verdict": "-serial chardev:verdict",   # the machine's end of the channel
    "modules": "",             # in the order in which they are loaded
    "tests": "",               # the only tests that run, with those at the end
    # What takes it unless others are named: of lab/checks, or record-debugfs.
    "used_by": "kernels bisect warnings record-debugfs",
}
DEFAULTS = SCALAR_KEYS | LIST_KEYS
# Clocks of a test machine. "host" is the build host's clock, and each CPU has a thread, so that
# CPUs race. The others are virtual time: an instruction takes 8 or 1 ns (2^value, QEMU's shift),
# all CPUs share one thread, and while they are idle, the clock jumps to the next timer.
CLOCKS = {"host": None, "8ns": 3, "1ns": 0}
# Keys that affect the build: a record that is like another one and has none of these boots the
# same kernel on a different test machine.
BUILD_KEYS = {"arch", "cross_compile", "llvm", "image", "extmod", "config", "config+"}
# The kernel runs guests; creates VMs and vCPUs; does so without selftests, whose library does
# not support the architecture; is only compiled.
LEVELS = ("guest", "vcpu", "own-tests", "build")


def list_names(folder=KERNELS):
    """Return the names of all records; in lab/kernels, only those listed by the base."""
    found = sorted(path.stem for path in folder.glob("*.record"))
    if folder != KERNELS:
        return found
    named = base_file.read_values()["kernels"].split()
    for name in named:
        if name not in found:
            raise Invalid(f"base {base_file.NAME}: no kernel '{name}' in lab/kernels")
    return sorted(named)


def choose(user, arguments=()):
    """Return the named kernels, or those used by a check, limited by the variable KERNELS."""
    named = list(arguments) or os.environ.get("KERNELS", "").split() or list_names()
    found = [name for name in named
             if user in parse(find_record(name))["used_by"].split() or arguments]
    if not found:
        raise Invalid(f"none of {' '.join(named)} is used by {user}")
    return found


def find_record(name, folder=KERNELS):
    """Return the path of a record."""
    if name not in list_names(folder):
        if (folder / f"{name}.record").is_file():
            raise Invalid(f"base {base_file.NAME} does not list the kernel '{name}': add it to "
                          f"kernels in patches/{base_file.NAME}/base")
        raise Invalid(f"no kernel '{name}', choose from: "
                      + " ".join(list_names(folder)))
    return folder / f"{name}.record"


def find_overrides(file, base=base_file.NAME):
    """Return the files of a base that override one of lab/kernels; the last one wins."""
    return [found for folder in base_file.list_directories(base)
            if (found := folder / "kernels" / file.name).is_file()]


def read(file, keys, base):
    """Return the values of a record, those of the base included."""
    values = parse_lines(file, keys)
    for override in find_overrides(file, base):
        values |= parse_lines(override, keys)
    return values


def merge(file, base, below=()):
    """Return the values of a record and of the record that it is like, without defaults.

    below: the records that lead here by their 'like'.
    """
    own = read(file, {*DEFAULTS, *(f"{key}+" for key in DEFAULTS if key != "like")}, base)
    like = {}
    if own.get("like"):
        other = file.parent / f"{own['like']}.record"
        if other in (file, *below) or not other.is_file():
            raise Invalid(f"{file.name}: like = '{own['like']}': no other record "
                          "has that name")
        like = merge(other, base, (file, *below))
    values = {"config": file.stem, "built_as": file.stem, **like, **own}
    for key in [key for key in own if key.endswith("+")]:
        more = values.pop(key)
        if key[:-1] in own or not like:
            raise Invalid(f"{file.name}: '{key[:-1]} += ...' appends to a value of the 'like' "
                          "record, which is missing")
        before = like.get(key[:-1], DEFAULTS[key[:-1]] or "")
        values[key[:-1]] = f"{before} {more}".strip()
    if BUILD_KEYS & own.keys():
        values["built_as"] = file.stem
    if like:
        # The first record of the chain: the programs are built for that one.
        values["like"] = like.get("like", own["like"])
    return values


def parse(file, base=base_file.NAME):
    """Return all values of a record, inherited ones and defaults included."""
    values = merge(file, base)
    for key, default in DEFAULTS.items():
        if values.setdefault(key, default) is None:
            raise Invalid(f"{file.name}: key '{key}' is missing")
    if values["level"] not in LEVELS:
        raise Invalid(f"{file.name}: unknown level '{values['level']}', choose from: "
                      + " ".join(LEVELS))
    if values["clock"] not in CLOCKS:
        raise Invalid(f"{file.name}: unknown clock '{values['clock']}', choose from: "
                      + " ".join(CLOCKS))
    if values["level"] == "own-tests" and values["kselftest"]:
        raise Invalid(f"{file.name}: level own-tests goes without kselftest")
    if values["level"] in ("guest", "vcpu") and not values["kselftest"]:
        raise Invalid(f"{file.name}: level {values['level']} needs kselftest")
    if values["level"] != "build" and not values["qemu"]:
        raise Invalid(f"{file.name}: needs qemu, as its level is not build")
    if (values["level"] == "guest") == bool(values["reason"]):
        raise Invalid(f"{file.name}: a level below guest needs a reason, "
                      "level guest takes none")
    return values


class Frozen:
    """An immutable object."""

    def __setattr__(self, name, value):
        raise AttributeError(f"{name} is immutable, use replace()")

    def replace(self, **changes):
        """Return a copy with other values."""
        for name in changes:
            if name not in vars(self):
                raise AttributeError(f"no attribute {name}")
        other = copy.copy(self)
        vars(other).update(changes)
        return other


class Record(Frozen):
    """A kernel of the lab: the values of its record and the paths of its files."""

    def __init__(self, name, tree="linux", folder=KERNELS):
        """tree: a directory of build/BASE, linux with the series or linux-base without."""
        file = find_record(name, folder)
        values = {key: tuple(value.split()) if key in LIST_KEYS else value
                  for key, value in parse(file).items()}
        if values["extmod"] and not (INSIDE / values["extmod"]).is_dir():
            raise Invalid(f"{file.name}: no folder lab/inside/{values['extmod']}")
        fragments = [folder / f"{fragment}.config"
                     for fragment in ("common", *values["config"])]
        for fragment in fragments:
            if not fragment.is_file():
                raise Invalid(f"{file.name}: no fragment {fragment.name}")
        fragments += [override for fragment in list(fragments)
                      for override in find_overrides(fragment)]
        arch, suffix = values["arch"], tree.removeprefix("linux")
        vars(self).update(
            values, name=name, path=file, tree=tree, fragments=tuple(fragments),
            srcarch="x86" if arch in ("i386", "x86_64") else arch,
            title=f"{name} ({suffix[1:]})" if suffix else name,
            source=BASE_BUILD_DIR / tree,
            kernel=BASE_BUILD_DIR / f"kernels{suffix}" / values["built_as"],
            userland=BASE_BUILD_DIR / f"userland{suffix}" / (values["like"] or name),
            # All kernels share this directory: most headers are the same.
            headers=BASE_BUILD_DIR / f"headers{suffix}",
            boot=BASE_BUILD_DIR / f"boots{suffix}" / name,
            log=BASE_BUILD_DIR / "logs" / f"{name}{suffix}")

    @property
    def compiler(self):
        """The command of the compiler."""
        return f"clang{self.llvm}" if self.llvm else f"{self.cross_compile}gcc"

    def make_command(self, *targets, into=None):
        """Return the make command for targets, built in the kernel's directory or in `into`."""
        return ["make", "-C", str(self.source), f"O={into or self.kernel}",
                f"ARCH={self.arch}", f"CROSS_COMPILE={self.cross_compile}",
                *([f"LLVM={self.llvm}"] if self.llvm else []),
                # kbuild names an object by its path from the Makefile, which is in a
                # subdirectory in newer s390 kernels.
                f"CFLAGS_../../../{WITH_TYPES}=-g", f"CFLAGS_../../../../{WITH_TYPES}=-g",
                "LOCALVERSION=", f"-j{os.cpu_count()}", *targets]


def list_machines(record):
    """Return the records that boot the kernel of a record with tests, the record first."""
    return [record, *(other for other in (Record(name, record.tree) for name in list_names())
                      if other.tests and other.name != record.name
                      and other.kernel == record.kernel)]
