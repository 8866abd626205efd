# SPDX-License-Identifier: GPL-2.0-only
"""Build what runs on one kernel of the lab: PID 1 and the test programs."""

import os
import shutil
from pathlib import Path, PurePath

import records
import steps

# The kernel's own test of statistics files, where it has one.
OF_KERNEL = "kvm_binary_stats_test"
STATIC = ("-static", "-pthread", "-no-pie")
READER = records.TOP / "kvm-stats"
# What the selftests of the kernel are compiled with.
SELFTEST = ["-std=gnu99", "-fno-stack-protector", "-fno-pie"]


def own(record):
    """The lab's own programs: for every kernel, and for the selftests' library."""
    return (sorted(records.INSIDE.glob("*.c")),
            sorted((records.INSIDE / record.kselftest).glob("*.c"))
            if record.kselftest else [])


def selftests(record):
    """Those of the series that are for this kernel: paths without the .c."""
    folder = PurePath("tools/testing/selftests/kvm")
    return sorted(path.relative_to(folder).with_suffix("")
                  for path in map(PurePath, records.base_file.new_files())
                  if path.suffix == ".c"
                  and path.parent in (folder, folder / record.kselftest)
                  ) if record.kselftest else []


def install_headers(record):
    """Those of the kernel for programs, into the kernel's userland folder."""
    with steps.alone(record.headers):
        steps.run(f"{record.title}: install the headers",
                  Path(f"{record.log}-headers.log"),
                  record.make(f"INSTALL_HDR_PATH={record.userland}/usr", "headers_install",
                              into=record.headers))


def build(record):
    """Everything, into bin/ and init of the kernel's userland folder."""
    out = record.userland
    shutil.rmtree(out, ignore_errors=True)
    (out / "bin").mkdir(parents=True)
    install_headers(record)
    cc = [record.compiler, *record.cflags]
    compiler = " ".join(cc)
    include = f"-I{out}/usr/include"
    ldflags = " ".join(STATIC + record.ldflags)
    commands = []
    everywhere, with_library = own(record)
    for program in everywhere:
        # PID 1 without the record's ldflags: it creates no VM, and its exec
        # cannot be restarted by a kernel that wants other page tables for it.
        init = program.stem == "init"
        commands.append([*cc, "-O2", "-Wall", include, program, *STATIC,
                         *([] if init else record.ldflags), "-o",
                         out / ("init" if init else f"bin/{program.stem}")])
    tree = record.source / "tools/testing/selftests"
    library = out / "kselftest/libkvm.a"
    # Newer kernels' library is no archive, and calls architectures as the kernel does.
    newer = (tree / "kvm/Makefile.kvm").is_file()
    lib = tree / "kvm/lib" / (record.srcarch if newer else record.kselftest)
    if record.kselftest and lib.is_dir():
        (out / "kselftest").mkdir()
        # All tests: the base's still build. Those of a newer one are many. The system's
        # own kernel headers are newer: keep them out.
        targets = ["all"]
        if newer:
            targets = [out / "kselftest" / path
                       for path in (OF_KERNEL, *selftests(record))
                       if (tree / f"kvm/{path}.c").is_file()]
        commands.append(
            ["make", "-C", tree / "kvm", f"-j{os.cpu_count()}",
             f"ARCH={record.arch}", f"CROSS_COMPILE={record.cross_compile}",
             f"CC={compiler}", f"OUTPUT={out}/kselftest",
             f"LINUX_HDR_PATH={out}/usr/include", "KSFT_KHDR_INSTALL=",
             f"LDFLAGS={ldflags}", *targets])
        if newer:
            commands.append(["sh", "-c", f"ar rcs {library} $(find {library.parent}/lib "
                                         "-name '*.o')"])
        if record.tree == "linux":
            commands += [["cp", out / "kselftest" / path, out / "bin"]
                         for path in (*([OF_KERNEL] if newer else []), *selftests(record))]
            commands += [
                [*cc, "-O2", "-Wall", *SELFTEST, f"-I{record.source}/tools/include",
                 include,
                 f"-I{tree}/kvm/include",
                 f"-I{tree}/kvm/include/{record.kselftest}", f"-I{tree}",
                 "-idirafter", f"{record.source}/tools/arch/{record.srcarch}/include",
                 "-o", out / "bin" / program.stem, program, library, *STATIC]
                for program in with_library
                # It has its guests made by the library as it was.
                if not (newer and program.stem == "demo")]
    if record.tree == "linux":
        (out / "kvm-stats").mkdir()
        commands += [
            # Libraries for other machines than this one are seldom there.
            ["make", "-C", READER, f"-j{os.cpu_count()}", f"CC={compiler}", "LIBC_ONLY=1",
             f"OUTPUT={out}/kvm-stats/", f"LDFLAGS={ldflags}", "program",
             "descriptors", f"{out}/kvm-stats/tests/sources"],
            ["cp", out / "kvm-stats/kvm-stats",
             out / "kvm-stats/tests/descriptors",
             out / "kvm-stats/tests/sources", out / "bin"]]
    steps.run(f"{record.title}: build the programs",
              Path(f"{record.log}-userland.log"), *commands)


def make(record):
    """Build unless nothing changed since the last time.

    Kernels that are like another one run its programs: they are built once.
    """
    record = records.Record(record.like or record.name, record.tree)
    files = [Path(__file__), *sum(own(record), []), *sorted(records.INSIDE.glob("*.h")),
             *sorted(path for path in READER.rglob("*") if path.is_file())]
    steps.unless_made(record.userland, record, files,
                      ("Documentation", "drivers"), lambda: build(record))
