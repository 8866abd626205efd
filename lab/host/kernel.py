# SPDX-License-Identifier: GPL-2.0-only
"""Configure and build one kernel of the lab, its modules included."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

import records
import steps
from records import base_file

OPTION = re.compile(r"^(?:(CONFIG_\w+)=(.*)|# (CONFIG_\w+) is not set)$", re.M)


def options(*files):
    """What configurations or fragments say of each option; the last one holds."""
    return {name or unset: value if name else "n" for file in files
            for name, value, unset in OPTION.findall(file.read_text())}


@functools.lru_cache(maxsize=None)
def functions():
    """The functions that the series adds, in files of its own and in others."""
    begin = re.compile(r"^(?:\w[\w \t*]*[ \t*])?(\w+)\(", re.M)

    def lines(sign, text):
        return "\n".join(re.findall(rf"^{sign}(.*)", text, re.M))

    found = set()
    for name in base_file.new_files():
        if re.match(r"(arch|include|kernel|virt)/.*\.[ch]$", name):
            found.update(begin.findall((records.TOP / name).read_text()))
    for text in base_file.patches():
        found.update(set(begin.findall(lines(r"\+", text)))
                     - set(begin.findall(lines("-", text))))
    return found


def lost(record):
    """The options that fragments ask for and the configuration has otherwise.

    In another tree than the patched one an option of the series may be unknown.
    """
    made = options(record.kernel / ".config")
    return [name for name, value in options(*record.fragments).items()
            if made.get(name, "n") != value
            and (record.tree == "linux" or knows(record.source, name))]


def knows(source, option):
    """Does some Kconfig file of this source have the option?"""
    name = option.removeprefix("CONFIG_")
    return subprocess.run(["git", "-C", source, "grep", "-qE",
                           rf"^\s*(menu)?config {name}$", "--", "*Kconfig*"],
                          check=False).returncode == 0


def configure(record):
    """The fragments and nothing else; every option they ask for has to stick."""
    asked = record.kernel / "asked.config"
    asked.parent.mkdir(parents=True, exist_ok=True)
    asked.write_text("".join(file.read_text() for file in record.fragments))
    log = Path(f"{record.log}-config.log")
    steps.run(f"{record.title}: configure", log, record.make("allnoconfig"),
              env={"KCONFIG_ALLCONFIG": str(asked)})
    if names := lost(record):
        raise records.Invalid(f"{record.title}: the configuration does not "
                              f"take {' '.join(names)} (log: {log})")


def sanitized(record):
    """What tells kbuild where a kernel with sanitizers has them: where what KVM has is
    made, used and freed, and in KVM's guest. In all else they find nothing of it, and cost
    time to compile and to run.

    make expands a variable of the environment when it is used, here for each object, and
    what the Makefile of a folder says holds.
    """
    folders = ("virt", f"arch/{record.srcarch}/kvm", "fs", "io_uring", "kernel", "lib", "mm",
               "drivers/vfio", "samples")
    watched = " ".join([*(f"{folder} {folder}/%" for folder in folders),
                        f"arch/{record.srcarch}/kernel/kvm%"])
    return {name: f"$(if $(filter {watched},$(obj) $@),,n)"
            for name in ("KASAN_SANITIZE", "UBSAN_SANITIZE")}


def is_sanitized(object_file):
    """Whether KASAN looks at what this object file does."""
    return "__asan_" in subprocess.run(["nm", "-u", object_file], check=True,
                                       capture_output=True, text=True).stdout


def build(record):
    """Image, modules and the lab's own module where there is one.

    KVM alone where the record has no image.
    """
    targets = [Path(record.image).name, "modules"] if record.image else [
        "KBUILD_MODULES=1", f"arch/{record.srcarch}/kvm/"]
    commands = [record.make(*targets)]
    if record.extmod:
        folder = record.kernel / "extmod"
        shutil.copytree(records.INSIDE / record.extmod, folder,
                        dirs_exist_ok=True)
        commands.append(record.make(f"M={folder}", "modules"))
    log = Path(f"{record.log}-kernel.log")
    # The compiler has all CPUs; two builds at once are no faster.
    with steps.alone(records.OF_BASE / "kernels"):
        steps.run(f"{record.title}: build the kernel", log, *commands,
                  env=sanitized(record))
    for made in (*([record.image] if record.image else [records.WITH_TYPES]),
                 *record.modules):
        if not (record.kernel / made).exists():
            raise records.Invalid(f"{record.path.name}: the build made no "
                                  f"{made} (log: {log})")
    if (options(record.kernel / ".config").get("CONFIG_KASAN") == "y"
            and not is_sanitized(record.kernel / records.WITH_TYPES)):
        raise records.Invalid(f"{record.path.name}: KVM is compiled without KASAN")


def make(record):
    """Build unless nothing changed since the last time."""
    record = records.Record(record.built_as, record.tree)
    if record.tree == "linux":
        steps.use_tree()
    elif record.tree == "linux-base":
        steps.script("base-tree")
    extmod = records.INSIDE / record.extmod
    files = [Path(__file__), *record.fragments,
             *(sorted(extmod.iterdir()) if record.extmod else ())]

    def configure_and_build():
        configure(record)
        build(record)

    steps.unless_made(record.kernel, record, files,
                      ("Documentation", "tools/testing"), configure_and_build)
