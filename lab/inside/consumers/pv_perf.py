#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Test that perf in a Linux guest counts and samples events of the host.

usage: pv_perf.py [kexec]

This runs in the test machine. QEMU runs a guest with the lab's init and the tests of PLAN;
their output is checked here. With kexec, the guest continues with the kernels of LATER.
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
# Each hypercall of the guest's perf is made from a timer: setting it and its interrupt cause
# exits as well.
EXITS_PER_CALL = 3
PARAMETER = Path("/sys/module/kvm/parameters/pv_perf")
DEBUGFS = Path("/sys/kernel/debug/kvm")
CONSOLE = Path("/tmp/guest-console")
VERDICT = Path("/tmp/guest-verdict")
# Seconds of guest time after which a silent guest is considered hung, and its ticks per second.
LIMIT = 120
TICKS = 100
CMDLINE = f"{consumer.CMDLINE} panic=-1 oops=panic unknown_nmi_panic"
# QEMU does not know the feature's name. Without the limit to features that can be migrated, it
# copies the CPUID bits without a name from KVM. An invariant TSC would prevent migration. The
# sizes of the emulated CPU's XSAVE areas do not fit: a guest's kernel panics. Without XSAVE, it
# must not use AVX either.
CPU = "host,migratable=off,-invtsc,-xsave,-avx,-avx2,-vaes,-vpclmulqdq"
# Don't use -no-reboot: QEMU must survive a reset of the guest.
# The guest's kernel finds one CPU per socket.
QEMU = ["qemu-system-x86_64", "-accel", "kvm", "-cpu", CPU,
        "-smp", f"{consumer.CPUS},sockets={consumer.CPUS}",
        "-m", "512M", "-nodefaults", "-display", "none",
        "-kernel", consumer.KERNEL, "-initrd", consumer.INITRD,
        "-append", CMDLINE,
        *(word for name, path in (("console", CONSOLE), ("verdict", VERDICT))
          for word in ("-chardev", f"file,id={name},path={path},append=on",
                       "-serial", f"chardev:{name}"))]


def make_stat_command(*options, events="kvm_pv/exits/", program=("perf-work", CPUIDS)):
    """Return the command line of perf stat with machine-readable output."""
    return ["perf", "stat", "-x,", *options, "-e", events, "--", *program]


# As many different events as there are ids, and the first one again.
FULL = ("exits", "hypercalls", "io_exits", "mmio_exits", "signal_exits", "irq_exits",
        "irq_window_exits", "nmi_window_exits", "halt_exits", "request_irq_exits", "pf_fixed",
        "pf_guest", "tlb_flush", "irq_injections", "nmi_injections", "task-clock", *["exits"] * 4)
KEXEC = ["guest-kexec", "/lab/kernel", "/lab/initrd"]
# The tests in the guest, in this order.
PLAN = {
    "list": ["perf", "list", "--no-desc", "pmu"],
    "sampling": ["perf", "record", "-q", "-a", "-o", "/tmp/data", "-c", "1000000",
                 "-e", "kvm_pv/cpu-clock/", "--", "perf-work", 4 * CPUIDS],
    "idle": make_stat_command(program=("perf-work", 0)),
    "quiet": ["perf", "stat", "-x,", "-a", "-A", "-e", "kvm_pv/hypercalls/",
              "--timeout", "5000"],
    "task": make_stat_command(),
    "all": make_stat_command("-a"),
    "hotplug": make_stat_command("-a", program=("guest-hotplug", 3)),
    "moving": make_stat_command("-A", "-C", "0,1", program=("perf-work", CPUIDS, 2)),
    "task-moving": make_stat_command(program=("perf-work", CPUIDS, 2)),
    "interval": make_stat_command("-I", "100"),
    "full": make_stat_command(events=",".join(f"kvm_pv/{name}/" for name in FULL)),
    "screen": ["perf", "stat", "-e", ",".join(
        f"kvm_pv/{name}/" for name in ("exits", "io_exits", "irq_exits",
                                       "hypercalls", "task-clock")),
               "--", "perf-work", CPUIDS],
    "record": make_stat_command(events="kvm_pv/task-clock/", program=(
        "perf", "record", "-q", "-o", "/tmp/data", "-e", "kvm_pv/task-clock/", "--",
        "perf-work", 100)),
    "report": ["perf", "report", "-i", "/tmp/data", "--stdio", "--sort", "symbol"],
}
# The last test of a plan runs until the guest is stopped: the host has no statistics without
# a VM.
ENDLESS = ["perf-work", 10**9]
LAST = "last"
# The tests of the kernels started with kexec: the first one is started while events are open,
# the second one while none is.
LATER = ({"kexeced": ["perf-work", 100], "kexec-without-events": KEXEC},
         {"kexeced-again": ["perf-work", 100], "until-the-end": ENDLESS})


