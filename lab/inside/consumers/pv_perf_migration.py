#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Test that perf in a guest keeps its counts of host events if the guest is migrated or restored.

usage: pv_perf_migration.py migrate|restore EVENT

This runs in the test machine.
"""

import re
import subprocess
import sys
import time

import consumer
import pv_perf

WAYS = ("migrate", "restore")
# Long enough for a migration while the program runs.
HYPERCALLS = 200000
# The program's hypercalls plus those of perf itself: two per second, and some when the task is
# scheduled.
MOST = HYPERCALLS * 1.1


def make_plan(event):
    """Return the plan of the guest."""
    return {"stat": pv_perf.make_stat_command(events=event,
                                              program=("perf-work", "-h", HYPERCALLS))}


class Guest(pv_perf.Guest):
    """A guest that can be migrated and restored."""

    def migrate(self):
        """Migrate to another QEMU and stop the old one; return the problems."""
        there = "unix:/tmp/migration"
        old, monitor = self.qemu, self.monitor
        self.start(*self.options, "-incoming", there)
        # Stop the guest when its memory was copied once, before QEMU does so: the guest's clock
        # would include the downtime. After 500 ms, the guest reads its events with the first
        # tick anyway.
        monitor("migrate-set-parameters", **{"downtime-limit": 1})
        monitor("migrate", uri=there)
        self.wait_for_migration(monitor, lambda ram: ram.get("dirty-sync-count", 0) > 1)
        monitor("stop")
        status = self.wait_for_migration(monitor)
        monitor("quit")
        old.wait()
        self.monitor("cont")
        return [] if status == "completed" else [status]

    @staticmethod
    def wait_for_migration(monitor, enough=lambda ram: False):
        """Wait until a migration ends or has copied enough memory; return its status."""
        said = {}

        def is_met():
            said.update(monitor("query-migrate"))
            return (said.get("status") in ("completed", "failed", "cancelled")
                    or enough(said.get("ram", {})))

        consumer.wait_for("migration", is_met, 300)
        return said["status"]

    def restore(self):
        """Save the state, continue, and restore the state; return the problems."""
        # The guest's clock would include the time of saving, see migrate().
        self.monitor("stop")
        problems = self.monitor.run_human("savevm middle", 0)
        self.monitor("cont")
        time.sleep(2)
        problems += self.monitor.run_human("loadvm middle", 0)
        return [line for line in problems if line]


def check_kept(text, event):
    """Check that the value includes the hypercalls on both hosts, except for two ticks.

    The guest notices a migration in the softirq of the first tick; the second tick allows for a
    late softirq. The program measures how many hypercalls are made in that time, because this
    depends on the load of the build host.
    """
    value = re.search(rf"^(\d+),,{event},", text, re.M)
    unnoticed = re.search(r"^at most (\d+) hypercalls in 2 ticks$", text, re.M)
    if not value or not unnoticed:
        return [text]
    lost, most = HYPERCALLS - int(value[1]), int(unnoticed[1])
    return [] if lost <= most else [
        f"{lost} of {HYPERCALLS} hypercalls are lost, expected at most {most}: {text}"]


def create_disk():
    """Create a disk for the saved state of the guest; return the QEMU options for it."""
    path, socket = "/tmp/disk.qcow2", "/tmp/disk"
    formats = {"file": {"filename": path, "size": 0},
               "qcow2": {"size": 1 << 20, "file": {"driver": "file", "filename": path}}}
    with subprocess.Popen(["qemu-system-x86_64", "-M", "none", "-nodefaults", "-display",
                           "none", "-qmp", f"unix:{socket},server=on,wait=off"]) as qemu:
        try:
            ask = pv_perf.connect_monitor(socket)
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
    """Run the test named on the command line; return the exit status."""
    what, event = sys.argv[1:3]
    results = consumer.Results()
    if pv_perf.PARAMETER.exists():
        pv_perf.PARAMETER.write_text("1")
    guest = Guest(*(create_disk() if what == "restore" else ()))
    guest.wait_for_result("perf stat", lambda channel: channel.running == "stat")
    time.sleep(2)
    start = time.monotonic()
    problems = getattr(guest, what)()
    print(f"# {what}: {time.monotonic() - start:.1f} s")
    while guest.read_results():
        pass
    if guest.channel.running != "stat":
        problems.append("perf stat had already ended")
    results.add(f"{what} while perf stat runs", problems)
    guest.wait_for_result("the end", lambda channel: channel.ended)
    text = guest.channel.output.get("stat", b"").decode(errors="replace")
    print("#", text.strip())
    results.add("guest completes its plan", [] if guest.channel.status.get(
        "stat") == 0 else [text])
    if event.startswith("kvm_pv/"):
        results.add("counts are kept and counting continues", check_kept(text, event))
        results.add("no hypercall is counted twice", [] if sum(
            value or 0 for value in pv_perf.parse_counts(text)) < MOST else [text])
    console = guest.close()
    results.add("guest kernel prints no warning or error",
                pv_perf.find_complaints(console))
    return results.end()


if __name__ == "__main__":
    sys.exit(main())
