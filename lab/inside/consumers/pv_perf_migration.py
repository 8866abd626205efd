#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""In the lab's machine: does perf in a guest lose what it counted on the host when
the guest is migrated, or restored?

usage: pv_perf_migration.py migrate|restore EVENT
"""

import re
import subprocess
import sys
import time

import consumer
import pv_perf

WAYS = ("migrate", "restore")
# Long enough for something to happen in the middle.
CPUIDS = 200000
# Seconds that a guest may take to notice, in which the new place counts nothing: CHECK_NS in
# its driver. The emulator may run them twice as fast as the others.
UNNOTICED = 0.5
FASTER = 2


def plan(event):
    """What runs in the guest."""
    return {"stat": pv_perf.stat(events=event, program=("perf-work", CPUIDS))}


class Guest(pv_perf.Guest):
    """A guest that moves."""

    def migrate(self):
        """On to another QEMU; the old one ends."""
        there = "unix:/tmp/migration"
        old, monitor = self.qemu, self.monitor
        self.start(*self.options, "-incoming", there)
        monitor("migrate", uri=there)
        ends = ("completed", "failed", "cancelled")
        consumer.wait_for("migration", lambda: monitor("query-migrate").get(
            "status") in ends, 300)
        status = monitor("query-migrate")["status"]
        monitor("quit")
        old.wait()
        return [] if status == "completed" else [status]

    def restore(self):
        """Save it, let it go on, and put it back to where it was."""
        problems = self.monitor.human("savevm middle", 0)
        time.sleep(2)
        problems += self.monitor.human("loadvm middle", 0)
        return [line for line in problems if line]


def kept(text, event):
    """Problems: what the old place counted has to be there, and the new one but for that time."""
    found = re.search(rf"^(\d+),,{event},(\d+),", text, re.M)
    if not found:
        return [text]
    value, seconds = int(found[1]), int(found[2]) / 1e9
    least = CPUIDS * (1 - UNNOTICED * FASTER / seconds)
    return [] if value >= least else [
        f"{value} exits in {seconds:.1f} s, {least:.0f} of {CPUIDS} are to be there"]


def disk():
    """Options for a disk, which is where QEMU saves the guest."""
    path, socket = "/tmp/disk.qcow2", "/tmp/disk"
    formats = {"file": {"filename": path, "size": 0},
               "qcow2": {"size": 1 << 20, "file": {"driver": "file", "filename": path}}}
    with subprocess.Popen(["qemu-system-x86_64", "-M", "none", "-nodefaults", "-display",
                           "none", "-qmp", f"unix:{socket},server=on,wait=off"]) as qemu:
        try:
            ask = pv_perf.monitor(socket)
            for driver, options in formats.items():
                ask("blockdev-create", **{
                    "job-id": driver, "options": {"driver": driver, **options}})
                consumer.wait_for("a disk", lambda: all(
                    job["status"] == "concluded" for job in ask("query-jobs")))
            errors = [job["error"] for job in ask("query-jobs") if "error" in job]
        finally:
            qemu.kill()
    if errors:
        raise RuntimeError(f"no disk: {errors}")
    return ["-blockdev", f"driver=qcow2,node-name=disk,file.driver=file,file.filename={path}"]


def main():
    """What the arguments say, once."""
    what, event = sys.argv[1:3]
    results = consumer.Results()
    if pv_perf.PARAMETER.exists():
        pv_perf.PARAMETER.write_text("2")
    guest = Guest(*(disk() if what == "restore" else ()))
    guest.until("perf stat", lambda channel: channel.running == "stat")
    time.sleep(2)
    start = time.monotonic()
    problems = getattr(guest, what)()
    print(f"# {what}: {time.monotonic() - start:.1f} s")
    while guest.heard():
        pass
    if guest.channel.running != "stat":
        problems.append("perf stat had ended before")
    results.add(f"{what} in the middle of perf stat", problems)
    guest.until("the end", lambda channel: channel.ended)
    text = guest.channel.output.get("stat", b"").decode(errors="replace")
    print("#", text.strip())
    results.add("the guest comes to its end", [] if guest.channel.status.get(
        "stat") == 0 else [text])
    if event.startswith("kvm_pv/"):
        results.add("what was counted is kept, and counting goes on", kept(text, event))
        results.add("nothing is counted twice", [] if sum(
            value or 0 for value in pv_perf.counts(text)) < 2 * CPUIDS else [text])
    console = guest.close()
    results.add("the guest's kernel has nothing to complain of",
                pv_perf.complaints(console))
    return results.end()


if __name__ == "__main__":
    sys.exit(main())
