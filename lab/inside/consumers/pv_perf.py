#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""In the lab's machine: does perf in a Linux guest count and sample on the host?

usage: pv_perf.py [kexec]

QEMU runs a guest whose PID 1 is the lab's own, with the tests of PLAN; what they
said is judged here. With kexec it goes on with the kernels of LATER.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import consumer
import judge
import qmp

CPUIDS = 5000
SLOTS = 16
# Where its perf calls the host to look after its events, the guest sets a timer for that,
# which interrupts it.
EXITS_PER_CALL = 3
PARAMETER = Path("/sys/module/kvm/parameters/pv_perf")
DEBUGFS = Path("/sys/kernel/debug/kvm")
CONSOLE = Path("/tmp/guest-console")
VERDICT = Path("/tmp/guest-verdict")
# A guest that is silent for so many seconds of its own hangs; it has so many ticks in
# one of them.
LIMIT = 120
TICKS = 100
CMDLINE = f"{consumer.CMDLINE} panic=-1 oops=panic unknown_nmi_panic"
# Without -no-reboot: a reset must not end it.
QEMU = ["qemu-system-x86_64", "-accel", "kvm", "-smp", str(consumer.CPUS),
        "-m", "512M", "-nodefaults", "-display", "none",
        "-kernel", consumer.KERNEL, "-initrd", consumer.INITRD,
        "-append", CMDLINE,
        *(word for name, path in (("console", CONSOLE), ("verdict", VERDICT))
          for word in ("-chardev", f"file,id={name},path={path},append=on",
                       "-serial", f"chardev:{name}"))]


def stat(*options, events="kvm_pv/exits/", program=("perf-work", CPUIDS)):
    """perf stat of a program, with values that a program can read."""
    return ["perf", "stat", "-x,", *options, "-e", events, "--", *program]


KEXEC = ["guest-kexec", "/lab/kernel", "/lab/initrd"]
# What runs in the guest, in this order.
PLAN = {
    "list": ["perf", "list", "--no-desc", "pmu"],
    "sampling": ["perf", "record", "-q", "-a", "-o", "/tmp/data", "-c", "1000000",
                 "-e", "kvm_pv/cpu-clock/", "--", "perf-work", 4 * CPUIDS],
    "idle": stat(program=("perf-work", 0)),
    "quiet": ["perf", "stat", "-x,", "-a", "-A", "-e", "kvm_pv/hypercalls/",
              "--timeout", "5000"],
    "task": stat(),
    "all": stat("-a"),
    "hotplug": stat("-a", program=("guest-hotplug", 3)),
    "moving": stat("-A", "-C", "0,1", program=("perf-work", CPUIDS, 2)),
    "task-moving": stat(program=("perf-work", CPUIDS, 2)),
    "interval": stat("-I", "100"),
    "full": stat(events=",".join(["kvm_pv/exits/"] * (SLOTS + 4))),
    "screen": ["perf", "stat", "-e", ",".join(
        f"kvm_pv/{name}/" for name in ("exits", "io_exits", "irq_exits",
                                       "hypercalls", "task-clock")),
               "--", "perf-work", CPUIDS],
    "record": stat(events="kvm_pv/task-clock/", program=(
        "perf", "record", "-q", "-o", "/tmp/data", "-e", "kvm_pv/task-clock/", "--",
        "perf-work", 100)),
    "report": ["perf", "report", "-i", "/tmp/data", "--stdio", "--sort", "symbol"],
    # It counts, and samples the task that has the kernel go.
    "kexec": stat("-a", program=(
        "perf", "record", "-q", "-o", "/tmp/data", "-c", "1000000", "-e",
        "kvm_pv/cpu-clock/", "--", *KEXEC)),
}
# For the end of a plan: the guest goes on until all is said. Without a VM the host has no
# statistics.
ENDLESS = ["perf-work", 10**9]
# What the kernels run that are started with kexec: after that, and after a kernel
# that had no event.
LATER = ({"kexeced": ["perf-work", 100], "kexec-without-events": KEXEC},
         {"kexeced-again": ["perf-work", 100], "until-the-end": ENDLESS})


def counts(text):
    """The values of perf stat -x, in their order; None: it could not count."""
    found = re.findall(r"^(?:\s*[\d.]+,)?(?:CPU\d+,)?([\d.]+|<not counted>),[^,]*,kvm_pv/",
                       text, re.M)
    return [None if value.startswith("<") else float(value) for value in found]


