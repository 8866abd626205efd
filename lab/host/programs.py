# SPDX-License-Identifier: GPL-2.0-only
"""Build the programs for a kernel of the lab: PID 1 and the test programs."""

import os
import re
import shutil
import textwrap
from pathlib import Path, PurePath

from . import headers, patch_file, records, steps

# Mainline's test of statistics files, in kernels that have it.
UPSTREAM_TEST = "kvm_binary_stats_test"
# Needs no library, and is built by make_demo() for kernels that the lab does not build.
DEMO = "demo"
STATIC = ("-static", "-pthread", "-no-pie")
READER = records.TOP / "kvm-stats"
# The page with a complete program, and the names of that program in the test machine, compiled
# with the headers of the kernel and with older ones.
PAGE = records.TOP / "Documentation/virt/kvm/stats.rst"
EXAMPLE = "stats-example"
EXAMPLE_WITHOUT_SERIES = "stats-example-without-series"
EXAMPLE_WITHOUT_NEXT = "stats-example-without-next"
# The exit status of the latter two, as the page describes it.
EXAMPLE_STATUS = 2
# Options with which the selftests of the kernel are compiled.
SELFTEST = ["-std=gnu99", "-fno-stack-protector", "-fno-pie"]


def list_programs(record):
    """Return the lab's programs: those for every kernel, and those using the selftest library."""
    return (sorted(records.INSIDE.glob("*.c")),
            sorted((records.INSIDE / record.kselftest).glob("*.c"))
            if record.kselftest else [])


def read_example():
    """Return the program on the page, its output, its output with older headers, and its output
    on a kernel without the series."""
    blocks = [(kind, textwrap.dedent(code)) for kind, code in re.findall(
        r"^\.\. code-block:: (\w+)\n\n((?:\t.*\n|\n)+)", PAGE.read_text(), re.M)]
    for (kind, code), *outputs in zip(blocks, blocks[1:], blocks[2:], blocks[3:]):
        if kind == "c" and "int main(" in code and all(kind == "none" for kind, _ in outputs):
            return code, *(output.strip() + "\n" for _, output in outputs)
    raise records.Invalid(f"{PAGE.name}: no program that is followed by three outputs")


def build_example(out, name=EXAMPLE, directories=("usr/include",)):
    """Write the program on the page to a directory with bin; return the command that compiles it,
    as a reader would.

    directories: relative to `out`, with the headers; the compiler searches those of the build
    host as well, which lack the series.
    """
    source = out / f"{EXAMPLE}.c"
    source.write_text(read_example()[0])
    return ["gcc", "-O2", "-Wall", "-Wextra", "-Werror",
            *(f"-I{out / folder}" for folder in directories),
            source, "-static", "-o", out / "bin" / name]


def build_examples(out, objects):
    """Return the commands that compile the program with the headers in usr/include and with older
    ones.

    objects: the build directory from which the headers in usr/include are installed.
    """
    commands = [build_example(out), build_example(out, EXAMPLE_WITHOUT_SERIES, ())]
    names = patch_file.list_series()
    if "next" in names:
        older = "headers-without-next"
        commands += [*headers.make_older(names[names.index("next") - 1], objects, out / older),
                     build_example(out, EXAMPLE_WITHOUT_NEXT, (older, "usr/include"))]
    return commands


def list_selftests(record):
    """Return the selftests of the series for this kernel, paths without the suffix .c."""
    folder = PurePath("tools/testing/selftests/kvm")
    return sorted(path.relative_to(folder).with_suffix("")
                  for path in map(PurePath, patch_file.list_new_files())
                  if path.suffix == ".c"
                  and path.parent in (folder, folder / record.kselftest, folder / record.srcarch)
                  ) if record.kselftest else []


def install_headers(record):
    """Install the kernel headers into the userland directory of the record."""
    with steps.lock_directory(record.headers):
        steps.run(f"{record.title}: install the headers",
                  Path(f"{record.log}-headers.log"),
                  record.make_command(f"INSTALL_HDR_PATH={record.userland}/usr", "headers_install",
                              into=record.headers))


def _compile_programs(record, programs):
    """Return the commands that compile the lab's programs which need no library."""
    out = record.userland
    # Link PID 1 without the record's ldflags: it does not create VMs, and a kernel that requires
    # other page tables for VMs cannot restart its exec.
    return [[record.compiler, *record.cflags, "-O2", "-Wall", f"-I{out}/usr/include", program,
             *STATIC, *([] if program.stem == "init" else record.ldflags), "-o",
             out / ("init" if program.stem == "init" else f"bin/{program.stem}")]
            for program in programs]


def _make(record, folder, *arguments):
    """Return the command that makes targets of a Makefile for the record's test machine."""
    return ["make", "-C", folder, f"-j{os.cpu_count()}",
            "CC=" + " ".join([record.compiler, *record.cflags]),
            "LDFLAGS=" + " ".join(STATIC + record.ldflags), *arguments]