def make_plan(kexec):
    """Return the whole plan; in its last test, perf counts all CPUs and samples a program: with
    kexec one that starts the next kernel, otherwise one that runs until the guest is stopped."""
    return {**PLAN, LAST: make_stat_command("-a", program=(
        "perf", "record", "-q", "-o", "/tmp/data", "-c", "1000000", "-e",
        "kvm_pv/cpu-clock/", "--", *(KEXEC if kexec else ENDLESS)))}


def parse_counts(text):
    """Return the values printed by perf stat -x in order, None for "not counted"."""
    found = re.findall(r"^(?:\s*[\d.]+,)?(?:CPU\d+,)?([\d.]+|<not counted>),[^,]*,kvm_pv/",
                       text, re.M)
    return [None if value.startswith("<") else float(value) for value in found]


def check_at_least(text, least=CPUIDS, values=1, each=0):
    """Check the number of values, their sum (`least`) and their minimum (`each`)."""
    found = parse_counts(text)
    good = (len(found) >= values and None not in found
            and sum(found) >= least and min(found) >= each)
    return [] if good else [f"values {found}, expected at least {least}"]


def check_intervals(text):
    """Check the sum of all intervals; perf does not count while the program does not run."""
    found = [value for value in parse_counts(text) if value is not None]
    return [] if len(found) >= 2 and sum(found) >= CPUIDS else [f"values {found}"]


def check_list(text):
    """Check that perf list shows statistics and clocks but no histograms."""
    names = set(re.findall(r"kvm_pv/([\w-]+)/", text))
    wanted = {"exits", "hypercalls", "cpu-clock", "task-clock"}
    return ([f"{name} is missing" for name in wanted - names]
            + [f"{name} is not a counter" for name in names if name.endswith("_hist")])


def check_idle(text):
    """Check that a program without CPUIDs causes few exits."""
    found = parse_counts(text)
    good = len(found) == 1 and None not in found and sum(found) < CPUIDS / 10
    return [] if good else [f"values {found} without the CPUIDs"]


def check_quiet(text):
    """Check that perf itself causes some exits on each CPU, but less than one per 100 ms."""
    rates = [int(calls) * EXITS_PER_CALL / (int(ns) / 1e8) for calls, ns in re.findall(
        r"^CPU\d+,(\d+),[^,]*,kvm_pv/hypercalls/,(\d+),", text, re.M)]
    print("#", *(f"{rate:.2f}" for rate in rates), "exits per 100 ms, on each CPU")
    good = len(rates) == consumer.CPUS and min(rates) > 0.1 and max(rates) < 1
    return [] if good else [f"exits per 100 ms: {rates}", *text.splitlines()]


def check_full(text):
    """Check that as many different events as there are ids count at a time, and that events
    with the same configuration share an id and count the same."""
    found = parse_counts(text)
    exits = [value for name, value in zip(FULL, found) if name == "exits"]
    fits = (len(found) == len(FULL) and None not in found and min(exits) >= CPUIDS
            and max(exits) - min(exits) < CPUIDS / 10)
    return [] if fits else [f"values {found}"]


