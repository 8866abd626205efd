# SPDX-License-Identifier: GPL-2.0-only
"""The boot for the selftest pv_perf_hostile, which needs a separate test machine."""

from . import judge, records, steps, suite


def boot(results, prefix, kernel, hypercalls, limit):
    """Run pv_perf_hostile until its guests have made this number of hypercalls.

    The test stops after `limit` seconds at the latest. The result shows the seed and the
    number of operations.
    """
    record = records.Record(kernel)
    steps.install_packages(record)

    def tap(output, status):
        passed, text = judge.tap(output, status, record.level)
        counted = [line.removeprefix("# ") for line in output.splitlines()
                   if line.startswith("# seed ")]
        return passed, "  ".join([text, *counted])

    suite.prepare(record)
    # With virtual time, one of four boots hung: it took more than 170 CPU seconds, not 25.
    suite.boot(results, f"{prefix}-{kernel}", record.replace(clock="host"), [
        suite.Test("pv_perf_hostile",
                   ["pv_perf_hostile", "-t", str(limit), "-n", str(hypercalls)], tap)],
               limit=limit)