def _make_selftests(record, with_library):
    """Return the commands that make the selftests, and the lab's programs with their library."""
    out = record.userland
    tree = record.source / "tools/testing/selftests"
    library = out / "kselftest/libkvm.a"
    makefile = tree / "kvm/Makefile.kvm"
    # With this makefile, the library has the kernel's architecture names.
    lib = tree / "kvm/lib" / (record.srcarch if makefile.is_file() else record.kselftest)
    if not makefile.is_file():
        makefile = tree / "kvm/Makefile"
    if not record.kselftest or not lib.is_dir():
        return []
    library.parent.mkdir()
    # In newer kernels, the library is not an archive.
    newer = library.name not in makefile.read_text()
    # Build all tests, to show that the base's still compile, except in newer kernels, which
    # have many. Exclude the kernel headers of the build host, which are newer.
    names = [*([UPSTREAM_TEST] if newer else []), *list_selftests(record)]
    targets = [out / "kselftest" / path for path in names
               if (tree / f"kvm/{path}.c").is_file()] if newer else ["all"]
    commands = [_make(record, tree / "kvm", f"ARCH={record.arch}",
                      f"CROSS_COMPILE={record.cross_compile}", f"OUTPUT={out}/kselftest",
                      f"LINUX_HDR_PATH={out}/usr/include", "KSFT_KHDR_INSTALL=", *targets)]
    if newer:
        commands.append(["sh", "-c", f"ar rcs {library} $(find {library.parent}/lib "
                                     "-name '*.o')"])
    if record.tree == "linux":
        commands += [["cp", out / "kselftest" / path, out / "bin"] for path in names]
        commands += [
            [record.compiler, *record.cflags, "-O2", "-Wall", *SELFTEST,
             f"-I{record.source}/tools/include", f"-I{out}/usr/include", f"-I{tree}/kvm/include",
             *(f"-I{tree}/kvm/include/{name}" for name in (record.kselftest, record.srcarch)),
             f"-I{tree}",
             "-idirafter", f"{record.source}/tools/arch/{record.srcarch}/include",
             "-o", out / "bin" / program.stem, program, library, *STATIC]
            for program in with_library if program.stem != DEMO]
    return commands


def _make_reader(record):
    """Return the commands that make kvm-stats."""
    out = record.userland
    made = [out / "kvm-stats" / name for name in ("kvm-stats", "tests/descriptors", "tests/sources")]
    made[0].parent.mkdir()
    # Libraries for other architectures are usually not installed.
    return [_make(record, READER, "LIBC_ONLY=1", f"OUTPUT={out}/kvm-stats/", "program",
                  "descriptors", made[-1]),
            ["cp", *made, out / "bin"]]


def build(record):
    """Build init and bin/ in the userland directory of the record."""
    out = record.userland
    shutil.rmtree(out, ignore_errors=True)
    (out / "bin").mkdir(parents=True)
    install_headers(record)
    everywhere, with_library = list_programs(record)
    commands = _compile_programs(record, everywhere) + _make_selftests(record, with_library)
    if record.tree == "linux":
        if record.arch == "x86_64":
            commands += build_examples(out, record.headers)
        commands += _make_reader(record)
    steps.run(f"{record.title}: build the programs",
              Path(f"{record.log}-userland.log"), *commands)


def list_reader_files():
    """Return the source files of kvm-stats."""
    return sorted(path for path in READER.rglob("*") if path.is_file())


def make(record):
    """Build the programs if their inputs have changed.

    Kernels that are like another one use its programs.
    """
    record = records.Record(record.like or record.name, record.tree)
    files = [Path(__file__), Path(headers.__file__), PAGE, *sum(list_programs(record), []),
             *sorted(records.INSIDE.glob("*.h")), *list_reader_files()]
    steps.build_if_changed(record.userland, record, files,
                      ("Documentation", "drivers"), lambda: build(record))


def make_init(record):
    """Build only init, for a program that is not the lab's; return the record with it."""
    record = record.replace(userland=records.BASE_BUILD_DIR / "userland/init")
    out = record.userland
    with steps.lock_directory(out):
        (out / "bin").mkdir(parents=True, exist_ok=True)
        steps.run("build init", records.BASE_BUILD_DIR / "logs/init.log",
                  [record.compiler, *record.cflags, "-O2", "-Wall", records.INSIDE / "init.c",
                   *STATIC, "-o", out / "init"])
    return record


def make_demo(record):
    """Build init, the guests of the demo and kvm-stats if their inputs have changed."""
    out = record.userland
    sources = {"init": records.INSIDE / "init.c",
               f"bin/{DEMO}": records.INSIDE / f"x86_64/{DEMO}.c"}

    def build_demo():
        shutil.rmtree(out, ignore_errors=True)
        (out / "bin").mkdir(parents=True)
        (out / "kvm-stats").mkdir()
        steps.run("build the demo", records.BASE_BUILD_DIR / "logs/demo.log", *(
            ["gcc", "-O2", "-Wall", source, *STATIC, "-o", out / name]
            for name, source in sources.items()),
            ["make", "-C", READER, f"-j{os.cpu_count()}", "LIBC_ONLY=1",
             f"OUTPUT={out}/kvm-stats/", "LDFLAGS=-static", "program"],
            ["cp", out / "kvm-stats/kvm-stats", out / "bin"])

    steps.build_if_changed(out, record, [Path(__file__), *sources.values(),
                                    *sorted(records.INSIDE.glob("*.h")), *list_reader_files()],
                      ("Documentation", "drivers", "tools"), build_demo)