def at_least(text, least=CPUIDS, values=1, each=0):
    """So many values, each so large and all together."""
    found = counts(text)
    good = (len(found) >= values and None not in found
            and sum(found) >= least and min(found) >= each)
    return [] if good else [f"values {found}, {least} are to be there"]


def interval(text):
    """The intervals sum up. Where the program did not run, nothing was counted."""
    found = [value for value in counts(text) if value is not None]
    return [] if len(found) >= 2 and sum(found) >= CPUIDS else [f"values {found}"]


def listed(text):
    """The events of perf list: names of statistics and of clocks, no histograms."""
    names = set(re.findall(r"kvm_pv/([\w-]+)/", text))
    wanted = {"exits", "hypercalls", "cpu-clock", "task-clock"}
    return ([f"{name} is missing" for name in wanted - names]
            + [f"{name} is no count" for name in names if name.endswith("_hist")])


def idle(text):
    """Without the CPUIDs there are few exits."""
    found = counts(text)
    good = len(found) == 1 and None not in found and sum(found) < CPUIDS / 10
    return [] if good else [f"values {found} without the CPUIDs"]


def quiet(text):
    """On each CPU perf makes less than an exit in 100 ms by itself, but some: it looks."""
    rates = [int(calls) * EXITS_PER_CALL / (int(ns) / 1e8) for calls, ns in re.findall(
        r"^CPU\d+,(\d+),[^,]*,kvm_pv/hypercalls/,(\d+),", text, re.M)]
    print("#", *(f"{rate:.2f}" for rate in rates), "exits in 100 ms, on each CPU")
    good = len(rates) == consumer.CPUS and min(rates) > 0.1 and max(rates) < 1
    return [] if good else [f"exits in 100 ms: {rates}", *text.splitlines()]


def full(text):
    """As many events as there are slots count; perf says which ones did not."""
    found = counts(text)
    good = [value for value in found if value is not None]
    fits = (len(found) == SLOTS + 4 and len(good) == SLOTS and min(good) >= CPUIDS)
    return [] if fits else [f"values {found}"]


def screen(text):
    """What a person sees: counts, and a clock in the unit that the host says."""
    exits = re.search(r"^ +([\d,]+) +kvm_pv/exits/", text, re.M)
    clock = re.search(r"^ +([\d.]+) s +kvm_pv/task-clock/", text, re.M)
    good = (exits and int(exits[1].replace(",", "")) >= CPUIDS
            and clock and float(clock[1]) > 0)
    return [] if good else text.splitlines()


def busiest(text):
    """The function where perf-work spends its time."""
    lines = re.findall(r"^\s+([\d.]+)%\s+\[.\] (\S+)", text, re.M)
    return [] if lines and lines[0][1] == "busy_function" else [f"{lines[:3]}"]


def once_a_period(counted, report):
    """The periods of 1 ms that ended, some, are no more than what was counted meanwhile.

    A sample is one period. The timers of this machine end some ten at once, and any number
    where others have its CPUs: the clock goes on."""
    ended = re.findall(r"^# Event count \(approx\.\): (\d+)$", report, re.M)
    seconds = counts(counted)
    good = (len(ended) == len(seconds) == 1 and seconds[0]
            and 0 < int(ended[0]) <= seconds[0] * 1e9 and not int(ended[0]) % 10**6)
    return [] if good else [f"{ended} ns in samples, {seconds} s were counted"]


# Tests that count the exits of this machine only once
COUNTED = ("idle", "task", "all", "moving", "task-moving", "interval", "hotplug")
# What is wrong with the output of a test, nothing if it is as it has to be.
JUDGES = {
    "list": listed,
    "idle": idle,
    "quiet": quiet,
    "task": at_least,
    "all": at_least,
    "hotplug": lambda text: at_least(text, 100),
    "moving": lambda text: at_least(text, values=2, each=CPUIDS * 2 / 5),
    "task-moving": at_least,
    "interval": interval,
    "full": full,
    "screen": screen,
    "report": busiest,
}


def monitor(path):
    """The monitor of a QEMU that has just been started."""
    found = []

    def listens():
        try:
            found.append(qmp.Monitor(str(path)))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True

    consumer.wait_for("QEMU", listens)
    return found[0]


def host(name):
    """What KVM counts in all the VMs that there are, which is one."""
    return int((DEBUGFS / name).read_text())


