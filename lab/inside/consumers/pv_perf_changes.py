#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Test perf in a Linux guest, counting and sampling on the host, while the host changes.

This runs in the test machine, the tests of PLAN run in the guest. In the meantime, statistics
are cleared in debugfs, the guest is migrated to a host that lacks one of them and to a host
without the feature, and an NMI makes the guest panic. A panic without open events is the
control.
"""

import re
import subprocess
import sys
import time

import consumer
import in_vmm
import pv_perf
import pv_perf_migration
from pv_perf import parse_counts, read_host_stat

# Long enough for a change while the program runs.
CPUIDS = 100000
MEMORY = 512 << 20
INTERVALS = ["-I", "200"]
SAMPLING = ["perf", "record", "-q", "-a", "-o", "/tmp/data", "-c", "1000000", "-e",
            "kvm_pv/cpu-clock/", "--"]

# The tests in the guest, in this order.
PLAN = {
    "load": ["guest-kexec", "-p", "/lab/kernel", "/lab/initrd"],
    "nothing-open": ["perf-work", CPUIDS],
    "cleared": pv_perf.make_stat_command(program=("perf-work", CPUIDS)),
    "unknown": pv_perf.make_stat_command(*INTERVALS, events="kvm_pv/exits/,kvm_pv/hypercalls/",
                                         program=("perf-work", CPUIDS)),
    "absent": pv_perf.make_stat_command("-a", *INTERVALS, program=("guest-throttled", 120)),
    "given": pv_perf.make_stat_command(*INTERVALS, program=("perf-work", CPUIDS)),
    "crash": pv_perf.make_stat_command("-a", program=(*SAMPLING, *pv_perf.ENDLESS)),
}
# The tests of the kernel that is started after the panic.
AFTER = {"crashed": ["perf-work", 100], "until-the-end": pv_perf.ENDLESS}


class Guest(pv_perf_migration.Guest):
    """A guest whose VMM can be controlled."""

    def __init__(self):
        super().__init__("-append", f"{pv_perf.CMDLINE} crashkernel=128M")

    def get_output(self, name):
        """Return the output of a test so far."""
        return self.channel.output.get(name, b"").decode(errors="replace")

    def wait_for_test(self, name, enough=lambda text: True):
        """Wait until a test runs and its output is enough; return the problems."""
        self.wait_for_result(name, lambda channel: name in channel.status or (
            channel.running == name and enough(self.get_output(name))))
        return [] if self.channel.running == name else [f"{name} had already ended"]

    def wait_for_samples(self):
        """Wait until perf has started to sample; return the problems."""
        before = read_host_stat("nmi_injections")
        return [] if self.wait(
            "samples", lambda: read_host_stat("nmi_injections") > before + 10) else ["no samples"]

    def wait_for_read(self):
        """Wait until the guest has read its events; these are its only hypercalls."""
        before = read_host_stat("hypercalls")
        self.wait("a read", lambda: read_host_stat("hypercalls") > before)

    def run_stopped(self, function, *arguments):
        """Call a function with the PID of the VMM while all vCPUs are stopped."""
        self.monitor("stop")
        try:
            return function(self.qemu.pid, *arguments)
        finally:
            self.monitor("cont")

    def finish_test(self, name):
        """Wait for the end of a test; return the problems if it failed."""
        self.wait_for_result(name, pv_perf.has_ended(name))
        status = self.channel.status.get(name)
        text = self.get_output(name)
        for line in text.splitlines()[:40]:
            print(f"#   {line}")
        return [] if status == 0 else [self.gave_up or f"exit status {status}",
                                       *text.splitlines()]

    def open_vcpu_stats(self):
        """Return the statistics of the first vCPU."""
        return consumer.Stats(self.qemu.pid, in_vmm.find_vcpus(self.qemu.pid)[0])


def parse_intervals(text, event):
    """Return the values of an event in the output of perf stat -I, None for "not counted"."""
    return parse_counts("".join(line + "\n" for line in text.splitlines()
                          if f",kvm_pv/{event}/," in line))


def has_three_counts(event):
    """Return the condition that an event was counted in three intervals."""
    return lambda text: sum(bool(value) for value in parse_intervals(text, event)) >= 3


def check_stops(found):
    """Check that an event was counted in the first intervals, but not in the last ones."""
    first = found.index(None) if None in found else len(found)
    values = [value for value in found if value is not None]
    good = (sum(map(bool, values)) >= 3 and len(found) - first >= 3
            and not any(found[first + 1:]) and max(values) < CPUIDS)
    return [] if good else [f"values {found}"]


def check_counts_again(found):
    """Check that an event was counted in the last intervals, but not in the first one."""
    good = found and found[0] is None and any(found)
    return [] if good else [f"values {found}"]


def check_cleared(results, guest):
    """Check that counts continue if the host's administrator clears the statistics."""
    problems = guest.wait_for_test("cleared")
    times = 0
    for _ in range(4):
        guest.wait_for_read()
        while guest.read_results():
            pass
        if guest.channel.running == "cleared":
            (pv_perf.DEBUGFS / "exits").write_text("0")
            times += 1
    problems += guest.finish_test("cleared")
    found = parse_counts(guest.get_output("cleared"))
    # Each time, the counts since the guest's last read are lost.
    if times < 2 or len(found) != 1 or not CPUIDS / 4 <= (found[0] or 0) < 2 * CPUIDS:
        problems.append(f"cleared {times} times: {found}, of {CPUIDS}")
    results.add("counting continues if the host's administrator clears the statistics", problems)


