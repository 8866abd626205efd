#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Which tests a kernel gets, and what is made of a boot."""

import contextlib
import io
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lab/host"))

import records  # noqa: E402
import results  # noqa: E402
import suite  # noqa: E402


class Selftests(unittest.TestCase):
    """The options of the kernel choose, arguments are given."""

    def chosen(self, config):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / ".config").write_text(config)
            with mock.patch.object(suite.programs, "selftests", return_value=[
                    Path(name) for name in ("plain", "kvm_stats_torn",
                                            "kvm_stats_stress")]):
                return suite.selftests(types.SimpleNamespace(kernel=Path(folder)))

    def test_chosen(self):
        everywhere = [["plain"], ["kvm_stats_torn"]]
        for config in "", "CONFIG_KASAN=m\n", "# CONFIG_KASAN is not set\n":
            self.assertEqual(self.chosen(config), everywhere)
        for config in "CONFIG_KASAN=y\n", "CONFIG_KCSAN=y\n":
            self.assertEqual(self.chosen(config), [
                *everywhere, ["kvm_stats_stress", "-t", "60"]])


class Boot:
    """A boot that goes as it is told; see machine.Boot."""

    def __init__(self, *ends, problem=None):
        self.ends = ends
        self.problem = problem
        self.console = "console.log"
        self.seconds = 1.0
        self.times = {name: 0.5 for name, _ in ends}
        self.channel = types.SimpleNamespace(
            output={name: b"said" for name, _ in ends}, status={})

    def __call__(self, record, folder):
        return self

    def run(self, limit, memory):
        for name, status in self.ends:
            self.channel.status[name] = status
            yield "exit", name, b""

    def last_lines(self):
        return ["last words"]


class Boots(unittest.TestCase):
    """One result per test, and one of the boot."""

    def said(self, boot, *names):
        with tempfile.TemporaryDirectory() as folder:
            record = types.SimpleNamespace(boot=Path(folder) / "x", reason="why")
            (Path(folder) / "here").mkdir()
            tests = [suite.Test(name, [name],
                                lambda output, status: (not status, output))
                     for name in names]
            found = results.Results()
            with mock.patch.object(suite.machine, "pack"), \
                    mock.patch.object(suite.machine, "Boot", boot), \
                    contextlib.redirect_stdout(io.StringIO()) as out:
                suite.boot(found, "here", record, tests)
        return found, out.getvalue().splitlines()

    def test_passed(self):
        found, lines = self.said(Boot(("a", 0), ("b", 0)), "a", "b")
        self.assertEqual((found.passed, found.failed), (3, 0))
        self.assertRegex(lines[0], r"^PASS here/a +said  0\.5 s  \[why\]$")
        self.assertRegex(lines[2], r"^PASS here/boot +1\.0 s in all$")

    def test_a_test_fails(self):
        found, lines = self.said(Boot(("a", 1)), "a")
        self.assertEqual((found.passed, found.failed), (1, 1))
        self.assertRegex(lines[0], r"^FAIL here/a +said .*\(log: .*/a\.log\)$")

    def test_no_verdict(self):
        found, lines = self.said(Boot(("a", 0), problem="hangs in b"), "a", "b")
        self.assertEqual((found.passed, found.failed), (1, 2))
        self.assertRegex(lines[1], r"^FAIL here/b +has no verdict$")
        self.assertRegex(lines[2], r"^FAIL here/boot +hangs in b \(console: ")
        self.assertEqual(lines[3], "    last words")

    def test_two_of_one_name(self):
        with self.assertRaises(records.Invalid) as caught:
            self.said(Boot(), "a", "b", "a")
        self.assertIn("two tests of one name among a b a", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