def check_screen(text):
    """Check perf's output for users: counters, and a clock in the unit given by the host."""
    exits = re.search(r"^ +([\d,]+) +kvm_pv/exits/", text, re.M)
    clock = re.search(r"^ +([\d.]+) s +kvm_pv/task-clock/", text, re.M)
    good = (exits and int(exits[1].replace(",", "")) >= CPUIDS
            and clock and float(clock[1]) > 0)
    return [] if good else text.splitlines()


def check_report(text):
    """Check that perf report shows the function in which perf-work spends its time first."""
    lines = re.findall(r"^\s+([\d.]+)%\s+\[.\] (\S+)", text, re.M)
    return [] if lines and lines[0][1] == "busy_function" else [f"{lines[:3]}"]


def check_sampled_time(counted, report):
    """Check that the sampled periods of 1 ms do not exceed the time counted in parallel.

    A sample stands for one period. Fewer samples are correct: several periods end at the
    same time if the test machine's timers are late, which they are on a busy build host.
    """
    ended = re.findall(r"^# Event count \(approx\.\): (\d+)$", report, re.M)
    seconds = parse_counts(counted)
    good = (len(ended) == len(seconds) == 1 and seconds[0]
            and 0 < int(ended[0]) <= seconds[0] * 1e9 and not int(ended[0]) % 10**6)
    return [] if good else [f"{ended} ns sampled, {seconds} s counted"]


# Tests whose values add up to at most the host's exits.
COUNTED = ("idle", "task", "all", "moving", "task-moving", "interval", "hotplug")
# Functions that return the problems in the output of a test.
JUDGES = {
    "list": check_list,
    "idle": check_idle,
    "quiet": check_quiet,
    "task": check_at_least,
    "all": check_at_least,
    "hotplug": lambda text: check_at_least(text, 100),
    "moving": lambda text: check_at_least(text, values=2, each=CPUIDS * 2 / 5),
    "task-moving": check_at_least,
    "interval": check_intervals,
    "full": check_full,
    "screen": check_screen,
    "report": check_report,
}


def connect_monitor(path):
    """Wait until a new QEMU listens on its monitor socket; return the connection."""
    found = []

    def connect():
        try:
            found.append(qmp.Monitor(str(path)))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True

    consumer.wait_for("QEMU", connect)
    return found[0]


def read_host_stat(name):
    """Return a statistic of the host, summed over all VMs; only one VM exists."""
    return int((DEBUGFS / name).read_text())


class Patience:
    """Detects a guest that hangs.

    A silent guest is judged by its own time, measured in ticks: a guest that gets little CPU
    time has few. A guest without ticks, for example one that only handles NMIs, is judged by
    the time of the test machine.
    """

    def __init__(self):
        self.own = consumer.OwnTime()
        self.said, self.at_word = None, 0
        self.ticks, self.at_tick = None, 0

    def find_problem(self, said, ticks):
        """Return the problem of a guest, given the size of its output and its ticks, or None."""
        now = self.own.read()
        if said != self.said:
            self.said, self.at_word = said, ticks
        if ticks != self.ticks:
            self.ticks, self.at_tick = ticks, now
        if ticks - self.at_word > LIMIT * TICKS * consumer.CPUS:
            return f"no output from the guest for {LIMIT} s of guest time"
        if now - self.at_tick > LIMIT:
            return f"no tick in the guest for {LIMIT} s"
        return None