class Patience:
    """Whether a guest still moves.

    One that gets little CPU has few ticks: its own time is what counts while it says
    nothing. One that has no ticks, as it only handles NMIs, is judged by the time of this
    machine.
    """

    def __init__(self):
        self.own = consumer.OwnTime()
        self.said, self.at_word = None, 0
        self.ticks, self.at_tick = None, 0

    def problem(self, said, ticks):
        """What is wrong with one that has said so much and had so many ticks, if
        something is."""
        now = self.own.now()
        if said != self.said:
            self.said, self.at_word = said, ticks
        if ticks != self.ticks:
            self.ticks, self.at_tick = ticks, now
        if ticks - self.at_word > LIMIT * TICKS * consumer.CPUS:
            return f"the guest says nothing for {LIMIT} s of its own"
        if now - self.at_tick > LIMIT:
            return f"the guest has no tick for {LIMIT} s"
        return None


class Guest:
    """QEMU with the guest, and what the guest says on its verdict channel."""

    def __init__(self, *options):
        for path in (CONSOLE, VERDICT):
            path.write_bytes(b"")
        self.options = options
        self.start(*options)
        self.begin = time.monotonic()
        self.channel = judge.Channel()
        self.said = VERDICT.open("rb", buffering=0)
        # Why the last wait ended, if not because it was so.
        self.gave_up = None
        # Exits that the host counted while a test ran, none less: those before the
        # first look that saw its begin, and those after its end.
        self.exits, self.before = {}, host("exits")

    def start(self, *options):
        """Have a QEMU run it."""
        path = Path("/tmp/qmp")
        path.unlink(missing_ok=True)
        self.qemu = subprocess.Popen(
            [*QEMU, "-qmp", f"unix:{path},server=on,wait=off", *options],
            stderr=subprocess.STDOUT)
        self.monitor = monitor(path)

    def heard(self):
        """Take in what it said meanwhile; whether it said something."""
        data = self.said.read(65536)
        for kind, name, _ in self.channel.feed(data):
            if kind == "begin":
                self.exits[name] = self.before
            elif kind == "exit":
                self.exits[name] = host("exits") - self.exits[name]
            if kind in ("begin", "exit"):
                print(f"# {time.monotonic() - self.begin:.1f} s: {kind} {name}")
        self.before = host("exits")
        return bool(data)

    def wait(self, what, condition):
        """Wait until it is so, as long as something moves; returns whether it is."""
        self.gave_up = None
        patience = Patience()
        while not condition():
            problem = patience.problem(
                [path.stat().st_size for path in (CONSOLE, VERDICT)], host("irq_injections"))
            if self.qemu.poll() is not None:
                problem = "QEMU is gone"
            if problem:
                self.gave_up = f"waiting for {what}: {problem}"
                print(f"# {self.gave_up}")
                return False
            time.sleep(0.05)
        return True

    def until(self, what, condition):
        """Wait until the channel says so; returns whether it did."""
        def said():
            while self.heard():
                pass
            return condition(self.channel)
        return self.wait(what, said)

    def another(self, name):
        """Go on with another kernel, whose first test it is; returns whether it runs."""
        at = self.said.tell()
        begin = f"begin {name}\n".encode()
        if not self.wait(f"the kernel with {name}",
                         lambda: begin in VERDICT.read_bytes()[at:]):
            return False
        # What the last one said to the end may be half a line.
        self.said.seek(VERDICT.read_bytes().index(begin, at))
        self.channel = judge.Channel()
        return True

    def lives_on(self, plan):
        """Go on with another kernel that has this plan, of two programs; what the host
        had counted of NMIs when it began, and at the end of the first one. None: it does
        not come so far."""
        first, last = plan
        if not self.another(first):
            return None
        nmis = host("nmi_injections")
        if not (self.until(first, ended(first)) and self.until(
                last, lambda channel: channel.running == last)):
            return None
        return nmis, host("nmi_injections")

    def reset(self, plan):
        """Reset the machine, which has this plan; from then on a reboot of the guest ends
        QEMU."""
        self.said.seek(0, 2)
        self.monitor("system_reset")
        self.another(next(iter(plan)))
        self.monitor("set-action", reboot="shutdown")

    def let_cpus_stop(self):
        """Have the vCPUs that a kernel stops, before it starts another one, run before the
        one that starts it.

        To 5.10 a CPU is stopped once it is not online, where it has some way to go to its
        last HLT, and the new kernel is copied over the code that it executes there. 7.3 waits
        for that HLT (cpus_stop_mask).
        """
        for cpu in self.monitor("query-cpus-fast"):
            if cpu["cpu-index"]:
                os.setpriority(os.PRIO_PROCESS, cpu["thread-id"], -20)

    def close(self):
        """End it; returns what its kernel said."""
        self.qemu.kill()
        self.qemu.wait()
        return CONSOLE.read_text(errors="replace")


