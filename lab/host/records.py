# SPDX-License-Identifier: GPL-2.0-only
"""The lab's records: what one kernel needs to be built and booted."""

import os
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
LAB = TOP / "lab"
KERNELS = LAB / "kernels"
BUILD = TOP / "build"

# The keys of a record, all of them in each, and what they say:
#   arch, cross_compile    as kbuild takes them
#   kselftest              folder of the selftests' library for it; may be empty
#   image                  what QEMU boots, in the folder of the build
#   cpus, memory, cmdline  of the emulated machine
#   node                   device of the verdict channel in the guest
#   extmod                 folder of the lab with a module that only it builds
#   level, reason          what the kernel is expected to do, why not more
WORDS = ("arch", "cross_compile", "kselftest", "image", "cpus", "memory",
         "cmdline", "node", "extmod", "level", "reason")
# Lists of words:
#   packages               Debian's, of the toolchain and the emulator
#   cflags, ldflags        what the programs need besides
#   qemu                   the emulator, its machine and CPU
#   verdict                what gives that machine the verdict channel
#   icount                 what it takes besides to count instructions
#   modules                in the order in which they are loaded
LISTS = ("packages", "cflags", "ldflags", "qemu", "verdict", "icount",
         "modules")
# What the kernel is expected to do: run guests; create VMs and vCPUs; the same
# without the selftest, which has no library for the architecture; be compiled.
LEVELS = ("guest", "vcpu", "own-tests", "build")


class Invalid(Exception):
    """Input that is wrong, said in one line."""


def names(folder=KERNELS):
    """The kernels there are."""
    return sorted(path.stem for path in folder.glob("*.record"))


def parse(path):
    """The 'key = value' lines of one record: every key, each once."""
    values = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        where = f"{path.name}:{number}"
        if not equals:
            raise Invalid(f"{where}: not 'key = value': {line}")
        if key not in WORDS + LISTS:
            raise Invalid(f"{where}: unknown key '{key}'")
        if key in values:
            raise Invalid(f"{where}: key '{key}' stands there twice")
        values[key] = value
    for key in WORDS + LISTS:
        if key not in values:
            raise Invalid(f"{path.name}: key '{key}' is missing")
    if values["level"] not in LEVELS:
        raise Invalid(f"{path.name}: level '{values['level']}' is none of "
                      + " ".join(LEVELS))
    if (values["level"] == "own-tests") == bool(values["kselftest"]):
        raise Invalid(f"{path.name}: level own-tests has no kselftest, the "
                      "others have one")
    if (values["level"] == "guest") == bool(values["reason"]):
        raise Invalid(f"{path.name}: a level below guest has a reason, "
                      "level guest has none")
    return values


class Record:
    """One kernel of the lab: its record's values and where its files are."""

    def __init__(self, name, base=False, folder=KERNELS):
        if name not in names(folder):
            raise Invalid(f"no kernel '{name}', there are: "
                          + " ".join(names(folder)))
        self.path = folder / f"{name}.record"
        for key, value in parse(self.path).items():
            setattr(self, key, value.split() if key in LISTS else value)
        if self.extmod and not (LAB / self.extmod).is_dir():
            raise Invalid(f"{self.path.name}: no folder lab/{self.extmod}")
        self.name = name
        self.base = base
        self.title = f"{name} (base)" if base else name
        self.fragments = [folder / "common.config", folder / f"{name}.config"]
        # LAB_SOURCE names another tree, as check-bisect does.
        source = BUILD / ("linux-base" if base else "linux")
        self.source = Path(os.environ.get("LAB_SOURCE", source)).resolve()
        suffix = self.source.name.replace("linux", "", 1)
        for fragment in self.fragments:
            if not fragment.is_file():
                raise Invalid(f"{self.path.name}: no fragment {fragment.name}")
        self.kernel = BUILD / f"kernels{suffix}" / name
        self.userland = BUILD / f"userland{suffix}" / name
        self.boot = BUILD / f"lab{suffix}" / name
        self.log = BUILD / "logs" / f"{name}{suffix}"

    def make(self, *targets):
        """A make of this kernel's source, built outside of it."""
        return ["make", "-C", str(self.source), f"O={self.kernel}",
                f"ARCH={self.arch}", f"CROSS_COMPILE={self.cross_compile}",
                "LOCALVERSION=", f"-j{os.cpu_count()}", *targets]
