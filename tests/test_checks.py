#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""How checks are found, run and added up: a repository with checks of our own."""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
from pathlib import Path
from unittest import mock

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "lab/host"))

import results  # noqa: E402
import steps  # noqa: E402


class Results(unittest.TestCase):
    """What a check in Python says."""

    def say(self, *all_results, argv=("checks/x",), **options):
        found = results.Results()
        with contextlib.redirect_stdout(io.StringIO()) as out, \
                mock.patch.object(sys, "argv", [str(TOP / argv[0]), *argv[1:]]):
            for result in all_results:
                found.say(*result, **options)
            status = found.end()
        return status, out.getvalue()

    def test_lines(self):
        self.assertEqual(self.say(("a", True, "fine"), ("b", False, "bad", "more")),
                         (1, f"PASS {'a':30} fine\nFAIL {'b':30} bad\n    more\n"
                             "    again: checks/x\n1 passed, 1 failed\n"))

    def test_again(self):
        """What was typed, for the shell, or what is said to be shorter."""
        self.assertIn("\n    again: checks/x one 'two three'\n",
                      self.say(("a", False), argv=("checks/x", "one", "two three"))[1])
        self.assertIn("\n    again: lab/run one\n",
                      self.say(("a", False), again="lab/run one")[1])
        with mock.patch.object(results.base_file, "NAME", "other"):
            self.assertIn("\n    again: BASE=other lab/run one\n",
                          self.say(("a", False), again="lab/run one")[1])

    def test_passed(self):
        self.assertEqual(self.say(("a", True))[0], 0)

    def test_nothing_tested(self):
        self.assertEqual(self.say(), (1, "0 passed, 0 failed\n"))