def complaints(console):
    """What is wrong in what the guest's kernel said."""
    return judge.splats(console) + re.findall(r".*NMI received.*", console)


def ended(name):
    """The condition that a test has ended."""
    return lambda channel: name in channel.status


def check_kexec(results, guest):
    """A kernel that another one starts while perf counts and samples lives; so does
    one that is started where there is no event, which is the control."""
    guest.let_cpus_stop()
    for plan, when in zip(LATER, ("perf counts and samples", "nothing is open")):
        before = host("nmi_injections")
        nmis = guest.lives_on(plan)
        problems = [] if nmis else [guest.gave_up, *guest.close().splitlines()[-8:]]
        if nmis and nmis[1] != nmis[0]:
            problems.append(f"{nmis[1] - nmis[0]} NMIs in the new kernel")
        if nmis and when != "nothing is open" and nmis[0] - before < 10:
            problems.append(f"{nmis[0] - before} NMIs before, that is no sampling")
        results.add(f"another kernel starts while {when}", problems)
        if not nmis:
            return


def check_allowed(results):
    """Perf counts and samples, and goes on after a reset while it samples."""
    PARAMETER.write_text("2")
    guest = Guest()
    guest.until("sampling", lambda channel: channel.running == "sampling")
    # Perf has to start first.
    before = host("nmi_injections")
    sampled = guest.wait("samples", lambda: host("nmi_injections") > before + 100)
    while guest.heard():
        pass
    sampled = sampled and guest.channel.running == "sampling"
    guest.reset(PLAN)
    guest.until("kexec", lambda channel: channel.running == "kexec")
    results.add("the guest is reset while it samples", [] if sampled else [
        "it did not sample at that time"])
    results.add("the guest comes to its last test", [] if (
        guest.channel.running == "kexec") else [
            f"it hangs in {guest.channel.running}, {guest.gave_up}",
            *guest.close().splitlines()[-8:]])
    for name in PLAN:
        if name == "kexec":
            continue
        text = guest.channel.output.get(name, b"").decode(errors="replace")
        status = guest.channel.status.get(name)
        problems = JUDGES.get(name, lambda text: [])(text)
        if status != 0:
            problems += [f"exit status {status}", *text.splitlines()]
        elif name in COUNTED and not sum(filter(None, counts(text))) <= guest.exits[name]:
            problems.append(f"values {counts(text)}, the host had {guest.exits[name]}")
        results.add(f"perf in the guest: {name}", problems)
        for line in text.splitlines()[:40]:
            print(f"#   {line}")
    results.add("perf in the guest samples once in a period at most", once_a_period(*(
        guest.channel.output.get(name, b"").decode(errors="replace")
        for name in ("record", "report"))))
    later = LATER if sys.argv[1:] == ["kexec"] else ()
    if later:
        check_kexec(results, guest)
    console = guest.close()
    results.add("the guest's kernels have nothing to complain of",
                complaints(console))
    results.add("the guest's kernels say what they found",
                [] if len(re.findall("kvm_pv: .* statistics", console)) == 2 + len(later)
                else console.splitlines()[-8:])


def check_absent(results, why, *options):
    """Where the host does not allow it, there is nothing and nothing is said."""
    guest = Guest(*options)
    guest.until("the list", ended("list"))
    listing = guest.channel.output.get("list", b"").decode(errors="replace")
    console = guest.close()
    results.add(f"{why}: perf lists no event of the host", [] if (
        guest.channel.status.get("list") == 0 and "kvm_pv" not in listing)
        else listing.splitlines())
    results.add(f"{why}: the guest's kernel says nothing of it",
                [line for line in console.splitlines() if "kvm_pv" in line]
                + complaints(console))


def main():
    """All guests, one after another."""
    results = consumer.Results()
    PARAMETER.write_text("2")
    version = subprocess.run([QEMU[0], "--version"], check=True,
                             capture_output=True, text=True).stdout
    print("#", version.splitlines()[0])
    check_allowed(results)
    check_absent(results, "CPUID enforced", "-cpu", "qemu64,kvm-pv-enforce-cpuid=on")
    PARAMETER.write_text("0")
    check_absent(results, "parameter off")
    return results.end()


if __name__ == "__main__":
    sys.exit(main())
