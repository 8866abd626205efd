# SPDX-License-Identifier: GPL-2.0-only
"""Boot a kernel of the lab with tests inside, and say what each has to say."""

import collections
from pathlib import Path

import completeness
import durations
import judge
import kernel
import machine
import programs
import records
import steps

# argv: the program in lab/bin and its arguments; judge: of its output and exit
# status, returns (passed, text).
Test = collections.namedtuple("Test", "name argv judge")

# What the selftests of the series get as arguments; and without which options of
# the kernel, all of them, one has nothing to do. The operations are what a machine with
# far too much to do does in a minute.
ARGUMENTS = {"kvm_stats_stress": ["-n", "30000"]}
# KCSAN watches one access of hundreds, and reports it if a vCPU counts in that moment: once in
# about a second of reading statistics, which are two of this test's ten figures.
ARGUMENTS_OF_KCSAN = {"kvm_stats_torn": ["-m", "5000"]}
# Kernels whose selftests run a second time, beside VMs of another process.
BESIDE_VMS = ("x86_64",)
NEEDS = {"kvm_stats_faults": ["CONFIG_FAULT_INJECTION_USERCOPY"],
         "kvm_stats_stress": ["CONFIG_KASAN", "CONFIG_KCSAN"],
         # None has it: it needs another machine, see hostile.py.
         "pv_perf_hostile": []}

# What a test needs on the kernel's command line to be run as a whole: it skips the rest.
PARTLY_WITHOUT = {"kvm_stats_mmu": "hugepages="}

# They look at what all others have left, so they run last, in this order.
AT_THE_END = ("unload", "kmemleak")


def selftests(record):
    """Those of the series that this kernel is for."""
    # Also before it is built, which fails if one of these does not stick.
    built = kernel.options(*record.fragments)
    names = [path.name for path in programs.selftests(record)]
    # It opens a vCPU that runs.
    if record.level == "guest" and (
            records.base_file.TREE / f"tools/testing/selftests/kvm/{programs.OF_KERNEL}.c").is_file():
        names.insert(0, programs.OF_KERNEL)
    arguments = ARGUMENTS | (ARGUMENTS_OF_KCSAN if built.get("CONFIG_KCSAN") == "y" else {})
    return [[name, *arguments.get(name, [])]
            for name in names
            if name not in NEEDS
            or any(built.get(option) == "y" for option in NEEDS[name])]


def tests(record):
    """Those that every kernel runs: the selftests of the series, and ours."""
    def tap(output, status):
        return judge.tap(output, status, record.level)

    def debugfs(output, status):
        recorded = records.PARTICULAR / f"{record.like or record.name}.debugfs"
        if not recorded.is_file():
            return False, f"no {recorded.name}: lab/record-debugfs makes it"
        return judge.listing(output, status, recorded.read_text())

    def members(output, status):
        if status:
            return False, f"exit status {status}"
        try:
            return completeness.check(completeness.members(record), output)
        except ValueError as error:
            return False, str(error)

    def partly(output, status):
        # What cannot be said there is skipped, and says so.
        return judge.tap(output, status, "elsewhere")

    found = [Test(argv[0], argv,
                  tap if PARTLY_WITHOUT.get(argv[0], "") in record.cmdline else partly)
             for argv in selftests(record)]
    if record.name in BESIDE_VMS:
        found += [Test(f"{name}-beside-vms",
                       ["beside-vms", f"/lab/bin/{name}", *arguments], partly)
                  for name, *arguments in selftests(record)
                  if name.startswith("kvm_") and name != programs.OF_KERNEL]
    found += [Test("debugfs", ["with-vm", "debugfs-list"], debugfs),
              Test("completeness", ["descriptors"], members),
              Test("kvm-stats", ["sources", "next", "files"], tap)]
    # The lab's own module stays.
    modules = [Path(module).stem.replace("-", "_") for module in record.modules
               if not module.startswith("extmod/")]
    if modules:
        found.append(Test(AT_THE_END[0], ["unload", *reversed(modules)], tap))
    if kernel.options(*record.fragments).get("CONFIG_DEBUG_KMEMLEAK") == "y":
        found.append(Test(AT_THE_END[1], ["kmemleak"], tap))
    return found


def chosen(record, named):
    """Its tests of these names, in the order in which they run; all if there are none."""
    found = tests(record)
    for name in named:
        if name not in (test.name for test in found):
            raise records.Invalid(f"no test '{name}' on {record.name}, choose from: "
                                  + " ".join(test.name for test in found))
    return [test for test in found if test.name in named or not named]


def prepare(record):
    """Build what a boot needs; whoever fails says why. What has no image is not booted."""
    kernel.make(record)
    if record.image:
        programs.make(record)


def boot(results, prefix, record, chosen, *, files=(), overlay=None,
         limit=1200, memory=None, again=lambda *test: None, pack=None):
    """Run the tests in one boot; a result each, and one of the boot itself.

    prefix names the results and the folder of the logs. again: what to type for one
    test, or for all of them, where that is not the check. pack: what makes the
    initramfs instead of machine.pack().
    """
    by_name = {test.name: test for test in chosen}
    if len(by_name) < len(chosen):
        raise records.Invalid(f"{prefix}: two tests of one name among "
                              + " ".join(test.name for test in chosen))
    note = [f"[{record.reason}]"] if record.reason else []
    folder = record.boot.with_name(prefix)
    with steps.alone(folder):
        (pack or machine.pack)(
            record, folder, [(test.name, *test.argv) for test in chosen], files, overlay)
        this = machine.Boot(record, folder)
        for kind, name, _ in this.run(limit, memory):
            if kind != "exit":
                continue
            log = folder / f"{name}.log"
            log.write_bytes(this.channel.output[name])
            passed, text = by_name[name].judge(log.read_text(errors="replace"),
                                               this.channel.status[name])
            results.say(f"{prefix}/{name}", passed, "  ".join(
                [text, f"{this.times[name]:.1f} s", *note]
                + ([] if passed else [f"(log: {log})"])), again=again(name))
        for name in by_name.keys() - this.channel.status.keys():
            results.say(f"{prefix}/{name}", False, "has no verdict", again=again(name))
        if this.problem:
            results.say(f"{prefix}/boot", False,
                        f"{this.problem} (console: {this.console})",
                        *this.last_lines(), again=again())
        else:
            results.say(f"{prefix}/boot", True, f"{this.seconds:.1f} s in all")
        return this


def run(results, record, build=prepare, names=()):
    """Build one kernel and run all its tests, or those of these names."""
    def again(command, *test):
        return " ".join([f"lab/{command}", *["--base"] * (record.tree == "linux-base"),
                         record.name, *test])

    try:
        build(record)
    except (steps.Failed, records.Invalid) as error:
        results.say(f"{record.name}/build", False, str(error), again=again("build"))
        return
    if record.level == "build":
        results.say(f"{record.name}/build", True,
                    f"compiled only  [{record.reason}]")
    else:
        this = boot(results, record.name, record, chosen(record, names),
                    again=lambda *test: again("run", *(test or names)))
        if not names and not this.problem:
            durations.keep(this.seconds, "boots", record.name)
            for name, seconds in this.times.items():
                durations.keep(seconds, "tests", record.name, name)
