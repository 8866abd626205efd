# SPDX-License-Identifier: GPL-2.0-only
"""The boot of pv_perf_hostile, a selftest with a machine of its own."""

import judge
import records
import steps
import suite


def boot(results, prefix, kernel, hypercalls, limit):
    """Let its guests make so many hypercalls; limit: seconds after which it ends
    whatever it has done. The result has what was done, with the seed."""
    # Both CPUs, but no nested paging: the emulator's ends guests that are innocent.
    record = records.Record(kernel).but(qemu=records.Record("x86_64-long").qemu)
    steps.install(record)

    def tap(output, status):
        passed, text = judge.tap(output, status, record.level)
        counted = [line.removeprefix("# ") for line in output.splitlines()
                   if line.startswith("# seed ")]
        return passed, "  ".join([text, *counted])

    suite.prepare(record)
    suite.boot(results, f"{prefix}-{kernel}", record, [
        suite.Test("pv_perf_hostile",
                   ["pv_perf_hostile", "-t", str(limit), "-n", str(hypercalls)], tap)],
               limit=limit)
