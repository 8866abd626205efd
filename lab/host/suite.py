# SPDX-License-Identifier: GPL-2.0-only
"""Boot a kernel of the lab with tests and report their results."""

import collections
from pathlib import Path

from . import (completeness, durations, judge, kernel, machine, patch_file, programs, records,
               steps)

# argv: the program in lab/bin and its arguments; judge: a function of its output and exit
# status that returns (passed, text), None for a program that prints TAP.
Test = collections.namedtuple("Test", "name argv judge", defaults=(None,))

# Arguments of selftests. The number of operations is what a test machine on an overloaded
# build host does in a minute.
ARGUMENTS = {"kvm_stats_stress": ["-n", "30000"]}
# KCSAN checks one in hundreds of accesses and reports a race if a vCPU increments a counter at
# that moment: about once per second of reading statistics, a fifth of this test's duration.
ARGUMENTS_OF_KCSAN = {"kvm_stats_torn": ["-m", "5000"]}
# Kernels whose selftests run a second time, alongside VMs of another process.
ALONGSIDE_VMS = ("x86_64", "x86_64-npt")
NEEDS = {"kvm_stats_faults": ["CONFIG_FAULT_INJECTION_USERCOPY"],
         "kvm_stats_stress": ["CONFIG_KASAN", "CONFIG_KCSAN"],
         # It needs a separate test machine, see hostile.py.
         "pv_perf_hostile": []}

# Machines with two CPUs have no nested paging, see x86_64.record.
NEED_NESTED_PAGING = ("kvm_stats_mmu", "kvm_stats_nested")

# What a test needs on the kernel's command line to be run as a whole: it skips the rest.
PARTLY_WITHOUT = {"kvm_stats_mmu": "hugepages="}
# Tests that skip a result on one CPU.
PARTLY_ON_ONE_CPU = ("kvm_stats_mmu", "pv_perf_sampling")

# The program that checks statistics of the series on released kernels.
COUNT = "count-statistics"

# These tests inspect the final state, so they run last, in this order.
AT_THE_END = ("unload", "kmemleak")


def list_selftests(record):
    """Return the selftests of the series for this kernel, with arguments."""
    # Read the fragments: the kernel may not be built yet, and no option can be lost.
    built = kernel.read_options(*record.fragments)
    names = [path.name for path in programs.list_selftests(record)]
    # Mainline's test runs a vCPU.
    if record.level == "guest" and (
            records.base_file.TREE / f"tools/testing/selftests/kvm/{programs.UPSTREAM_TEST}.c").is_file():
        names.insert(0, programs.UPSTREAM_TEST)
    arguments = ARGUMENTS | (ARGUMENTS_OF_KCSAN if built.get("CONFIG_KCSAN") == "y" else {})
    return [[name, *arguments.get(name, [])]
            for name in names
            if name not in NEEDS
            or any(built.get(option) == "y" for option in NEEDS[name])]


def list_tests(record):
    """Return the tests of a record: selftests of the series and the lab's own tests.

    A record may name its tests. A machine without nested paging skips those that need it.
    """
    without_npt = any("-npt" in word for word in record.qemu)

    def is_run(test):
        name = test.name.removesuffix("-with-busy-vms")
        if record.tests:
            return name in record.tests or name in AT_THE_END
        return not (without_npt and name in NEED_NESTED_PAGING)

    return [test for test in list_all_tests(record) if is_run(test)]


def make_example_tests():
    """Return the tests of the program in stats.rst, compiled with the headers of the kernel and
    with older ones: it then reports that the kernel has more."""
    _, output, older, _ = programs.read_example()
    *without_series, message = older.splitlines(keepends=True)
    without_next, *_ = output.partition("a file for each VM of the host:\n")

    def make_older_test(name, printed):
        # In the pipe to the result channel, stderr precedes stdout.
        expected = message.replace(programs.EXAMPLE, name) + printed
        return Test(name, [name], lambda output, status: judge.example(
            output, status, expected, programs.EXAMPLE_STATUS))

    tests = [Test(programs.EXAMPLE, [programs.EXAMPLE], lambda output, status: judge.example(
        output, status, programs.read_example()[1])),
             make_older_test(programs.EXAMPLE_WITHOUT_SERIES, "".join(without_series))]
    if "next" in patch_file.list_series():
        tests.append(make_older_test(programs.EXAMPLE_WITHOUT_NEXT, without_next))
    return tests


def make_released_tests():
    """Return the tests for a kernel without the series: the program in stats.rst, which must not
    wait for an event that such a kernel never reports, and mainline's test, which skips results."""
    return [Test(programs.EXAMPLE, [programs.EXAMPLE], lambda output, status: judge.example(
        output, status, programs.read_example()[-1])),
            Test(programs.UPSTREAM_TEST, [programs.UPSTREAM_TEST], judge_partly)]


def judge_partly(output, status):
    """Judge a test that skips what the test machine lacks, with a reason."""
    return judge.tap(output, status, "elsewhere")


def make_count_tests(record):
    """Return the test that each statistic which the series add to a released kernel counts."""
    file = records.base_file.find(f"kernels/{record.like or record.name}.debugfs-added")
    names = sorted({line.rpartition("/")[2].rpartition(" ")[2]
                    for line in file.read_text().splitlines()}) if file else []
    return [Test(COUNT, [COUNT, *names])] if names else []


