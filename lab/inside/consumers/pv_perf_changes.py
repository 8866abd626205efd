#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""In the lab's machine: what becomes of perf in a Linux guest that counts and samples on
the host, when the host changes, or the guest crashes?

The tests of PLAN run in the guest; while one of them does, statistics are cleared in
debugfs, the guest is migrated to where one of them is not known, the VMM takes the feature
away, an NMI has the guest panic. Before all that it panics while nothing is open, which is
the control.
"""

import re
import subprocess
import sys
import time

import consumer
import in_vmm
import pv_perf
import pv_perf_migration
from pv_perf import counts, host

# Long enough for something to happen in the middle.
CPUIDS = 100000
MEMORY = 512 << 20
INTERVALS = ["-I", "200"]
# The time between two looks of the guest at its events, and some.
LOOKS = 1
SAMPLING = ["perf", "record", "-q", "-a", "-o", "/tmp/data", "-c", "1000000", "-e",
            "kvm_pv/cpu-clock/", "--"]

# What runs in the guest, in this order.
PLAN = {
    "load": ["guest-kexec", "-p", "/lab/kernel", "/lab/initrd"],
    "nothing-open": ["perf-work", CPUIDS],
    "cleared": pv_perf.stat(program=("perf-work", CPUIDS)),
    "unknown": pv_perf.stat(*INTERVALS, events="kvm_pv/exits/,kvm_pv/hypercalls/",
                            program=("perf-work", CPUIDS)),
    "taken": pv_perf.stat("-a", *INTERVALS, program=(*SAMPLING, "perf-work", CPUIDS)),
    "given": pv_perf.stat(program=("perf-work", CPUIDS)),
    "crash": pv_perf.stat("-a", program=(*SAMPLING, *pv_perf.ENDLESS)),
}
# What the kernel runs that is started then.
AFTER = {"crashed": ["perf-work", 100], "until-the-end": pv_perf.ENDLESS}


class Guest(pv_perf_migration.Guest):
    """A guest whose VMM does what it is told."""

    def __init__(self):
        super().__init__("-append", f"{pv_perf.CMDLINE} crashkernel=128M")

    def text(self, name):
        """What a test has said so far."""
        return self.channel.output.get(name, b"").decode(errors="replace")

    def runs(self, name, enough=lambda text: True):
        """Wait until a test does, and has said enough; returns whether it did."""
        self.until(name, lambda channel: name in channel.status or (
            channel.running == name and enough(self.text(name))))
        return self.channel.running == name

    def samples(self):
        """Wait until it does, as perf has to start first; what is wrong with that."""
        before = host("nmi_injections")
        return [] if self.wait("samples", lambda: host("nmi_injections") > before + 10) else [
            "it does not sample"]

    def passes(self, seconds):
        """Let some time pass, that of this machine. Nothing is heard: another kernel may
        begin to speak."""
        own = consumer.OwnTime()
        while own.now() < seconds:
            time.sleep(0.1)

    def have(self, done, *arguments):
        """Have something done to its VMM while no vCPU runs."""
        self.monitor("stop")
        try:
            return done(self.qemu.pid, *arguments)
        finally:
            self.monitor("cont")

    def ends(self, name):
        """Wait until a test does; what is wrong with how it ended."""
        self.until(name, pv_perf.ended(name))
        status = self.channel.status.get(name)
        text = self.text(name)
        for line in text.splitlines()[:40]:
            print(f"#   {line}")
        return [] if status == 0 else [self.gave_up or f"exit status {status}",
                                       *text.splitlines()]

    def vcpu(self):
        """The statistics of the first one."""
        return consumer.Stats(self.qemu.pid, in_vmm.vcpus(self.qemu.pid)[0])


def column(text, event):
    """What perf stat -I has of an event: a value for each interval, None if there is none."""
    return counts("".join(line + "\n" for line in text.splitlines()
                          if f",kvm_pv/{event}/," in line))


def three(event):
    """The condition that something was counted in three intervals."""
    return lambda text: sum(bool(value) for value in column(text, event)) >= 3


def stops(found):
    """What is wrong with the values of intervals that end in the middle: first there are
    some, then none, and none is more than there can be."""
    first = found.index(None) if None in found else len(found)
    values = [value for value in found if value is not None]
    good = (sum(map(bool, values)) >= 3 and len(found) - first >= 3
            and not any(found[first + 1:]) and max(values) < CPUIDS)
    return [] if good else [f"values {found}"]


def check_cleared(results, guest):
    """The counts that an administrator clears go on from where they were."""
    problems = [] if guest.runs("cleared") else ["it had ended before"]
    times = 0
    for _ in range(4):
        guest.passes(LOOKS)
        while guest.heard():
            pass
        if guest.channel.running == "cleared":
            (pv_perf.DEBUGFS / "exits").write_text("0")
            times += 1
    problems += guest.ends("cleared")
    found = counts(guest.text("cleared"))
    # What was counted since the guest looked last is lost, each time.
    if times < 2 or len(found) != 1 or not CPUIDS / 4 <= (found[0] or 0) < 2 * CPUIDS:
        problems.append(f"cleared {times} times: {found}, of {CPUIDS}")
    results.add("the host's administrator clears what is counted", problems)


def check_unknown(results, guest):
    """What a host does not know that the guest is migrated to is not counted there."""
    problems = [] if guest.runs("unknown", three("hypercalls")) else ["it had ended before"]
    known = guest.vcpu().descs["hypercalls"].raw
    guest.monitor("stop")
    # As on a host with another table: a name that the guest asks for is not in it.
    if not in_vmm.replace_in_memory(guest.qemu.pid, MEMORY, known,
                                    known.replace(b"hypercalls", b"hypocalls\0")):
        problems.append("the guest does not have the descriptor")
    problems += guest.migrate()
    guest.monitor("cont")
    problems += guest.ends("unknown")
    text = guest.text("unknown")
    problems += stops(column(text, "hypercalls"))
    # The other one goes on.
    found = column(text, "exits")
    if None in found or sum(found) < CPUIDS:
        problems.append(f"exits: {found}")
    results.add("the guest is migrated to where a statistic is not known", problems)


def check_taken(results, guest):
    """A VMM that takes the feature away ends counting and sampling, no more."""
    problems = [] if guest.runs("taken", three("exits")) else ["it had ended before"]
    problems += guest.samples()

    def take(pid):
        """What is open then, and NMIs so far."""
        in_vmm.enforce_cpuid(pid, True)
        return guest.vcpu().read()["pv_perf_events"][0], host("nmi_injections")

    left, nmis = guest.have(take)
    problems += guest.ends("taken")
    # One may be on its way to each CPU.
    late = host("nmi_injections") - nmis
    if left or late > consumer.CPUS:
        problems.append(f"after that {left} events are open, {late} NMIs came")
    results.add("the VMM takes the feature away",
                problems + stops(column(guest.text("taken"), "exits")))
    guest.have(in_vmm.enforce_cpuid, False)
    results.add("it gives the feature back",
                guest.ends("given") + pv_perf.at_least(guest.text("given")))


def crash(guest):
    """Have it panic, and another kernel start; what is wrong with that one."""
    # Perf's handler takes one for a late one of its own now and then: it goes on sampling.
    for _ in range(5):
        guest.monitor("inject-nmi")
        guest.passes(1)
        nmis = host("nmi_injections")
        guest.passes(1)
        if host("nmi_injections") == nmis:
            break
    else:
        return ["NMIs do not end with the kernel that crashed"]
    nmis = guest.lives_on(AFTER)
    problems = [] if nmis else [guest.gave_up]
    if nmis and nmis[1] != nmis[0]:
        problems.append(f"{nmis[1] - nmis[0]} NMIs in the new kernel")
    console = pv_perf.CONSOLE.read_text(errors="replace")
    new = console[console.rfind("Linux version"):]
    problems += pv_perf.complaints(new)
    if not (nmis and re.search("kvm_pv: .* statistics", new)):
        problems += console.splitlines()[-8:]
    return problems


def check_control(results, guest):
    """A kernel lives that is started by one that crashes while nothing is open."""
    problems = [] if guest.runs("nothing-open") else ["it had ended before"]
    results.add("another kernel starts when one crashes while nothing is open",
                problems + crash(guest))
    # What the crash had to say is no complaint of what follows.
    pv_perf.CONSOLE.write_bytes(b"")
    guest.reset(PLAN)


def check_crash(results, guest):
    """So does one that is started by one that crashes while perf counts and samples."""
    problems = [] if guest.runs("crash") else ["it had ended before"]
    problems += guest.samples()
    problems += pv_perf.complaints(pv_perf.CONSOLE.read_text(errors="replace"))
    results.add("another kernel starts when one crashes while perf counts and samples",
                problems + crash(guest))
    guest.close()


def main():
    """One guest goes through all of it."""
    results = consumer.Results()
    pv_perf.PARAMETER.write_text("2")
    version = subprocess.run([pv_perf.QEMU[0], "--version"], check=True,
                             capture_output=True, text=True).stdout
    print("#", version.splitlines()[0])
    guest = Guest()
    for check in check_control, check_cleared, check_unknown, check_taken, check_crash:
        check(results, guest)
    return results.end()


if __name__ == "__main__":
    sys.exit(main())
