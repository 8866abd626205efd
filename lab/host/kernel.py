# SPDX-License-Identifier: GPL-2.0-only
"""Configure and build a kernel of the lab and its modules."""

import functools
import re
import shutil
import subprocess
from pathlib import Path

from . import judge, patch_file, records, steps

OPTION = re.compile(r"^(?:(CONFIG_\w+)=(.*)|# (CONFIG_\w+) is not set)$", re.M)


def read_options(*files):
    """Return the options in configurations or fragments, of which the last one wins."""
    return parse_options(*(file.read_text() for file in files))


def parse_options(*texts):
    """Return the options in the texts of configurations, of which the last one wins."""
    return {name or unset: value if name else "n" for text in texts
            for name, value, unset in OPTION.findall(text)}


@functools.lru_cache(maxsize=None)
def find_functions():
    """Return the functions that the series add, in new and in edited files.

    A function that they move to another file counts as well.
    """
    begin = re.compile(r"^(?:\w[\w \t*]*[ \t*])?(\w+)\(", re.M)

    def lines(sign, text):
        return "\n".join(re.findall(rf"^{sign}(.*)", text, re.M))

    found = set()
    for name in patch_file.list_new_files():
        if re.match(r"(arch|include|kernel|virt)/.*\.[ch]$", name):
            found.update(begin.findall((records.TOP / name).read_text()))
    for patch in patch_file.read_patches():
        for _, diff in patch.diffs():
            found.update(set(begin.findall(lines(r"\+", diff)))
                         - set(begin.findall(lines("-", diff))))
    return found


@functools.lru_cache(maxsize=None)
def find_library(record):
    """Return the functions that access data which their callers pass: those of lib/, and KVM's."""
    objects = [path for name in ("lib", "kernel/kcsan", "virt", f"arch/{record.srcarch}/lib",
                                 f"arch/{record.srcarch}/kvm")
               for path in (record.kernel / name).rglob("*.o")]
    symbols = subprocess.run(["nm", "--defined-only", *objects], check=True, capture_output=True,
                             text=True).stdout if objects else ""
    return frozenset(re.findall(r" [TtWw] (\w+)", symbols))


def is_race_of_series(record, report):
    """Return True if a function of the series chose the data of a race in this kernel."""
    return judge.has_function(report, find_functions(), find_library(record))


def find_lost_options(record):
    """Return the options of the fragments that the configuration lacks or has changed.

    Options of the series may be unknown in trees other than the patched one.
    """
    made = read_options(record.kernel / ".config")
    return [name for name, value in read_options(*record.fragments).items()
            if made.get(name, "n") != value
            and (record.tree == "linux" or has_option(record.source, name))]


def has_option(source, option):
    """Return True if a Kconfig file of the source, tracked or not, defines the option."""
    name = option.removeprefix("CONFIG_")
    return subprocess.run(["git", "-C", source, "grep", "--untracked", "--no-exclude-standard", "-qE",
                           rf"^\s*(menu)?config {name}$", "--", "*Kconfig*"],
                          check=False).returncode == 0


def configure(record):
    """Configure the kernel with only the fragments; raise Invalid if an option is lost."""
    asked = record.kernel / "asked.config"
    asked.parent.mkdir(parents=True, exist_ok=True)
    asked.write_text("".join(file.read_text() for file in record.fragments))
    log = Path(f"{record.log}-config.log")
    steps.run(f"{record.title}: configure", log, record.make_command("allnoconfig"),
              env={"KCONFIG_ALLCONFIG": str(asked)})
    if names := find_lost_options(record):
        raise records.Invalid(f"{record.title}: the configuration does not "
                              f"take {' '.join(names)} (log: {log})")


def limit_sanitizers(record):
    """Return the variables that make kbuild use sanitizers only in some directories.

    They are the directories that allocate, use and free KVM's memory, and KVM's guest code.
    Elsewhere, sanitizers find nothing related to KVM and cost time to compile and to run.
    make expands a variable of the environment when it is used, here for each object; the
    Makefile of a directory takes precedence.
    """
    folders = ("virt", f"arch/{record.srcarch}/kvm", "fs", "io_uring", "kernel", "lib", "mm",
               "drivers/vfio", "samples")
    watched = " ".join([*(f"{folder} {folder}/%" for folder in folders),
                        f"arch/{record.srcarch}/kernel/kvm%"])
    return {name: f"$(if $(filter {watched},$(obj) $@),,n)"
            for name in ("KASAN_SANITIZE", "UBSAN_SANITIZE")}


def is_sanitized(object_file):
    """Return True if the object file is instrumented by KASAN."""
    return "__asan_" in subprocess.run(["nm", "-u", object_file], check=True,
                                       capture_output=True, text=True).stdout


def build(record):
    """Build the image, the modules and the lab's module, or only KVM without an image."""
    targets = [Path(record.image).name, "modules"] if record.image else [
        "KBUILD_MODULES=1", f"arch/{record.srcarch}/kvm/"]
    commands = [record.make_command(*targets)]
    if record.extmod:
        folder = record.kernel / "extmod"
        shutil.copytree(records.INSIDE / record.extmod, folder,
                        dirs_exist_ok=True)
        commands.append(record.make_command(f"M={folder}", "modules"))
    log = Path(f"{record.log}-kernel.log")
    # A build uses all CPUs: parallel builds would not be faster.
    with steps.lock_directory(records.BASE_BUILD_DIR / "kernels"):
        steps.run(f"{record.title}: build the kernel", log, *commands,
                  env=limit_sanitizers(record))
    for made in (*([record.image] if record.image else [records.WITH_TYPES]),
                 *record.modules):
        if not (record.kernel / made).exists():
            raise records.Invalid(f"{record.path.name}: the build did not create "
                                  f"{made} (log: {log})")
    if (read_options(record.kernel / ".config").get("CONFIG_KASAN") == "y"
            and not is_sanitized(record.kernel / records.WITH_TYPES)):
        raise records.Invalid(f"{record.path.name}: KVM is compiled without KASAN")


def make(record):
    """Build the kernel if its inputs have changed."""
    record = records.Record(record.built_as, record.tree)
    if record.tree == "linux":
        steps.use_tree()
    elif record.tree == "linux-base":
        steps.run_script("scripts/base-tree")
    extmod = records.INSIDE / record.extmod
    files = [Path(__file__), *record.fragments,
             *(sorted(extmod.iterdir()) if record.extmod else ())]

    def configure_and_build():
        configure(record)
        build(record)

    steps.build_if_changed(record.kernel, record, files,
                      ("Documentation", "tools/testing"), configure_and_build)