def list_all_tests(record):
    """Return all tests that can run on the kernel of a record."""
    def tap(output, status):
        return judge.tap(output, status, record.level)

    def debugfs(output, status):
        name = f"{record.like or record.name}.debugfs"
        recorded, added = (records.base_file.find(f"kernels/{file}")
                           for file in (name, f"{name}-added"))
        if not recorded:
            return False, f"no {name}; run lab/record-debugfs"
        return judge.listing(output, status, recorded.read_text(),
                             added.read_text() if added else "")

    def members(output, status):
        if status:
            return False, f"exit status {status}"
        try:
            return completeness.check(completeness.read_members(record), output)
        except ValueError as error:
            return False, str(error)

    built = kernel.read_options(*record.fragments)

    def is_whole(name):
        return (PARTLY_WITHOUT.get(name, "") in record.cmdline
                and not (record.cpus == "1" and name in PARTLY_ON_ONE_CPU))

    found = [Test(argv[0], argv, tap if is_whole(argv[0]) else judge_partly)
             for argv in list_selftests(record)]
    if record.name in ALONGSIDE_VMS:
        found += [Test(f"{name}-with-busy-vms",
                       ["with-busy-vms", f"/lab/bin/{name}", *arguments], judge_partly)
                  for name, *arguments in list_selftests(record)
                  if name.startswith("kvm_") and name != programs.UPSTREAM_TEST]
    found += make_count_tests(record)
    if record.arch == "x86_64":
        found += make_example_tests()
    found += [Test("debugfs", ["with-one-vm", "debugfs-list"], debugfs),
              Test("completeness", ["descriptors"], members),
              Test("kvm-stats", ["sources", "next", "files"], tap)]
    # The lab's module cannot be unloaded.
    modules = [Path(module).stem.replace("-", "_") for module in record.modules
               if not module.startswith("extmod/")]
    if modules:
        found.append(Test(AT_THE_END[0], ["unload", *reversed(modules)], tap))
    if built.get("CONFIG_DEBUG_KMEMLEAK") == "y":
        found.append(Test(AT_THE_END[1], ["kmemleak"], tap))
    return found


def choose_tests(record, named):
    """Return the tests with these names in the order in which they run, by default all."""
    found = list_tests(record)
    for name in named:
        if name not in (test.name for test in found):
            raise records.Invalid(f"no test '{name}' on {record.name}, choose from: "
                                  + " ".join(test.name for test in found))
    return [test for test in found if test.name in named or not named]


def prepare(record):
    """Build the kernel and, unless it is only compiled, the programs."""
    kernel.make(record)
    if record.image:
        programs.make(record)


def boot(results, prefix, record, chosen, *, files=(), overlay=None,
         limit=1200, memory=None, rerun=lambda *test: None, pack=None):
    """Run the tests in one boot; report a result for each and one for the boot.

    prefix: the prefix of the results and the directory of the logs. rerun: returns the command
    to rerun one test or all, None for the check. pack: replaces machine.pack().
    """
    by_name = {test.name: test for test in chosen}
    if len(by_name) < len(chosen):
        raise records.Invalid(f"{prefix}: duplicate test name in "
                              + " ".join(test.name for test in chosen))
    note = [f"[{record.reason}]"] if record.reason else []
    folder = record.boot.with_name(prefix)
    with steps.lock_directory(folder):
        (pack or machine.pack)(
            record, folder, [(test.name, *test.argv) for test in chosen], files, overlay)
        this = machine.Boot(record, folder)
        for kind, name, _ in this.run(limit, memory):
            if kind != "exit":
                continue
            log = folder / f"{name}.log"
            log.write_bytes(this.channel.output[name])
            said = log.read_text(errors="replace"), this.channel.status[name]
            passed, text = (by_name[name].judge(*said) if by_name[name].judge
                            else judge.tap(*said, record.level))
            results.report(f"{prefix}/{name}", passed, "  ".join(
                [text, f"{this.times[name]:.1f} s", *note]
                + ([] if passed else [f"(log: {log})"])), rerun=rerun(name))
        for name in by_name.keys() - this.channel.status.keys():
            results.report(f"{prefix}/{name}", False, "has no verdict", rerun=rerun(name))
        if this.problem:
            results.report(f"{prefix}/boot", False,
                           f"{this.problem} (console: {this.console})",
                           *this.read_last_lines(), rerun=rerun())
        else:
            results.report(f"{prefix}/boot", True, f"{this.seconds:.1f} s in all")
        return this


def run(results, record, build=prepare, names=()):
    """Build a kernel and run all of its tests or the named ones."""
    def rerun(command, *test):
        return " ".join([f"lab/{command}", *["--base"] * (record.tree == "linux-base"),
                         record.name, *test])

    try:
        build(record)
    except (steps.Failed, records.Invalid) as error:
        results.report(f"{record.name}/build", False, str(error), rerun=rerun("build"))
        return
    if record.level == "build":
        results.report(f"{record.name}/build", True,
                       f"compiled only  [{record.reason}]")
    else:
        this = boot(results, record.name, record, choose_tests(record, names),
                    rerun=lambda *test: rerun("run", *(test or names)))
        if not names and not this.problem:
            durations.write(this.seconds, "boots", record.name)
            for name, seconds in this.times.items():
                durations.write(seconds, "tests", record.name, name)
