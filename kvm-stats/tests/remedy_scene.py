# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios of remedies: a VM waits, a command of "why" is executed, and the VM's CPU time is read again."""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import FOLDER, HERE, Vmm, result, stack, start, wait_for

CPU = max(os.sched_getaffinity(0))
WRONG = "--wrong" in sys.argv
SELECTED = [name for name in sys.argv[2:] if not name.startswith("--")]
MEASURED_S = 1.5
TRIES = 4
HOG = """
import sys, threading
def spin():
    while True:
        pass
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=spin).start()
spin()
"""


# A shell that starts others, each of which ends after some milliseconds
STARTER = """while :; do {burst} -c 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done'; done"""
# Seconds after which "why" names a process as the one that starts others
STARTER_S = 3.5


def read(path):
    """Return the text of a file, "" if it does not exist any longer."""
    with contextlib.suppress(OSError):
        return Path(path).read_text()
    return ""


def write_starter():
    """Write the script of a process whose children want the CPU; return its command."""
    burst, script = FOLDER / "remedy-burst", FOLDER / "remedy-starter"
    if not burst.exists():
        burst.symlink_to("/bin/sh")
    script.write_text(STARTER.replace("{burst}", str(burst)))
    return "/bin/sh", script


def find_changes(state, now):
    """Return what has changed. Cgroups of other tests appear and vanish."""
    return {key: value for key, value in now.items() if key in state and state[key] != value}


class BaseScene:
    """A VM, and processes that keep it from running."""

    # Directories of cgroups, and files there, that commands may change
    trees, files = (), ()

    def __init__(self, name):
        self.name = f"remedy-{name}-{os.getpid()}"
        self.stack = stack.enter_context(contextlib.ExitStack())
        # after all processes have ended
        self.cgroups = []
        self.stack.callback(self.remove_cgroups)
        self.vmm, self.hogs, self.limited = None, [], []
        self.measure = self.lost_cpus

    def remove_cgroups(self):
        """Remove the cgroups, whose processes are exiting."""
        for path in reversed(self.cgroups):
            for left in reversed(range(500)):
                with contextlib.suppress(OSError if left else ()):
                    path.rmdir()
                    break
                time.sleep(0.01)

    def start_vm(self, *cgroups, options=("-b",), vcpus=1, prefix=("taskset", "-c", str(CPU))):
        """Start a VM in cgroups."""
        self.vmm = Vmm(self.name, *options, vcpus=vcpus, prefix=prefix)
        self.stack.callback(self.vmm.end)
        # The kernel knows the thread of a vCPU once it has run.
        wait_for(lambda: self.run_ns() > 1e6 * vcpus)
        for cgroup in cgroups:
            (cgroup / "cgroup.procs").write_text(str(self.vmm.pid))

    def start_hog(self, *cgroups, threads=1, prefix=(), cpu=CPU, name="remedy-hog"):
        """Start a process that wants a CPU, None: any."""
        path = FOLDER / name
        if not path.exists():
            path.symlink_to("/usr/bin/python3")
        # pylint: disable-next=consider-using-with # ended with the scene
        hog = start(*(["taskset", "-c", str(cpu)] if cpu is not None else []), *prefix, path, "-c", HOG, str(threads))
        self.hogs.append(hog)
        self.stack.callback(hog.wait)
        self.stack.callback(hog.kill)
        for cgroup in cgroups:
            (cgroup / "cgroup.procs").write_text(str(hog.pid))

    def start_starter(self, *cgroups):
        """Start a process whose children want the CPU, each for some milliseconds."""
        # pylint: disable-next=consider-using-with # ended with the scene
        starter = start("taskset", "-c", str(CPU), *write_starter())
        self.hogs.append(starter)
        self.stack.callback(starter.wait)
        self.stack.callback(starter.kill)
        for cgroup in cgroups:
            (cgroup / "cgroup.procs").write_text(str(starter.pid))
        time.sleep(STARTER_S)

    def vcpu_threads(self):
        """Return the threads of the vCPUs, which have the name that QEMU gives them."""
        tasks = sorted(int(task.name) for task in Path(f"/proc/{self.vmm.pid}/task").iterdir())
        return [task for task in tasks if read(f"/proc/{task}/comm").startswith("CPU ")]

    def run_ns(self):
        """Return the CPU time of the VM."""
        return sum(int(read(f"/proc/{task}/schedstat").split()[0]) for task in self.vcpu_threads())

    def used_cpus(self):
        """Return how many CPUs the VM uses."""
        begin, run = time.monotonic(), self.run_ns()
        time.sleep(MEASURED_S)
        return (self.run_ns() - run) / 1e9 / (time.monotonic() - begin)

    def lost_cpus(self):
        """Return how many CPUs the VM wants and does not get; its guests are busy."""
        return len(self.vcpu_threads()) - self.used_cpus()

    def throttled_cpus(self):
        """Return the time in which quotas stopped cgroups, by the kernel's account."""
        def total():
            """Return seconds: v1 has nanoseconds, v2 microseconds."""
            found = [re.search(r"throttled_(time|usec) (\d+)", read(path / "cpu.stat")) for path in self.limited]
            return sum(int(match[2]) / (1e9 if match[1] == "time" else 1e6) for match in found)
        begin, before = time.monotonic(), total()
        time.sleep(MEASURED_S)
        return (total() - before) / (time.monotonic() - begin)

    def state(self):
        """Return what commands can change on this host."""
        found = {}
        for tree in self.trees:
            for directory, _, files in os.walk(tree):
                found.update({f"{directory}/{name}": read(f"{directory}/{name}")
                              for name in self.files if name in files})
        for pid in self.vmm.pid, *(hog.pid for hog in self.hogs):
            for task in os.listdir(f"/proc/{pid}/task"):
                tid = int(task)
                found[f"thread {pid} {tid}"] = (
                    subprocess.run(["chrt", "--pid", task], check=False, stdout=subprocess.PIPE).stdout,
                    os.getpriority(os.PRIO_PROCESS, tid), sorted(os.sched_getaffinity(tid)),
                    re.search(r"State:\s*(T?)", read(f"/proc/{tid}/status"))[1])
        return found


