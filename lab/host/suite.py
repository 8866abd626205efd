# SPDX-License-Identifier: GPL-2.0-only
"""The tests that every kernel of the lab runs, and what they have to say."""

import subprocess

import completeness
import guest
import judge
import records
import steps


def judge_stats(record, output, status):
    """The selftest of the series."""
    return judge.tap(output, status, record.level)


def judge_debugfs(record, output, status):
    """What KVM has in debugfs is what the unpatched kernel had."""
    recorded = records.LAB / "debugfs" / f"{record.name}.list"
    if not recorded.is_file():
        return False, f"no {recorded.name}: lab/record-debugfs makes it"
    return judge.listing(output, status, recorded.read_text())


def judge_completeness(record, output, status):
    """Every member of the built kernel's structs has its descriptor."""
    if status:
        return False, f"exit status {status}"
    try:
        return completeness.check(completeness.members(record), output)
    except ValueError as error:
        return False, str(error)


# Judge, and the program with its arguments, by name.
TESTS = {
    "kvm_bin_form_stats": (judge_stats, "kvm_bin_form_stats"),
    "debugfs": (judge_debugfs, "with-vm", "debugfs-list"),
    "completeness": (judge_completeness, "with-vm", "kvm-stats", "describe"),
}


def prepare(record):
    """Build what a boot needs; whoever fails says why."""
    flags = ["--base"] if record.base else []
    for command in ("build", "userland"):
        done = subprocess.run([records.LAB / command, *flags, record.name],
                              check=False)
        if done.returncode:
            raise steps.Failed(f"lab/{command} {record.name} failed")


def run(record):
    """Build, then run the tests in one boot; says and returns each verdict."""
    results = []

    def say(test, passed, text):
        note = f"  [{record.reason}]" if record.reason else ""
        print(f"{'PASS' if passed else 'FAIL'} {record.title:8} {test:18}  "
              f"{text}{note}", flush=True)
        results.append((test, passed))

    def verdict(kind, name, _):
        if kind == "exit":
            output = boot.channel.output[name]
            log = record.boot / f"{name}.log"
            log.write_bytes(output)
            passed, text = TESTS[name][0](record, output.decode(errors="replace"),
                                          boot.channel.status[name])
            text = f"{text}  {boot.times[name]:.1f} s"
            say(name, passed, text if passed else f"{text} (log: {log})")

    try:
        prepare(record)
    except steps.Failed as error:
        say("build", False, error)
        return results
    if record.level == "build":
        say("build", True, "compiled only")
        return results
    with steps.alone(record.boot):
        tests = {name: argv for name, (_, *argv) in TESTS.items()
                 if record.level != "own-tests" or name != "kvm_bin_form_stats"}
        guest.pack(record, [(name, *argv) for name, argv in tests.items()])
        boot = guest.Boot(record)
        boot.run(limit=600, on_event=verdict)
        for name in tests:
            if name not in boot.channel.status:
                say(name, False, "has no verdict")
        text = f"{boot.seconds:.1f} s in all"
        if boot.problem:
            text = "\n    ".join([f"{boot.problem} (console: {boot.console})",
                                  *boot.last_lines()])
        say("boot", not boot.problem, text)
    return results