class Repository(unittest.TestCase):
    """One with our own scripts and lab, and nothing else."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = Path(folder.name)
        for room in "lab", "scripts":
            shutil.copytree(TOP / room, self.top / room)


class All(Repository):
    """checks/all."""

    def setUp(self):
        super().setUp()
        (self.top / "patches/1.0").mkdir(parents=True)
        (self.top / "patches/default").write_text("1.0\n")
        self.base()
        (self.top / "checks/long").mkdir(parents=True)
        shutil.copy(TOP / "checks/all", self.top / "checks")

    def base(self, skipped=""):
        """The file of the base."""
        (self.top / "patches/1.0/base").write_text(
            f"package = p\nsuites = s\nversion = 1.0*\nkernels =\nskip_checks = {skipped}\n"
            "debian_kernel =\n")

    def add(self, name, text, mode=0o755):
        """A check in bash."""
        path = self.top / "checks" / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(mode)

    def run_all(self, *names):
        """Exit status, lines of stdout, stderr."""
        done = subprocess.run([self.top / "checks/all", *names], text=True,
                              capture_output=True, check=False)
        return done.returncode, done.stdout.splitlines(), done.stderr

    def test_adds_up(self):
        self.add("one", "echo PASS one fine; echo 1 passed, 0 failed")
        self.add("two", "echo PASS a; echo noise; echo FAIL b bad; "
                        "echo '    more'; echo '    again: lab/b'; echo busy >&2; "
                        "echo 1 passed, 1 failed; exit 1")
        status, lines, stderr = self.run_all()
        self.assertEqual((status, lines[-1]), (1, "2 passed, 1 failed"))
        self.assertIn("PASS one fine", lines)
        self.assertEqual(lines[lines.index("FAIL b bad") + 1], "    more")
        self.assertNotIn("noise", lines)
        self.assertEqual(lines[-3:-1], ["  FAIL b bad", "      again: lab/b"])
        self.assertIn("two: busy", stderr)
        self.assertIn("there is no build/1.0/linux", lines)
        self.assertIn("noise",
                      (self.top / "build/1.0/logs/check-two.log").read_text())

    def test_failures_stay_together(self):
        self.add("one", "sleep 0.5; echo PASS one; echo 1 passed, 0 failed")
        self.add("two", "echo FAIL b bad; sleep 1; echo '    more'; "
                        "echo 0 passed, 1 failed; exit 1")
        _, lines, _ = self.run_all()
        self.assertEqual(lines[lines.index("FAIL b bad") + 1], "    more")

    def test_all_passed(self):
        self.add("one", "echo PASS one; echo 1 passed, 0 failed")
        self.assertEqual(self.run_all()[0], 0)

    def test_where_the_time_went(self):
        """A check, with what it started; of that what it says is one kind."""
        work = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; "
        self.add("one", f"bash -c '{work}'; echo booting 70 >>$COSTS; "
                        "echo building 2 >>$COSTS; echo building 8 >>$COSTS; "
                        "echo PASS one; echo 1 passed, 0 failed")
        self.add("two", "sleep 1; echo PASS two; echo 1 passed, 0 failed")
        lines = self.run_all()[1]
        at = lines.index("    CPU  building  booting  seconds")
        one, two, both = (line.split() for line in lines[at + 1:at + 4])
        self.assertEqual((one[4], one[1:3]), ("one", ["10", "70"]))
        self.assertEqual((two[4], two[1:3]), ("two", ["0", "0"]))
        self.assertEqual((both[4], both[1:3]), ("all", ["10", "70"]))
        self.assertGreaterEqual(int(both[0]), int(one[0]))
        # Both at once.
        self.assertGreaterEqual(int(both[3]), max(int(one[3]), int(two[3])))
        self.assertLessEqual(int(both[3]), int(one[3]) + int(two[3]) + 1)

    def test_stopped(self):
        """Says where the time went until then, and leaves nothing that runs."""
        self.add("one", "echo booting 70 >>$COSTS; echo PASS one; echo 1 passed, 0 failed")
        # One that heeds the signal, and one that does not.
        for name, trap in ("two", ":"), ("three", "trap '' TERM"):
            self.add(name, f"{trap}; echo FAIL {name} bad; echo '    again: lab/{name}'\n"
                           f"sleep 1000 & echo $! >{self.top}/{name}.pid; wait")
        pids = [self.top / f"{name}.pid" for name in ("two", "three")]
        # It is there when one has ended.
        duration = self.top / "build/1.0/durations/checks/one"
        for number in signal.SIGINT, signal.SIGTERM:
            for file in (*pids, duration):
                file.unlink(missing_ok=True)
            with self.subTest(number=number), subprocess.Popen(
                    [self.top / "checks/all"], stdout=subprocess.PIPE, text=True,
                    stderr=subprocess.DEVNULL) as run:
                while not (duration.exists()
                           and all(pid.exists() and pid.read_text() for pid in pids)):
                    time.sleep(0.1)
                run.send_signal(number)
                lines = run.stdout.read().splitlines()
                self.assertEqual(run.wait(), 1)
                self.assertIn("    CPU  building  booting  seconds", lines)
                self.assertIn(["0", "70"], [line.split()[1:3] for line in lines])
                self.assertIn("      again: lab/two", lines)
                self.assertEqual(lines[-2:], [
                    f"  stopped by {number.name}: 1 of 3 checks had ended, not three, two",
                    "1 passed, 2 failed"])
                for pid in pids:
                    # Whom nobody waits for stays as a zombie where init waits for none.
                    stat = Path(f"/proc/{pid.read_text().strip()}/stat")
                    self.assertTrue(not stat.exists()
                                    or stat.read_text().rpartition(")")[2].split()[0] == "Z")

    def test_longest_first(self):
        """Of the last time; first of all what never ran. What fails is not remembered."""
        begun = self.top / "begun"
        for name, seconds in ("a", 0), ("b", 0.3), ("c", 0.6):
            self.add(name, f"echo {name} >>{begun}; sleep {seconds}; echo PASS {name}; "
                           "echo 1 passed, 0 failed")
        # One at a time.
        (self.top / "sitecustomize.py").write_text("import os\nos.cpu_count = lambda: 0\n")
        with unittest.mock.patch.dict(os.environ, PYTHONPATH=str(self.top)):
            self.run_all()
            self.add("d", f"echo d >>{begun}; echo FAIL d; echo 0 passed, 1 failed; exit 1")
            for _ in range(2):
                self.run_all()
        self.assertEqual(begun.read_text().split(), [*"abc", *"dcba", *"dcba"])

    def test_long_ones_when_named(self):
        self.add("one", "echo PASS one; echo 1 passed, 0 failed")
        self.add("long/two", "echo PASS two; echo 1 passed, 0 failed")
        self.assertNotIn("PASS two", self.run_all()[1])
        lines = self.run_all("two")[1]
        self.assertIn("PASS two", lines)
        self.assertNotIn("PASS one", lines)

    def test_skipped(self):
        """What the base skips runs when it is named; the base cannot skip what is none."""
        for name in "one", "two":
            self.add(name, f"echo PASS {name}; echo 1 passed, 0 failed")
        self.base("two")
        self.assertNotIn("PASS two", self.run_all()[1])
        self.assertIn("PASS one", self.run_all()[1])
        self.assertIn("PASS two", self.run_all("two")[1])
        self.base("three")
        self.assertIn("base 1.0: skip_checks: no check 'three'", self.complaint())

    def test_what_does_not_fit(self):
        """A check that dies, counts wrong, says nothing or ends otherwise."""
        for text in ("echo PASS one; exit 1",
                     "echo PASS one; echo 1 passed, 0 failed; exit 1",
                     "echo PASS one; echo 2 passed, 0 failed",
                     "echo FAIL one; echo 0 passed, 1 failed",
                     "echo 0 passed, 0 failed", ":",
                     "echo 1 passed, 0 failed", "kill -9 $$"):
            with self.subTest(text=text):
                self.add("one", text)
                status, lines, _ = self.run_all()
                self.assertEqual(status, 1)
                self.assertIn("FAIL one", "\n".join(lines))
                if "FAIL one" not in text:
                    self.assertIn("    again: checks/one", lines)
                self.assertNotIn(", 0 failed", lines[-1])

    def test_again_names_the_base(self):
        """Of another base than the default, which the command has to choose."""
        self.add("one", "exit 1")
        shutil.copytree(self.top / "patches/1.0", self.top / "patches/2.0")
        with mock.patch.dict(os.environ, BASE="2.0"):
            self.assertIn("    again: BASE=2.0 checks/one", self.run_all()[1])

    def complaint(self, *names):
        status, lines, stderr = self.run_all(*names)
        self.assertEqual((status, lines, stderr.count("\n")), (2, [], 1), stderr)
        return stderr

    def test_two_of_one_name(self):
        for other in "long/one", "one.py":
            self.add("one", "")
            self.add(other, "")
            with self.subTest(other=other):
                text = self.complaint()
                self.assertIn("two checks are called one", text)
                self.assertIn(other, text)
            (self.top / "checks" / other).unlink()

    def test_not_executable(self):
        self.add("one", "", 0o644)
        self.assertIn("one is not executable", self.complaint())

    def test_unknown(self):
        self.add("one", "")
        self.assertIn("no check 'two', choose from: one", self.complaint("two"))


class ResultSh(unittest.TestCase):
    """What a check in bash says."""

    def run_check(self, text, default="1.0"):
        """Of one that sources result.sh: status and lines of stdout."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "lab/host").mkdir(parents=True)
            shutil.copy(TOP / "lab/host/result.sh", f"{folder}/lab/host")
            (Path(folder) / "scripts").mkdir()
            base = Path(folder) / "scripts/base"
            base.write_text("#!/bin/sh\necho 1.0\n")
            base.chmod(0o755)
            (Path(folder) / "patches").mkdir()
            (Path(folder) / "patches/default").write_text(f"{default}\n")
            check = Path(folder) / "checks/long/one"
            check.parent.mkdir(parents=True)
            check.write_text("set -euo pipefail\n"
                             f". {folder}/lab/host/result.sh\n{text}\n")
            done = subprocess.run(["bash", check], text=True, check=False,
                                  stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
            self.assertEqual(list((Path(folder) / "build").iterdir()), [])
        return done.returncode, done.stdout.splitlines()

    def test_passed(self):
        status, lines = self.run_check("passed 'all fine'")
        self.assertEqual((status, lines[1:]), (0, ["1 passed, 0 failed"]))
        self.assertRegex(lines[0], "^PASS one +all fine$")

    def test_failed(self):
        for text, why in (("fail bad", "bad"), ("false", "ended early"),
                          ("exit 0", "ended early"), (":", "ended early"),
                          ("(exit 2)", "ended early")):
            with self.subTest(text=text):
                status, lines = self.run_check(text)
                self.assertEqual((status, lines[1:]), (
                    1, ["    again: checks/long/one", "0 passed, 1 failed"]))
                self.assertRegex(lines[0], f"^FAIL one +{why}")

    def test_other_base(self):
        self.assertEqual(self.run_check("false", "2.0")[1][1],
                         "    again: BASE=1.0 checks/long/one")


class KvmStats(unittest.TestCase):
    """checks/kvm-stats, of tests of our own."""

    def why(self, *said):
        """What is said of tests that say this and fail."""
        with tempfile.TemporaryDirectory() as folder:
            top = Path(folder)
            for file, text in (("scripts/base", "#!/bin/sh\necho 1.0\n"),
                               ("scripts/install-packages", "#!/bin/sh\n"),
                               ("patches/default", "1.0\n"),
                               ("kvm-stats/lib/make-statistics", "#!/bin/sh\n"),
                               ("kvm-stats/tests/statistics", "#!/bin/sh\n"),
                               ("kvm-stats/Makefile", "check:\n\t@cat said; exit 1\n"),
                               ("kvm-stats/said", "".join(f"{line}\n" for line in said))):
                (top / file).parent.mkdir(parents=True, exist_ok=True)
                (top / file).write_text(text)
                (top / file).chmod(0o755)
            for file in "lab/host/result.sh", "checks/kvm-stats":
                (top / file).parent.mkdir(parents=True)
                shutil.copy(TOP / file, top / file)
            done = subprocess.run([top / "checks/kvm-stats"], text=True, check=False,
                                  capture_output=True)
        self.assertEqual((done.returncode, done.stdout.splitlines()[1]),
                         (1, "    again: checks/kvm-stats"))
        return done.stdout.splitlines()[0].split(maxsplit=2)[2]

    def test_first(self):
        self.assertEqual(self.why("# one", "ok 1", "# two", "ok 1", "not ok 2 x", "# three",
                                  "not ok 1 y"), "two: not ok 2 x")

    def test_not_built(self):
        self.assertIn("was not built", self.why("x.c:1: error: y"))


class UnitTests(Repository):
    """checks/unit-tests, of a repository with tests of our own."""

    def setUp(self):
        super().setUp()
        for base in (TOP / "patches").glob("*"):
            if not base.is_dir():
                (self.top / "patches").mkdir(exist_ok=True)
                shutil.copy(base, self.top / "patches")
            elif (base / "base").is_file():
                (self.top / "patches" / base.name).mkdir(parents=True)
                shutil.copy(base / "base", self.top / "patches" / base.name)
        for room in "checks", "tests":
            (self.top / room).mkdir()
        shutil.copy(TOP / "checks/unit-tests", self.top / "checks")

    def said(self, **files):
        """Status and lines of stdout; files: the methods of a class each."""
        for name, methods in files.items():
            path = self.top / f"tests/{name}.py"
            path.write_text("#!/usr/bin/python3\nimport unittest\n"
                            f"class T(unittest.TestCase):\n    {methods}\n"
                            "if __name__ == '__main__':\n    unittest.main()\n")
            path.chmod(0o755)
        done = subprocess.run([self.top / "checks/unit-tests"], capture_output=True,
                              text=True, check=False)
        return done.returncode, done.stdout.splitlines()

    def test_passed(self):
        status, lines = self.said(test_a="test_x = test_y = lambda self: None")
        self.assertEqual((status, lines[1]), (0, "1 passed, 0 failed"))
        self.assertRegex(lines[0], "^PASS tests/test_a.py +2 tests$")

    def test_first(self):
        """What failed first, also in a part of a test, and that can be run."""
        for methods in ("def test_b(self): self.fail('broken')",
                        "def test_b(self):\n        with self.subTest('s'): 1 / 0",
                        "def test_b(self): raise OSError"):
            status, lines = self.said(
                test_a="test_x = lambda self: None",
                test_c=f"{methods}\n    def test_c(self): self.fail()")
            self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"))
            self.assertRegex(lines[1], r"^FAIL tests/test_c.py +2 of 2 failed, "
                                       r"the first one is test_b \(test_c.T.test_b\)")
            self.assertEqual(lines[-2], "    again: tests/test_c.py T.test_b")
            again = subprocess.run(["bash", "-c", lines[-2].partition("again: ")[2]],
                                   cwd=self.top, capture_output=True, text=True,
                                   check=False)
            self.assertEqual(again.returncode, 1)
            self.assertIn("Ran 1 test ", again.stderr)

    def test_none(self):
        """A file with nothing in it, and one that cannot be loaded."""
        for methods in "pass", "!":
            status, lines = self.said(test_a=methods)
            self.assertEqual((status, lines[-2:]), (
                1, ["    again: tests/test_a.py", "0 passed, 1 failed"]))


class Arguments(unittest.TestCase):
    """Checks take none, or the names of what there is: one line and exit status 2."""

    def test_arguments(self):
        for check in sorted((TOP / "checks").iterdir()):
            if check.is_dir():
                continue
            with self.subTest(check=check.name):
                done = subprocess.run([check, "nonsense"], capture_output=True,
                                      text=True, check=False)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertLessEqual(done.stderr.count("\n"), 2)

    def test_names(self):
        for check in "consumers", "pv-perf", "debian-kernels":
            done = subprocess.run([TOP / "checks" / check, "trixie", "nonsense"],
                                  capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, rf"^checks/{check}: no release 'nonsense', "
                                          r"choose from: bookworm trixie\b.*\n$")

    def test_chosen(self):
        for typed, taken in ([], ["a", "b"]), (["b"], ["b"]), (["b", "a"], ["a", "b"]):
            with mock.patch.object(sys, "argv", ["x", *typed]):
                self.assertEqual(steps.Arguments().names("thing", ("a", "b")), taken)
        for typed, taken in ([], ["a"]), (["b"], ["b"]), (["b", "a"], ["a", "b"]):
            with mock.patch.object(sys, "argv", ["x", *typed]):
                self.assertEqual(steps.Arguments().names("thing", ("a", "b"), ("b",)), taken)


if __name__ == "__main__":
    unittest.main()
