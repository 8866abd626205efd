# SPDX-License-Identifier: GPL-2.0-only
"""The lab's records: what one kernel needs to be built and booted."""

import copy
import os
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "scripts"))

import base_file  # noqa: E402
from base_file import Invalid, lines  # noqa: E402

LAB = TOP / "lab"
KERNELS = LAB / "kernels"
INSIDE = LAB / "inside"
# What is made from the base, and what is the same for all of them.
OF_BASE = base_file.BUILD
BUILD = TOP / "build"
# What a base has of its own of kernels of the lab.
PARTICULAR = base_file.FOLDER / "kernels"
# The object of a kernel that has debug information, for the structs of KVM: all of
# them would take a quarter of the compiler's time.
WITH_TYPES = "virt/kvm/kvm_main.o"

# The keys of a record with what holds where it says nothing; None: it has to. With
# "key += value" it says what comes after the value of the record that it is like.
WORDS = {
    "like": "",                # another record, whose values hold instead
    "arch": None,              # as kbuild takes them
    "cross_compile": None,
    "llvm": "",                # what compiles instead of gcc, -19 for clang-19
    "kselftest": "",           # the selftests' library for it, a folder of lib/
    "image": "vmlinux",        # what QEMU boots, in the folder of the build
    "cpus": "2",               # of the machine, as QEMU takes them
    "memory": "1G",
    "cmdline": "console=ttyS0",
    "node": "/dev/ttyS1",      # the verdict channel, in the machine
    "extmod": "",              # a folder of lab/inside: a module for it alone
    "level": "guest",          # what the kernel is expected to do,
    "reason": "",              # and why not more
}
LISTS = {
    "packages": None,          # Debian's, of the toolchain and the emulator
    "config": "",              # fragments besides common; the record's own name
    "cflags": "",              # what the programs need besides
    "ldflags": "",
    "qemu": "",                # the emulator, its machine and CPU
    "verdict": "-serial chardev:verdict",   # the machine's end of the channel
    "modules": "",             # in the order in which they are loaded
    # What takes it unless others are named: of checks/, or record-debugfs.
    "used_by": "kernels bisect warnings record-debugfs",
}
DEFAULTS = WORDS | LISTS
# What of it makes another kernel; a record that is like another one and has none of
# these is another machine for the same kernel.
BUILT = {"arch", "cross_compile", "llvm", "image", "extmod", "config", "config+"}
# Run guests; create VMs and vCPUs; the same without the selftests, which have no
# library for the architecture; be compiled.
LEVELS = ("guest", "vcpu", "own-tests", "build")


def names(folder=KERNELS):
    """The kernels there are: in lab/kernels, those that the base names."""
    found = sorted(path.stem for path in folder.glob("*.record"))
    if folder != KERNELS:
        return found
    named = base_file.values()["kernels"].split()
    for name in named:
        if name not in found:
            raise Invalid(f"base {base_file.NAME}: no kernel '{name}' in lab/kernels")
    return sorted(named)


def chosen(user, arguments=()):
    """Names: those given; or what user takes, of the variable KERNELS if set."""
    named = list(arguments) or os.environ.get("KERNELS", "").split() or names()
    found = [name for name in named
             if user in parse(path(name))["used_by"].split() or arguments]
    if not found:
        raise Invalid(f"none of {' '.join(named)} is used by {user}")
    return found


def path(name, folder=KERNELS):
    """Where its record is."""
    if name not in names(folder):
        raise Invalid(f"no kernel '{name}', choose from: "
                      + " ".join(names(folder)))
    return folder / f"{name}.record"


def read(file, keys):
    """What a record says, or in its place what the base does."""
    of_base = PARTICULAR / file.name
    return lines(file, keys) | (lines(of_base, keys) if of_base.is_file() else {})