def check_unknown(results, guest):
    """Check that an event stops counting if the destination host lacks the statistic."""
    problems = guest.wait_for_test("unknown", has_three_counts("hypercalls"))
    known = guest.open_vcpu_stats().descs["hypercalls"].raw
    guest.monitor("stop")
    # Simulate a host with other statistics: change the name that the guest looks up.
    if not in_vmm.replace_in_memory(guest.qemu.pid, MEMORY, known,
                                    known.replace(b"hypercalls", b"hypocalls\0")):
        problems.append("descriptor not found in guest memory")
    problems += guest.migrate()
    problems += guest.finish_test("unknown")
    text = guest.get_output("unknown")
    problems += check_stops(parse_intervals(text, "hypercalls"))
    # The other event is still counted. The last interval may begin after the program's end.
    found = parse_intervals(text, "exits")
    if found and found[-1] is None:
        found.pop()
    if None in found or sum(found) < CPUIDS:
        problems.append(f"exits: {found}")
    results.add("event stops counting on a host without the statistic", problems)


def migrate_to(guest, has_feature):
    """Migrate the guest to a host with or without the feature; return the problems."""
    pv_perf.PARAMETER.write_text("1" if has_feature else "0")
    return guest.migrate()


def check_absent(results, guest):
    """Check that events stop counting on a host without the feature, and continue on another.

    Perf stops and starts the sampling event at each tick, which fails on that host.
    """
    problems = guest.wait_for_test("absent", has_three_counts("exits"))
    problems += guest.wait_for_samples()
    problems += migrate_to(guest, False)
    problems += guest.finish_test("absent")
    results.add("events are not reported as running on a host without the feature",
                problems + check_stops(parse_intervals(guest.get_output("absent"), "exits")))
    # Without an interval, perf may open its event after the migration.
    problems = guest.wait_for_test("given", lambda text: parse_intervals(text, "exits"))
    problems += migrate_to(guest, True)
    problems += guest.finish_test("given")
    results.add("events count again on a host with the feature",
                problems + check_counts_again(parse_intervals(guest.get_output("given"), "exits")))


def crash_guest(guest):
    """Make the guest panic and start another kernel; return the problems of that kernel."""
    # Inject two NMIs. The first one causes the panic, the second one stays pending until the
    # next kernel returns from its first exception. Perf's handler sometimes mistakes both for
    # its late NMIs: repeat if perf continues to sample. Wait for many samples, because other
    # CPUs sample until the panic stops them.
    begin = f"begin {next(iter(AFTER))}\n".encode()
    at = guest.said.tell()
    for _ in range(5):
        before = read_host_stat("nmi_injections")
        most = before + 1000
        guest.monitor("inject-nmi")
        guest.wait("the first NMI", lambda before=before: read_host_stat("nmi_injections") > before)
        guest.monitor("inject-nmi")
        guest.wait("the crash", lambda most=most: begin in pv_perf.VERDICT.read_bytes()[at:]
                   or read_host_stat("nmi_injections") > most)
        if read_host_stat("nmi_injections") <= most:
            break
    else:
        return ["NMIs continue after the crash"]
    nmis = guest.run_next_kernel(AFTER)
    problems = [] if nmis else [guest.gave_up]
    if nmis and nmis[1] != nmis[0]:
        problems.append(f"{nmis[1] - nmis[0]} NMIs in the new kernel")
    console = pv_perf.CONSOLE.read_text(errors="replace")
    new = console[console.rfind("Linux version"):]
    problems += pv_perf.find_complaints(new)
    if not (nmis and re.search("kvm_pv: .* statistics", new)):
        problems += console.splitlines()[-8:]
    return problems


def check_control(results, guest):
    """Check kexec on panic without open events, as a control."""
    problems = guest.wait_for_test("nothing-open")
    results.add("kexec on panic succeeds while no event is open",
                problems + crash_guest(guest))
    # Discard the messages of the crash: later checks must not report them.
    pv_perf.CONSOLE.write_bytes(b"")
    guest.reset(PLAN)


def check_crash(results, guest):
    """Check kexec on panic while perf counts and samples."""
    problems = guest.wait_for_test("crash")
    problems += guest.wait_for_samples()
    problems += pv_perf.find_complaints(pv_perf.CONSOLE.read_text(errors="replace"))
    results.add("kexec on panic succeeds while perf counts and samples",
                problems + crash_guest(guest))
    guest.close()


def main():
    """Run all checks with one guest; return the exit status."""
    results = consumer.Results()
    pv_perf.PARAMETER.write_text("1")
    version = subprocess.run([pv_perf.QEMU[0], "--version"], check=True,
                             capture_output=True, text=True).stdout
    print("#", version.splitlines()[0])
    guest = Guest()
    for check in check_control, check_cleared, check_unknown, check_absent, check_crash:
        check(results, guest)
    return results.end()


if __name__ == "__main__":
    sys.exit(main())