def check(scenario, scene):
    """Execute the command of one scenario; return None, or what is wrong."""
    with scene.stack:
        scenario.build(scene)
        time.sleep(0.3)
        causes = scene.why()
        if not causes or causes[0]["remedy"]["kind"] != scenario.kind:
            return f"no remedy {scenario.kind}: {causes[:1]}"
        remedy = causes[0]["remedy"]
        before, state = scene.measure(), scene.state()
        status, error = scene.execute(scenario.wrong(scene) if WRONG else remedy["command"])
        changed = find_changes(state, scene.state())
        after = scene.measure()
        won = before - after
        figures = (f"{scenario.name}: lost {before:.2f} CPUs, then {after:.2f}, promised {remedy['up_to_cpus']:.2f}: "
                   f"{remedy['command']}")
        if WRONG:
            return None if won < 0.8 * remedy["up_to_cpus"] else f"the wrong lever wins as much: {figures}"
        others = {key for key in changed if not re.search(scenario.changes, key)}
        if status or others or won < 0.8 * remedy["up_to_cpus"]:
            return f"{figures}; status {status} {error}, changed besides: {others or 'nothing'}"
        status, error = scene.execute(remedy["undo"])
        # A signal stops the threads some time later.
        wait_for(lambda: not find_changes(state, scene.state()))
        left = find_changes(state, scene.state())
        if status or left:
            return f"undo, {remedy['undo']}: status {status} {error}, left: {left}"
        print(f"# {figures}")
        return None


class Skipped(Exception):
    """A scenario cannot run on this host."""


class Scenario:
    """A row of the table of scenarios."""

    table = []

    def __init__(self, kind, changes, wrong, cpus=None):
        """cpus: of the only host on which it runs."""
        self.kind, self.changes, self.cpus = kind, changes, cpus
        self.wrong = wrong if callable(wrong) else lambda _: wrong
        self.name = self.build = None

    def __call__(self, build):
        self.name, self.build = build.__name__.replace("_", "-"), build
        Scenario.table.append(self)
        return build


def renice_hog(scene):
    """Return the lever that looks right in another cgroup."""
    return f"renice -n 19 -p {scene.hogs[0].pid}"


def continue_vmm(scene):
    """Return the lever that looks right if a freezer has stopped the VM."""
    return f"kill -CONT {scene.vmm.pid}"


def test_table(elsewhere=()):
    """Check that each kind of command has a scenario, here or elsewhere, and that each scenario is of a kind."""
    kinds = set(re.findall(r'\[REMEDY_\w+\] = "([\w-]+)"', (HERE.parent / "src/remedy.c").read_text()))
    tested = {scenario.kind for scenario in Scenario.table}.union(elsewhere)
    result(kinds == tested and len(kinds) > 10, f"kinds of commands without a scenario: {kinds ^ tested or 'none'}")


def test_scenario(row, make_scene):
    """Run a scenario, some times if other work on this host can have taken the CPU while it was measured."""
    for _ in range(TRIES):
        try:
            problem = check(row, make_scene(row.name))
        except Skipped as reason:
            result(True, f"{row.kind}, {row.name} # SKIP {reason}")
            return
        if not problem:
            break
        print(f"# {row.name}: {problem}")
    result(not problem, f"{row.kind}, {row.name}: {'see above' if problem else 'as promised'}")


def run_scenarios(make_scene, cpus=None):
    """Run the selected scenarios, or all, of those for hosts with so many CPUs."""
    for row in Scenario.table:
        if row.cpus == cpus and (not SELECTED or row.name in SELECTED):
            test_scenario(row, make_scene)