class Guest:
    """A QEMU with its guest, and the guest's result channel."""

    def __init__(self, *options):
        for path in (CONSOLE, VERDICT):
            path.write_bytes(b"")
        self.options = options
        self.start(*options)
        self.begin = time.monotonic()
        self.channel = judge.Channel()
        self.said = VERDICT.open("rb", buffering=0)
        # The reason if the last wait failed.
        self.gave_up = None
        # Upper limits of the exits during each test: from the last read before its begin to
        # the first one after its end.
        self.exits, self.before = {}, read_host_stat("exits")

    def start(self, *options):
        """Start a QEMU with the guest."""
        path = Path("/tmp/qmp")
        path.unlink(missing_ok=True)
        self.qemu = subprocess.Popen(
            [*QEMU, "-qmp", f"unix:{path},server=on,wait=off", *options],
            stderr=subprocess.STDOUT)
        self.monitor = connect_monitor(path)

    def read_results(self):
        """Process new data in the result channel; return True if some was available."""
        data = self.said.read(65536)
        for kind, name, _ in self.channel.feed(data):
            if kind == "begin":
                self.exits[name] = self.before
            elif kind == "exit":
                self.exits[name] = read_host_stat("exits") - self.exits[name]
            if kind in ("begin", "exit"):
                print(f"# {time.monotonic() - self.begin:.1f} s: {kind} {name}")
        self.before = read_host_stat("exits")
        return bool(data)

    def wait(self, what, condition):
        """Wait for a condition; return False if the guest hangs or QEMU exits first."""
        self.gave_up = None
        patience = Patience()
        while not condition():
            problem = patience.find_problem(
                [path.stat().st_size for path in (CONSOLE, VERDICT)],
                read_host_stat("irq_injections"))
            if self.qemu.poll() is not None:
                problem = "QEMU has exited"
            if problem:
                self.gave_up = f"waiting for {what}: {problem}"
                print(f"# {self.gave_up}")
                return False
            time.sleep(0.05)
        return True

    def wait_for_result(self, what, condition):
        """Wait for a condition of the result channel; return True if it was met."""
        def is_met():
            while self.read_results():
                pass
            return condition(self.channel)
        return self.wait(what, is_met)

    def switch_kernel(self, name):
        """Wait for the first test of another kernel; return True if the kernel runs."""
        at = self.said.tell()
        begin = f"begin {name}\n".encode()
        if not self.wait(f"the kernel with {name}",
                         lambda: begin in VERDICT.read_bytes()[at:]):
            return False
        # The last line of the previous kernel may be incomplete.
        self.said.seek(VERDICT.read_bytes().index(begin, at))
        self.channel = judge.Channel()
        return True

    def run_next_kernel(self, plan):
        """Follow another kernel with a plan of two tests, up to the start of the second one.

        Return the host's NMI counts at the start of the kernel and at the end of the first
        test, or None if the kernel does not get that far.
        """
        first, last = plan
        if not self.switch_kernel(first):
            return None
        nmis = read_host_stat("nmi_injections")
        if not (self.wait_for_result(first, has_ended(first)) and self.wait_for_result(
                last, lambda channel: channel.running == last)):
            return None
        return nmis, read_host_stat("nmi_injections")

    def reset(self, plan):
        """Reset the guest, which runs this plan; later reboots of the guest make QEMU exit."""
        self.said.seek(0, 2)
        self.monitor("system_reset")
        self.switch_kernel(next(iter(plan)))
        self.monitor("set-action", reboot="shutdown")

    def prioritize_stopping_vcpus(self):
        """Raise the priority of the vCPUs that a kernel stops before it starts another one.

        5.10 considers a CPU stopped when it is offline, but the CPU still executes code up to
        its last HLT, and the new kernel may overwrite this code. 7.3 waits for the HLT
        (cpus_stop_mask).
        """
        for cpu in self.monitor("query-cpus-fast"):
            if cpu["cpu-index"]:
                os.setpriority(os.PRIO_PROCESS, cpu["thread-id"], -20)

    def close(self):
        """Kill QEMU; return the console output of the guest."""
        self.qemu.kill()
        self.qemu.wait()
        return CONSOLE.read_text(errors="replace")


def find_complaints(console):
    """Return the warnings and errors in the console output of a guest."""
    return judge.find_splats(console) + re.findall(r".*NMI received.*", console)


def has_ended(name):
    """Return the condition that a test has ended."""
    return lambda channel: name in channel.status