def parse(file):
    """All values of one record, with what it is like and the defaults."""
    own = read(file, {*DEFAULTS, *(f"{key}+" for key in DEFAULTS if key != "like")})
    like = {}
    if own.get("like"):
        if (own["like"] == file.stem
                or not (file.parent / f"{own['like']}.record").is_file()):
            raise Invalid(f"{file.name}: like = '{own['like']}': no other record "
                          "has that name")
        like = read(file.parent / f"{own['like']}.record", DEFAULTS)
        if like.get("like"):
            raise Invalid(f"{file.name}: {own['like']} has a 'like' of its own")
        like.setdefault("config", own["like"])
    values = {"config": file.stem, **like, **own}
    for key in [key for key in own if key.endswith("+")]:
        more = values.pop(key)
        if key[:-1] in own or not like:
            raise Invalid(f"{file.name}: '{key[:-1]} += ...' adds to what the 'like' record "
                          "says, and needs one")
        before = like.get(key[:-1], DEFAULTS[key[:-1]] or "")
        values[key[:-1]] = f"{before} {more}".strip()
    for key, default in DEFAULTS.items():
        if values.setdefault(key, default) is None:
            raise Invalid(f"{file.name}: key '{key}' is missing")
    if values["level"] not in LEVELS:
        raise Invalid(f"{file.name}: unknown level '{values['level']}', choose from: "
                      + " ".join(LEVELS))
    if values["level"] == "own-tests" and values["kselftest"]:
        raise Invalid(f"{file.name}: level own-tests goes without kselftest")
    if values["level"] in ("guest", "vcpu") and not values["kselftest"]:
        raise Invalid(f"{file.name}: level {values['level']} needs kselftest")
    if values["level"] != "build" and not values["qemu"]:
        raise Invalid(f"{file.name}: needs qemu, as its level is not build")
    if (values["level"] == "guest") == bool(values["reason"]):
        raise Invalid(f"{file.name}: a level below guest needs a reason, "
                      "level guest takes none")
    values["built_as"] = own["like"] if like and not BUILT & own.keys() else file.stem
    return values


class Frozen:
    """What holds as long as it is there: another value takes another object."""

    def __setattr__(self, name, value):
        raise AttributeError(f"{name} does not change, but() makes another one")

    def but(self, **changes):
        """The same with other values."""
        for name in changes:
            if name not in vars(self):
                raise AttributeError(f"there is no {name}")
        other = copy.copy(self)
        vars(other).update(changes)
        return other


class Record(Frozen):
    """One kernel of the lab: its record's values and where its files are."""

    def __init__(self, name, tree="linux", folder=KERNELS):
        """tree: a folder of build/BASE, linux has the series, linux-base nothing."""
        file = path(name, folder)
        values = {key: tuple(value.split()) if key in LISTS else value
                  for key, value in parse(file).items()}
        if values["extmod"] and not (INSIDE / values["extmod"]).is_dir():
            raise Invalid(f"{file.name}: no folder lab/inside/{values['extmod']}")
        fragments = [folder / f"{fragment}.config"
                     for fragment in ("common", *values["config"])]
        for fragment in fragments:
            if not fragment.is_file():
                raise Invalid(f"{file.name}: no fragment {fragment.name}")
        # Where a base needs other options.
        fragments += [fragment for fragment in (
            PARTICULAR / fragment.name for fragment in fragments) if fragment.is_file()]
        arch, suffix = values["arch"], tree.removeprefix("linux")
        vars(self).update(
            values, name=name, path=file, tree=tree, fragments=tuple(fragments),
            srcarch="x86" if arch in ("i386", "x86_64") else arch,
            title=f"{name} ({suffix[1:]})" if suffix else name,
            source=OF_BASE / tree,
            kernel=OF_BASE / f"kernels{suffix}" / values["built_as"],
            userland=OF_BASE / f"userland{suffix}" / (values["like"] or name),
            # One folder for all: most headers are the same for every architecture.
            headers=OF_BASE / f"headers{suffix}",
            boot=OF_BASE / f"boots{suffix}" / name,
            log=OF_BASE / "logs" / f"{name}{suffix}")

    @property
    def compiler(self):
        """Its command."""
        return f"clang{self.llvm}" if self.llvm else f"{self.cross_compile}gcc"

    def make(self, *targets, into=None):
        """A make of this kernel's source, built outside of it, in its folder or another."""
        return ["make", "-C", str(self.source), f"O={into or self.kernel}",
                f"ARCH={self.arch}", f"CROSS_COMPILE={self.cross_compile}",
                *([f"LLVM={self.llvm}"] if self.llvm else []),
                # kbuild's name of an object is its path from the Makefile; that of newer
                # kernels for s390 is in a folder of KVM's.
                f"CFLAGS_../../../{WITH_TYPES}=-g", f"CFLAGS_../../../../{WITH_TYPES}=-g",
                "LOCALVERSION=", f"-j{os.cpu_count()}", *targets]