def check_kexec(results, guest):
    """Check that kexec works while perf counts and samples; without events as a control."""
    guest.prioritize_stopping_vcpus()
    for plan, when in zip(LATER, ("perf counts and samples", "no event is open")):
        before = read_host_stat("nmi_injections")
        nmis = guest.run_next_kernel(plan)
        problems = [] if nmis else [guest.gave_up, *guest.close().splitlines()[-8:]]
        if nmis and nmis[1] != nmis[0]:
            problems.append(f"{nmis[1] - nmis[0]} NMIs in the new kernel")
        if nmis and when != "no event is open" and nmis[0] - before < 10:
            problems.append(f"{nmis[0] - before} NMIs before kexec, no sampling")
        results.add(f"kexec succeeds while {when}", problems)
        if not nmis:
            return


def check_reset(results, guest):
    """Check that the guest counts and samples again after a reset while sampling."""
    before = read_host_stat("nmi_injections")
    sampled = guest.wait("samples", lambda: read_host_stat("nmi_injections") > before + 100)
    results.add("guest samples until its reset", [] if sampled else [guest.gave_up])
    guest.reset(PLAN)
    guest.wait_for_result("sampling", has_ended("sampling"))
    results.add("guest samples after its reset", [] if (
        guest.channel.status.get("sampling") == 0) else [
            f"{guest.channel.running}, {guest.gave_up}", *guest.close().splitlines()[-8:]])


def check_allowed(results, kexec):
    """Check that perf counts and samples, and that it continues to after a reset or kexec."""
    guest = Guest()
    guest.wait_for_result(LAST, lambda channel: channel.running == LAST)
    results.add("guest reaches its last test", [] if (
        guest.channel.running == LAST) else [
            f"hangs in {guest.channel.running}, {guest.gave_up}",
            *guest.close().splitlines()[-8:]])
    for name in PLAN:
        text = guest.channel.output.get(name, b"").decode(errors="replace")
        status = guest.channel.status.get(name)
        problems = JUDGES.get(name, lambda text: [])(text)
        if status != 0:
            problems += [f"exit status {status}", *text.splitlines()]
        elif name in COUNTED and not sum(filter(None, parse_counts(text))) <= guest.exits[name]:
            problems.append(f"values {parse_counts(text)}, host counted {guest.exits[name]}")
        results.add(f"perf in the guest: {name}", problems)
        for line in text.splitlines()[:40]:
            print(f"#   {line}")
    results.add("perf in the guest: at most one sample per period", check_sampled_time(*(
        guest.channel.output.get(name, b"").decode(errors="replace")
        for name in ("record", "report"))))
    if kexec:
        check_kexec(results, guest)
    else:
        check_reset(results, guest)
    console = guest.close()
    results.add("guest kernels print no warning or error",
                find_complaints(console))
    results.add("guest kernels print the number of statistics",
                [] if len(re.findall("kvm_pv: .* statistics", console)) == (
                    1 + len(LATER) if kexec else 2) else console.splitlines()[-8:])


def check_absent(results, why, *options):
    """Check that the guest finds no events, and prints nothing, without the feature."""
    guest = Guest(*options)
    guest.wait_for_result("the list", has_ended("list"))
    listing = guest.channel.output.get("list", b"").decode(errors="replace")
    console = guest.close()
    results.add(f"{why}: perf lists no host event", [] if (
        guest.channel.status.get("list") == 0 and "kvm_pv" not in listing)
        else listing.splitlines())
    results.add(f"{why}: guest kernel prints nothing about kvm_pv",
                [line for line in console.splitlines() if "kvm_pv" in line]
                + find_complaints(console))


def main():
    """Run all guests, one after another; return the exit status."""
    results = consumer.Results()
    PARAMETER.write_text("1")
    version = subprocess.run([QEMU[0], "--version"], check=True,
                             capture_output=True, text=True).stdout
    print("#", version.splitlines()[0])
    check_allowed(results, kexec=sys.argv[1:] == ["kexec"])
    check_absent(results, "CPUID without the bit", "-cpu", "qemu64")
    PARAMETER.write_text("0")
    check_absent(results, "parameter off")
    return results.end()


if __name__ == "__main__":
    sys.exit(main())
