# SPDX-License-Identifier: GPL-2.0-only
"""Tests of finding, running and summarizing checks, in a repository with fake checks."""

import contextlib
import errno
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from host import results, steps
from tools import TOP, load, run_refused


class Results(unittest.TestCase):
    """Output of checks in Python."""

    def report(self, *all_results, argv=("lab/checks/x",), **options):
        """Return the exit status and the output of a check with these results."""
        found = results.Results()
        with contextlib.redirect_stdout(io.StringIO()) as out, \
                mock.patch.object(sys, "argv", [str(TOP / argv[0]), *argv[1:]]):
            for result in all_results:
                found.report(*result, **options)
            status = found.end()
        return status, out.getvalue()

    def test_lines(self):
        self.assertEqual(self.report(("a", True, "fine"), ("b", False, "bad", "more")),
                         (1, f"ok     - {'a':30} fine\nnot ok - {'b':30} bad\n# more\n"
                             "# rerun: lab/checks/x\n1..2\n1 passed, 1 failed\n"))

    def test_rerun(self):
        """The command to rerun is the command line, or a given shorter one."""
        self.assertIn("\n# rerun: lab/checks/x one 'two three'\n",
                      self.report(("a", False), argv=("lab/checks/x", "one", "two three"))[1])
        self.assertIn("\n# rerun: lab/run one\n",
                      self.report(("a", False), rerun="lab/run one")[1])
        with mock.patch.object(results.base_file, "NAME", "other"):
            self.assertIn("\n# rerun: BASE=other lab/run one\n",
                          self.report(("a", False), rerun="lab/run one")[1])

    def test_passed(self):
        self.assertEqual(self.report(("a", True))[0], 0)

    def test_nothing_tested(self):
        self.assertEqual(self.report(), (1, "1..0\n0 passed, 0 failed\n"))

    def test_skipped(self):
        """A skipped test is not a failure, but it is counted."""
        found = results.Results()
        with contextlib.redirect_stdout(io.StringIO()) as out:
            found.skip("a", "the mirror is away")
            self.assertEqual(found.end(), 0)
        self.assertEqual(out.getvalue(), f"ok     - {'a':30} # SKIP not run: the mirror is away\n"
                                         "1..1\n0 passed, 0 failed, 1 skipped\n")

    def test_check_that_ends_early(self):
        """A check whose packages are not delivered is skipped; other failed steps fail it, and a
        full disk is an error of the user's machine."""
        def check(error):
            with contextlib.redirect_stdout(io.StringIO()) as out, \
                    contextlib.redirect_stderr(io.StringIO()), \
                    self.assertRaises(SystemExit) as ended:
                results.Results()
                steps.main(mock.Mock(side_effect=error))
            return ended.exception.code, out.getvalue().splitlines()[-1:]

        self.enterContext(mock.patch.object(sys, "argv", [str(TOP / "lab/checks/x")]))

        self.assertEqual(check(steps.NotDelivered("E: 404")),
                         (0, ["0 passed, 0 failed, 1 skipped"]))
        self.assertEqual(check(steps.Failed("E: 404")), (1, []))
        self.assertEqual(check(OSError(errno.ENOSPC, "No space left on device")), (2, []))
        with self.assertRaises(OSError):
            steps.main(mock.Mock(side_effect=OSError(errno.EACCES, "Permission denied")))


class Repository(unittest.TestCase):
    """Base class: a repository with copies of scripts and lab."""

    def setUp(self):
        self.top = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for room in "lab", "scripts":
            shutil.copytree(TOP / room, self.top / room, symlinks=True,
                            ignore=shutil.ignore_patterns("checks", "tests"))


class All(Repository):
    """Tests of lab/check."""

    def setUp(self):
        super().setUp()
        (self.top / "patches/1.0").mkdir(parents=True)
        (self.top / "patches/default").write_text("1.0\n")
        (self.top / "patches/1.0/base").write_text(
            "package = p\nsuites = s\nversion = 1.0*\nkernels =\n"
            "debian_kernel =\n")
        (self.top / "patches/1.0/series").write_text("first\n")
        (self.top / "lab/checks/long").mkdir(parents=True)
        (self.top / "lab/checks/host").symlink_to("../host")
        self.write_tree_script("echo tree of $BASE")
        self.enterContext(mock.patch.dict(os.environ))
        for name in "BASE", "LINUX_SRC", "KERNELS":
            os.environ.pop(name, None)

    def write_tree_script(self, text):
        """Write scripts/tree."""
        (self.top / "scripts/tree").write_text(f"#!/bin/bash\n{text}\n")

    def add_base(self, name, like="1.0", **values):
        """Copy a base, with other values of some keys."""
        folder = self.top / "patches" / name
        shutil.copytree(self.top / "patches" / like, folder)
        text = (folder / "base").read_text()
        for key, value in values.items():
            text = re.sub(f"(?m)^{key} =.*$", f"{key} = {value}", text)
        (folder / "base").write_text(text)

    def add(self, name, text, mode=0o755):
        """Write a check in bash."""
        path = self.top / "lab/checks" / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(mode)

    def run_all(self, *names):
        """Run lab/check; return the exit status, the lines of stdout, and stderr."""
        done = subprocess.run([self.top / "lab/check", *names], text=True,
                              capture_output=True, check=False)
        return done.returncode, done.stdout.splitlines(), done.stderr

    def test_adds_up(self):
        self.add("one", "echo ok - one fine; echo 1 passed, 0 failed")
        self.add("two", "echo ok - a; echo noise; echo not ok - b bad; "
                        "echo '# more'; echo '# rerun: lab/b'; echo busy >&2; "
                        "echo 1 passed, 1 failed; exit 1")
        status, lines, stderr = self.run_all()
        self.assertEqual((status, lines[-1]), (1, "2 passed, 1 failed"))
        self.assertIn("ok - one fine", lines)
        self.assertEqual(lines[lines.index("not ok - b bad") + 1], "# more")
        self.assertNotIn("noise", lines)
        self.assertEqual(lines[-3:-1], ["  not ok - b bad", "  # rerun: lab/b"])
        self.assertIn("two: busy", stderr)
        self.assertIn("tree of 1.0", lines)
        self.assertIn("noise",
                      (self.top / "build/1.0/logs/check-two.log").read_text())

    def test_commands_of_pages(self):
        """A check that prints no result for a command that it was to run fails."""
        (self.top / "README.md").write_text("<!-- run by: one -->\n    make\n")
        self.add("one", "echo ok - one fine; echo 1 passed, 0 failed")
        status, lines, _ = self.run_all()
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"))
        self.assertIn("has not run the commands in README.md:2: make", "\n".join(lines))
        self.add("one", "echo ok - README.md:2 make; echo 1 passed, 0 failed")
        self.assertEqual(self.run_all()[0], 0)

    def test_failures_stay_together(self):
        self.add("one", "sleep 0.5; echo ok - one; echo 1 passed, 0 failed")
        self.add("two", "echo not ok - b bad; sleep 1; echo '# more'; "
                        "echo 0 passed, 1 failed; exit 1")
        _, lines, _ = self.run_all()
        self.assertEqual(lines[lines.index("not ok - b bad") + 1], "# more")

    def test_all_passed(self):
        self.add("one", "echo ok - one; echo 1 passed, 0 failed")
        self.assertEqual(self.run_all()[0], 0)

    def test_where_the_time_went(self):
        """The CPU time of a check includes its children; building and booting are shown apart."""
        work = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; "
        self.add("one", f"bash -c '{work}'; echo booting 70 >>$COSTS; "
                        "echo building 2 >>$COSTS; echo building 8 >>$COSTS; "
                        "echo ok - one; echo 1 passed, 0 failed")
        self.add("two", "sleep 1; echo ok - two; echo 1 passed, 0 failed")
        lines = self.run_all()[1]
        at = lines.index("    CPU  building  booting  seconds")
        rows = {" ".join(words[4:]): words[:4] for words in map(str.split, lines[at + 1:at + 5])}
        self.assertEqual(list(rows)[-1], "all")
        self.assertEqual({name: row[1:3] for name, row in rows.items()}, {
            "1.0 one": ["10", "70"], "1.0 two": ["0", "0"], "1.0 tree": ["0", "0"],
            "all": ["10", "70"]})
        self.assertGreaterEqual(int(rows["all"][0]), int(rows["1.0 one"][0]))

    def test_time_of_all(self):
        """The duration of parallel checks is the time from the first start to the last end."""
        module = load("lab/check")
        runs = [mock.Mock(cost=cost, costs={"building": 1, "booting": 2}, began=began,
                          ended=ended, title=title)
                for cost, began, ended, title in ((5, 100, 130, "a"), (9, 110, 150, "b"))]
        self.assertEqual([line.split() for line in module.format_table(runs)][1:], [
            ["9", "1", "2", "40", "b"], ["5", "1", "2", "30", "a"],
            ["14", "2", "4", "50", "all"]])

    def test_stopped(self):
        """After a signal, the times are printed, and no process remains."""
        self.add("one", "echo booting 70 >>$COSTS; echo ok - one; echo 1 passed, 0 failed")
        # One check exits on the signal, the other one ignores it.
        for name, trap in ("two", ":"), ("three", "trap '' TERM"):
            self.add(name, f"{trap}; echo not ok - {name} bad; echo '# rerun: lab/{name}'\n"
                           f"sleep 1000 & echo $! >{self.top}/{name}.pid; wait")
        pids = [self.top / f"{name}.pid" for name in ("two", "three")]
        # This file exists after the first check has ended.
        duration = self.top / "build/1.0/durations/checks/one"
        for number in signal.SIGINT, signal.SIGTERM:
            for file in (*pids, duration):
                file.unlink(missing_ok=True)
            with self.subTest(number=number), subprocess.Popen(
                    [self.top / "lab/check"], stdout=subprocess.PIPE, text=True,
                    stderr=subprocess.DEVNULL) as run:
                while run.poll() is None and not (duration.exists() and all(
                        pid.exists() and pid.read_text() for pid in pids)):
                    time.sleep(0.1)
                run.send_signal(number)
                lines = run.stdout.read().splitlines()
                self.assertEqual(run.wait(), 1)
                self.assertIn("    CPU  building  booting  seconds", lines)
                self.assertIn(["0", "70"], [line.split()[1:3] for line in lines])
                self.assertIn("  # rerun: lab/two", lines)
                self.assertEqual(lines[-1], "1 passed, 2 failed")
                self.assertEqual(lines[-2], f"  stopped by {number.name}: 1 of 3 checks had "
                                            "ended, not 1.0 three, 1.0 two")
                for pid in pids:
                    # The process may be a zombie if init does not reap orphans.
                    stat = Path(f"/proc/{pid.read_text().strip()}/stat")
                    self.assertTrue(not stat.exists()
                                    or stat.read_text().rpartition(")")[2].split()[0] == "Z")

    def test_longest_first(self):
        """Checks that never ran start first, then the others, longest first.

        The duration of a failure is not recorded.
        """
        begun = self.top / "begun"
        for name in "abc":
            self.add(name, f"echo {name} >>{begun}; echo ok - {name}; echo 1 passed, 0 failed")
        self.add("d", f"echo d >>{begun}; echo not ok - d; echo 0 passed, 1 failed; exit 1")
        # Run one check at a time.
        (self.top / "sitecustomize.py").write_text("import os\nos.cpu_count = lambda: 0\n")
        with mock.patch.dict(os.environ, PYTHONPATH=str(self.top)):
            for _ in range(2):
                self.run_all()
                durations = self.top / "build/1.0/durations/checks"
                self.assertEqual(sorted(path.name for path in durations.iterdir()), [*"abc"])
                for name, seconds in ("a", 10), ("b", 30), ("c", 20):
                    (durations / name).write_text(f"1 {seconds}\n")
        self.assertEqual(begun.read_text().split(), [*"abcd", *"dbca"])

    def test_long_ones_when_named(self):
        self.add("one", "echo ok - one; echo 1 passed, 0 failed")
        self.add("long/two", "echo ok - two; echo 1 passed, 0 failed")
        self.assertNotIn("ok - two", self.run_all()[1])
        lines = self.run_all("two")[1]
        self.assertIn("ok - two", lines)
        self.assertNotIn("ok - one", lines)

    def test_needs(self):
        """A check that does not apply to the base runs only if it is named."""
        self.add("one", "echo ok - one; echo 1 passed, 0 failed")
        patch = self.top / "patches/1.0/first/0001-a.patch"
        patch.parent.mkdir()
        patch.write_text("a\n---\n")
        for need in "series second", "debian_kernel", "upstream.toml", "kernels", "virt/new.c":
            with self.subTest(need=need):
                self.add("two", f"# Needs: series first, {need}\n"
                                "echo ok - two; echo 1 passed, 0 failed")
                lines = self.run_all()[1]
                self.assertIn("ok - one", lines)
                self.assertNotIn("ok - two", lines)
                self.assertIn("ok - two", self.run_all("two")[1])
        patch.write_text("a\n---\nNew-file: virt/new.c\n")
        (self.top / "patches/1.0/mutants").mkdir()
        for need in "no base", "series first", "mutants", "virt/new.c":
            with self.subTest(need=need):
                self.add("two", f"# Needs: {need}\necho ok - two; echo 1 passed, 0 failed")
                self.assertIn("ok - two", self.run_all()[1])

    def test_needs_of_kernels(self):
        """The check must be in used_by of a record, which the base can replace."""
        self.add("one", "echo ok - one; echo 1 passed, 0 failed")
        self.add("two", "# Needs: kernels\necho ok - two; echo 1 passed, 0 failed")
        base = self.top / "patches/1.0/base"
        base.write_text(base.read_text().replace("kernels =", "kernels = mips"))
        self.assertNotIn("ok - two", self.run_all()[1])
        (self.top / "patches/1.0/kernels").mkdir()
        (self.top / "patches/1.0/kernels/mips.record").write_text("used_by = bisect two\n")
        self.assertIn("ok - two", self.run_all()[1])

    def test_unknown_need(self):
        self.add("one", "# Needs: kernel mips")
        self.assertIn("lab/checks/one: unknown need 'kernel mips'", self.complaint())

    def test_what_does_not_fit(self):
        """A check fails if its output, its counts and its exit status don't match."""
        for text in ("echo ok - one; exit 1",
                     "echo ok - one; echo 1 passed, 0 failed; exit 1",
                     "echo ok - one; echo 2 passed, 0 failed",
                     "echo not ok - one; echo 0 passed, 1 failed",
                     "echo 0 passed, 0 failed", ":",
                     "echo 1 passed, 0 failed", "kill -9 $$"):
            with self.subTest(text=text):
                self.add("one", text)
                status, lines, _ = self.run_all()
                self.assertEqual(status, 1)
                self.assertIn("not ok - one", "\n".join(lines))
                if "not ok - one" not in text:
                    self.assertIn("# rerun: lab/checks/one", lines)
                self.assertNotIn(", 0 failed", lines[-1])

    def test_rerun_names_the_base(self):
        """The command to rerun selects the base if it is not the default."""
        self.add("one", "exit 1")
        self.add_base("2.0")
        with mock.patch.dict(os.environ, BASE="2.0"):
            self.assertIn("# rerun: BASE=2.0 lab/checks/one", self.run_all()[1])

    def test_bases(self):
        """Without BASE, a check runs for every base that it applies to, or once."""
        self.add_base("2.0", debian_kernel="d")
        self.add("one", "echo ok - one $BASE; echo 1 passed, 0 failed")
        self.add("two", "# Needs: debian_kernel\necho ok - two $BASE; echo 1 passed, 0 failed")
        self.add("three", "# Needs: no base\necho ok - three; echo 1 passed, 0 failed")
        def passed(*names, **env):
            with mock.patch.dict(os.environ, env):
                return sorted(line[5:] for line in self.run_all(*names)[1]
                              if line.startswith("ok "))
        self.assertEqual(passed(), ["one 1.0", "one 2.0", "three", "two 2.0"])
        self.assertEqual(passed(BASE="1.0"), ["one 1.0", "three"])
        self.assertEqual(passed("one", "two"), ["one 1.0", "two 2.0"])
        self.assertEqual(passed("one", BASE="2.0"), ["one 2.0"])

    def write_tiers(self, *rows):
        """Write lab/checks/tiers."""
        (self.top / "lab/checks/tiers").write_text("".join(f"{row}\n" for row in rows))

    def passed(self, *options, **env):
        """Return the texts of the passed results, sorted."""
        with mock.patch.dict(os.environ, env):
            return sorted(line[5:].rstrip() for line in self.run_all(*options)[1]
                          if line.startswith("ok "))

    def test_tiers(self):
        """A tier has the checks of its lines, for the bases and with the arguments there."""
        self.add_base("2.0", debian_kernel="d")
        self.add_base("3.0")
        for name, need in ("one", ""), ("two", "# Needs: debian_kernel"), ("three", "# Needs: no base"):
            self.add(name, f"{need}\necho ok - {name} $BASE $*; echo 1 passed, 0 failed")
        self.write_tiers("# A comment", "check - three", "check chosen one", "check chosen two",
                         "landing 2.0 one fast 4", "landing 2.0 one", "landing 3.0 one")
        self.assertEqual(self.passed("--tier", "check"), ["one 1.0", "three"])
        self.assertEqual(self.passed("--tier", "check", BASE="2.0"),
                         ["one 2.0", "three 2.0", "two 2.0"])
        self.assertEqual(self.passed("--tier", "landing"),
                         ["one 2.0", "one 2.0 fast 4", "one 3.0"])
        self.assertEqual(self.passed("--tier", "landing", BASE="3.0"), ["one 3.0"])
        self.assertEqual(len(self.passed()), 5)

    def test_tiers_need_no_old_suite(self):
        """No line of lab/checks/tiers needs a base whose source only check-all fetches."""
        lines = (TOP / "lab/checks/tiers").read_text().splitlines()
        self.assertLessEqual({line.split()[1] for line in lines if line and line[0] != "#"},
                             {"-", "chosen", "6.12", "7.3"})

    def test_order_of_a_tier(self):
        """The lines start in their order, except those that wait for their tree."""
        begun = self.top / "begun"
        self.write_tree_script(f"until [ -e {begun} ]; do sleep 0.1; done; echo tree")
        self.add("one", f"echo one >>{begun}; echo ok - one; echo 1 passed, 0 failed")
        for name in "two", "three":
            self.add(name, f"# Needs: no base\necho {name} >>{begun}; echo ok - {name}; "
                           "echo 1 passed, 0 failed")
        self.write_tiers("check chosen one", "check - two", "check - three")
        # Two workers, one of which makes the tree.
        (self.top / "sitecustomize.py").write_text("import os\nos.cpu_count = lambda: 1\n")
        with mock.patch.dict(os.environ, PYTHONPATH=str(self.top)):
            lines = self.run_all("--tier", "check")[1]
        self.assertEqual(begun.read_text().split()[0], "two")
        self.assertEqual(sorted(begun.read_text().split()), ["one", "three", "two"])
        self.assertEqual(lines[-1], "3 passed, 0 failed")
        self.assertIn("1.0 tree", [" ".join(line.split()[4:]) for line in lines])

    def prepare_records(self, *checks):
        """Turn the repository into one of git whose checks declare inputs, with a tree.

        The packages are invented: other checks install real ones while this test runs.
        """
        os.environ["XDG_CACHE_HOME"] = str(self.top / "cache")
        self.add_dpkg("Status: no package")
        tree = self.top / "build/1.0/linux"
        self.write_tree_script(f"mkdir -p {tree}; cd {tree}; [ -d .git ] || git init -q; "
                               f"cp {self.top}/patches/1.0/series .; git add .; git "
                               "-c user.name=a -c user.email=a@b commit -qm x; echo tree")
        for name in checks:
            self.add(name, f"# Inputs: data\necho ok - {name}; echo 1 passed, 0 failed")
        (self.top / "data").write_text("1")
        (self.top / ".gitignore").write_text("/build/\n/cache/\n__pycache__/\n")
        subprocess.run(["git", "init", "-q"], cwd=self.top, check=True)
        self.write_tiers(*(f"check chosen {name}" for name in checks))

    def run_tier(self, runs_anyway=None):
        """Run the tier; return the checks that ran, the last line, and the line about others.

        runs_anyway: the check that runs although it has passed.
        """
        (self.top / "sitecustomize.py").write_text(
            "import random\n"
            f"random.choice = lambda runs: ([run for run in runs if run.path.stem == "
            f"{runs_anyway!r}] or [None])[0]\n")
        with mock.patch.dict(os.environ, PYTHONPATH=str(self.top)):
            _, lines, _ = self.run_all("--tier", "check")
        ran = sorted({line.split("- ")[1] for line in lines
                      if re.match("(not )?ok - ", line) and "SKIP" not in line})
        return ran, lines[-1], next((line for line in lines if "had passed" in line), "")

    def test_passed_before(self):
        """A check of a tier runs again only if an input changed: a file, the tree, a package."""
        self.prepare_records("one", "two")
        self.add("three", "echo ok - three; echo 1 passed, 0 failed")
        self.write_tiers("check chosen one", "check chosen two", "check chosen three")
        everything = ["one", "three", "two"]
        self.assertEqual(self.run_tier(), (everything, "3 passed, 0 failed", ""))
        self.assertEqual(self.run_tier(), (
            ["three"], "1 passed, 0 failed", "1 of 3 checks ran, 2 had passed with the same "
            "inputs, with 2 results: 1.0 one, 1.0 two"))
        self.assertEqual(self.run_tier("two")[0], ["three", "two"])
        for change in (lambda: (self.top / "data").write_text("2"),
                       lambda: (self.top / "scripts/new").write_text("not added"),
                       lambda: (self.top / "patches/1.0/series").write_text("first\nsecond\n"),
                       lambda: self.add_dpkg("Status: a package was installed")):
            change()
            self.assertEqual(self.run_tier()[0], everything)
            self.assertEqual(self.run_tier()[0], ["three"])
        with mock.patch.dict(os.environ, BASE="1.0"):
            self.assertEqual(self.run_tier()[0], ["three"])
        (self.top / "unrelated").write_text("2")
        self.assertEqual(self.run_tier()[0], ["three"])

    def add_dpkg(self, text):
        """Replace dpkg-query by a program that prints this text."""
        path = self.top / "cache/bin/dpkg-query"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\necho '{text}'\n")
        path.chmod(0o755)
        os.environ["PATH"] = f"{path.parent}:{os.environ['PATH']}"

    def test_not_passed(self):
        """A failed, skipped or unreadable result, or an edited tree, does not count as passed."""
        self.prepare_records("one", "two", "three")
        self.add("one", "# Inputs: data\necho not ok - one; echo '# rerun: x'; "
                        "echo 0 passed, 1 failed; exit 1")
        self.add("two", "# Inputs: data\necho 'ok - two # SKIP not run: x'; echo ok - b; "
                        "echo 1 passed, 0 failed, 1 skipped")
        self.assertEqual(self.run_tier()[0], ["b", "one", "three"])
        self.assertEqual(self.run_tier()[0], ["b", "one"])
        (self.top / "cache/kvm-stats-lab/passed/1.0 three").write_text("one")
        self.assertEqual(self.run_tier()[0], ["b", "one", "three"])
        self.assertEqual(self.run_tier()[0], ["b", "one"])
        self.write_tree_script(f"echo x >>{self.top}/build/1.0/linux/series; echo tree")
        self.assertEqual(self.run_tier()[0], ["b", "one", "three"])
        self.assertEqual(self.run_tier()[0], ["b", "one", "three"])

    def test_flaky(self):
        """A check of a tier that fails runs once more; failures that do not repeat come last."""
        runs, log = self.top / "runs", self.top / "boot.log"
        second = f"echo run >>{runs}; if [ $(wc -l <{runs}) -gt 1 ]; then "
        self.add("one", f"{second} echo ok - a; echo ok - b; echo 2 passed, 0 failed; exit; fi; "
                        f"echo first >{log}; echo 'ok - a'; echo 'not ok - b bad (log: {log})'; "
                        "echo '# rerun: lab/b'; echo 1 passed, 1 failed; exit 1")
        self.add("two", "echo ok - two; echo 1 passed, 0 failed")
        self.write_tiers("check chosen one", "check chosen two")
        status, lines, _ = self.run_all("--tier", "check")
        self.assertEqual((status, lines[-4:]), (0, [
            f"FLAKY b bad (log: {log})", "# rerun: lab/b",
            "# log of the failure: the file above, with .first", "3 passed, 0 failed"]))
        self.assertEqual(log.with_suffix(".log.first").read_text(), "first\n")
        # Without a tier nothing is repeated.
        runs.unlink()
        self.assertEqual(self.run_all()[1][-1], "2 passed, 1 failed")
        self.assertEqual(runs.read_text(), "run\n")

    def test_flaky_does_not_count_as_passed(self):
        """A failure that did not repeat is not a passed run; other ones in the repetition fail."""
        self.prepare_records("one", "two")
        runs = self.top / "cache/runs"
        self.add("one", f"# Inputs: data\necho run >>{runs}; n=$(wc -l <{runs}); "
                        "[ $n = 2 ] && echo ok - one && echo 1 passed, 0 failed && exit; "
                        "echo not ok - $n; echo '# rerun: x'; echo 0 passed, 1 failed; exit 1")
        self.assertEqual(self.run_tier()[1], "2 passed, 0 failed")
        status, lines, _ = self.run_all("--tier", "check")
        self.assertEqual((status, lines[-3:-1], runs.read_text().count("run")), (
            1, ["FLAKY 3", "# rerun: x"], 4))
        self.assertIn("  not ok - 4", lines)

    def test_contradiction(self):
        """If a check fails that has passed with these inputs, all records are deleted."""
        self.prepare_records("one", "two")
        undeclared = self.top / "cache/undeclared"
        self.add("one", f"# Inputs: data\n! [ -e {undeclared} ] || {{ echo not ok - one; "
                        "echo '# rerun: x'; echo 0 passed, 1 failed; exit 1; }; "
                        "echo ok - one; echo 1 passed, 0 failed")
        self.assertEqual(self.run_tier()[0], ["one", "two"])
        undeclared.write_text("")
        self.assertEqual(self.run_tier()[1:], ("0 passed, 0 failed", mock.ANY))
        self.assertEqual(self.run_tier("one")[1], "0 passed, 1 failed")
        self.assertEqual(self.run_tier()[0], ["one", "two"])

    def test_bad_tiers(self):
        """A line that cannot be carried out is reported in one line, before anything runs."""
        self.add("one", "echo ok - one; echo 1 passed, 0 failed")
        self.add("two", "# Needs: no base")
        self.add("three", "# Needs: debian_kernel")
        for row, words in (("check one", "not 'TIER BASE CHECK [ARGUMENT...]'"),
                           ("weekly chosen one", "a tier from: check landing"),
                           ("check chosen four", "no check 'four'"),
                           ("check 9.9 one", "no base '9.9', choose from: chosen - 1.0"),
                           ("check - one", "base '-' does not fit"),
                           ("check chosen two", "base 'chosen' does not fit"),
                           ("check 1.0 three", "base 1.0 has no debian_kernel"),
                           ("check 1.0 one\ncheck chosen one", "check runs one twice")):
            with self.subTest(row=row):
                self.write_tiers(row)
                text = self.complaint("--tier", "check")
                self.assertIn(f"lab/checks/tiers{'' if 'twice' in words else ':1'}: ", text)
                self.assertIn(words, text)
        self.assertIn("invalid choice: 'weekly'", self.complaint("--tier", "weekly"))
        self.write_tiers("check chosen one")
        self.assertIn("--tier takes no check", self.complaint("--tier", "check", "one"))

    def test_skipped(self):
        """Skipped tests are listed and counted; only a run of all checks then fails."""
        self.add("one", "echo ok - one; echo 1 passed, 0 failed")
        self.add("two", "echo 'ok - two # SKIP not run: E: 404'; echo 0 passed, 0 failed, 1 skipped")
        self.write_tiers("check chosen one", "check chosen two")
        for options, expected in ((), 1), (("--tier", "check"), 0), (("two",), 1):
            with self.subTest(options=options):
                status, lines, _ = self.run_all(*options)
                self.assertEqual((status, lines[-1]), (
                    expected, f"{options != ('two',):d} passed, 0 failed, 1 skipped"))
                self.assertEqual(lines[-2], "  ok - two # SKIP not run: E: 404")

    def test_list(self):
        """--list prints the checks in order, with the costs of the last run."""
        for name in "one", "two", "three":
            self.add(name, f"# Needs: no base\necho ok - {name}; echo 1 passed, 0 failed")
        self.assertEqual([line.split() for line in self.run_all("--list")[1]],
                         [["CPU", "seconds"], *(["?", "?", name] for name in ("one", "three", "two"))])
        folder = self.top / "build/1.0/durations/checks"
        folder.mkdir(parents=True)
        for name, costs in ("one", "300 200"), ("two", "400 300"):
            (folder / name).write_text(costs)
        self.assertEqual([line.split() for line in self.run_all("--list")[1]][1:],
                         [["?", "?", "three"], ["400", "300", "two"], ["300", "200", "one"]])
        self.assertFalse((self.top / "build/1.0/logs/check-one.log").exists())

    def test_kernels_first(self):
        """Before the first run, checks that build kernels start first."""
        self.add_base("2.0", kernels="mips")
        (self.top / "patches/2.0/kernels").mkdir()
        (self.top / "patches/2.0/kernels/mips.record").write_text("used_by = two\n")
        self.add("one", "")
        self.add("two", "# Needs: kernels")
        self.assertEqual([line.split()[2:] for line in self.run_all("--list")[1]][1:],
                         [["2.0", "two"], ["1.0", "one"], ["2.0", "one"]])

    def test_chosen_kernels(self):
        """KERNELS limits the check of the kernels to those that a base has."""
        self.add_base("2.0", kernels="mips ppc32")
        self.add("kernels", "echo ok - kernels $BASE $*; echo 1 passed, 0 failed")
        self.assertEqual(self.passed(KERNELS="ppc32"), ["kernels 2.0 ppc32"])
        self.assertEqual(self.passed(), ["kernels 1.0", "kernels 2.0"])

    def test_vanished_base(self):
        """If a mirror does not deliver a base, its checks are skipped and the other bases run."""
        self.add_base("2.0")
        self.add("one", "echo ok - one $BASE; echo 1 passed, 0 failed")
        self.write_tiers("check chosen one", "landing 1.0 one", "landing 2.0 one")
        for script in ('echo "fetch-base: base 2.0: Debian no longer offers p in s; LINUX_SRC=TREE '
                       'names a source tree to use instead" >&2; exit 2',
                       'echo "fetch-base: base 2.0: p could not be fetched" >&2; exit 75'):
            with self.subTest(script=script):
                self.write_tree_script(f"[ $BASE = 2.0 ] || exit 0\n{script}")
                reason = re.search(": (base 2.0: .*)\"", script)[1]
                skipped = f"ok     - {'one':30} # SKIP not run: {reason}"
                status, lines, _ = self.run_all("--tier", "landing")
                self.assertEqual((status, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))
                self.assertEqual(sorted(lines[:2]), [skipped, "ok - one 1.0"])
                with mock.patch.dict(os.environ, BASE="2.0"):
                    status, lines, _ = self.run_all("--tier", "check")
                self.assertEqual((status, lines[0], lines[-1]),
                                 (1, skipped, "0 passed, 0 failed, 1 skipped"))

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
            (self.top / "lab/checks" / other).unlink()

    def test_not_executable(self):
        self.add("one", "", 0o644)
        self.assertIn("one is not executable", self.complaint())

    def test_unknown(self):
        self.add("one", "")
        self.assertIn("no check 'two', choose from: one", self.complaint("two"))


class ResultSh(unittest.TestCase):
    """Output of checks in bash."""

    def run_check(self, text, default="1.0"):
        """Return the exit status and the output of a check that sources result.sh."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "lab/host").mkdir(parents=True)
            shutil.copy(TOP / "lab/host/result.sh", f"{folder}/lab/host")
            (Path(folder) / "scripts").mkdir()
            base = Path(folder) / "scripts/base"
            base.write_text("#!/bin/sh\necho 1.0\n")
            base.chmod(0o755)
            (Path(folder) / "patches").mkdir()
            (Path(folder) / "patches/default").write_text(f"{default}\n")
            check = Path(folder) / "lab/checks/long/one"
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
        self.assertEqual((status, lines[1:]), (0, ["1..1", "1 passed, 0 failed"]))
        self.assertRegex(lines[0], "^ok     - one +all fine$")

    def test_failed(self):
        for text, why in (("fail bad", "bad"), ("false", "ended early"),
                          ("exit 0", "ended early"), (":", "ended early"),
                          ("(exit 2)", "ended early")):
            with self.subTest(text=text):
                status, lines = self.run_check(text)
                self.assertEqual((status, lines[1:]), (
                    1, ["# rerun: lab/checks/long/one", "1..1", "0 passed, 1 failed"]))
                self.assertRegex(lines[0], f"^not ok - one +{why}")

    def test_script(self):
        """A program that fails ends the check; it is skipped at status 75."""
        script = ("printf '%%s\\n' '#!/bin/bash' 'echo busy; echo gone >&2; exit $1' "
                  ">$top/scripts/two; chmod +x $top/scripts/two; run_script scripts/two %d; "
                  "passed fine")
        for expected, status, line in (
                (0, 0, "ok     - one +fine"), (75, 0, "ok     - one +# SKIP not run: gone"),
                (1, 1, "not ok - one +scripts/two failed: gone")):
            with self.subTest(status=expected):
                ended, lines = self.run_check(script % expected)
                self.assertEqual(ended, status)
                self.assertRegex(lines[0], f"^{line}$")

    def test_other_base(self):
        self.assertEqual(self.run_check("false", "2.0")[1][1],
                         "# rerun: BASE=1.0 lab/checks/long/one")


class KvmStats(unittest.TestCase):
    """Tests of lab/checks/kvm-stats with fake tests."""

    def get_reason(self, *said, status=1):
        """Return the result of the check if the tests end with this output and status."""
        with tempfile.TemporaryDirectory() as folder:
            top = Path(folder)
            for file, text in (("scripts/base", "#!/bin/sh\necho 1.0\n"),
                               ("lab/fetch/install-packages", "#!/bin/sh\n"),
                               ("patches/default", "1.0\n"),
                               ("kvm-stats/lib/make-statistics", "#!/bin/sh\n"),
                               ("kvm-stats/tests/statistics", "#!/bin/sh\n"),
                               ("kvm-stats/Makefile", f"check:\n\t@cat said; exit {status}\n"),
                               ("kvm-stats/README.md",
                                "<!-- run by: kvm-stats -->\n    make check\n"),
                               ("kvm-stats/said", "".join(f"{line}\n" for line in said))):
                (top / file).parent.mkdir(parents=True, exist_ok=True)
                (top / file).write_text(text)
                (top / file).chmod(0o755)
            shutil.copytree(TOP / "lab/host", top / "lab/host")
            (top / "lab/checks").mkdir()
            shutil.copy(TOP / "lab/checks/kvm-stats", top / "lab/checks")
            done = subprocess.run([top / "lab/checks/kvm-stats"], text=True, check=False,
                                  capture_output=True)
        self.assertEqual(done.returncode, 1)
        lines = done.stdout.splitlines()[-4:]
        self.assertEqual(lines[1:], ["# rerun: lab/checks/kvm-stats", "1..2",
                                     "0 passed, 2 failed" if status else "1 passed, 1 failed"])
        return lines[0].split(maxsplit=4)[4]

    def test_first(self):
        """The first test in the summary of prove is named."""
        self.assertEqual(self.get_reason(
            "[07:00:00] ./busy 101 one .. ", "ok 1 - a", "ok  9 ms", "./busy 102 two .. ", "not ok 2 x", "",
            "Test Summary Report", "-------------------", "./busy 102 two (Wstat: 0 Tests: 2 Failed: 1)",
            "  Failed test:  2", "./busy 103 three (Wstat: 0 Tests: 2 Failed: 1)", "  Failed test:  1",
            "Files=3, Tests=5, 1 wallclock secs", "Result: FAIL"),
            "./busy 102 two (Wstat: 0 Tests: 2 Failed: 1) Failed test: 2")

    def test_no_result(self):
        """Tests that print nothing have not passed."""
        self.assertEqual(self.get_reason("CC x.o", status=0), "the tests printed no result")

    def test_not_built(self):
        self.assertIn("build failed or tests aborted", self.get_reason("x.c:1: error: y"))


class UnitTests(Repository):
    """Tests of lab/checks/unit-tests in a repository with fake tests."""

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
            (self.top / "lab" / room).mkdir()
        (self.top / "lab/checks/host").symlink_to("../host")
        shutil.copy(TOP / "lab/checks/unit-tests", self.top / "lab/checks")

    def run_tests(self, **files):
        """Run files with these methods; return the exit status and the lines of stdout."""
        for name, methods in files.items():
            path = self.top / f"lab/tests/{name}.py"
            path.write_text("import unittest\n"
                            f"class T(unittest.TestCase):\n    {methods}\n")
        done = subprocess.run([self.top / "lab/checks/unit-tests"], capture_output=True,
                              text=True, check=False)
        return done.returncode, done.stdout.splitlines()

    def test_passed(self):
        status, lines = self.run_tests(test_a="test_x = test_y = lambda self: None")
        self.assertEqual((status, lines[1:]), (0, ["1..1", "1 passed, 0 failed"]))
        self.assertRegex(lines[0], "^ok     - lab/tests/test_a.py +2 tests$")

    def test_first(self):
        """The first failing test is reported, also for subtests, with a command to rerun it."""
        for methods in ("def test_b(self): self.fail('broken')",
                        "def test_b(self):\n        with self.subTest('s'): 1 / 0",
                        "def test_b(self): raise OSError"):
            status, lines = self.run_tests(
                test_a="test_x = lambda self: None",
                test_c=f"{methods}\n    def test_c(self): self.fail()")
            self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"))
            self.assertRegex(lines[1], r"^not ok - lab/tests/test_c.py +2 of 2 failed, "
                                       r"the first one is test_b \(test_c.T.test_b\)")
            self.assertEqual(lines[-3], "# rerun: PYTHONPATH=lab/tests "
                                        "python3 -m unittest test_c.T.test_b")
            rerun = subprocess.run(["bash", "-c", lines[-3].partition("rerun: ")[2]],
                                   cwd=self.top, capture_output=True, text=True,
                                   check=False)
            self.assertEqual(rerun.returncode, 1)
            self.assertIn("Ran 1 test ", rerun.stderr)

    def test_none(self):
        """Files without tests and files that fail to import are failures."""
        for methods in "pass", "!":
            status, lines = self.run_tests(test_a=methods)
            self.assertEqual((status, lines[-3:]), (
                1, ["# rerun: PYTHONPATH=lab/tests python3 -m unittest test_a", "1..1",
                    "0 passed, 1 failed"]))


class Arguments(unittest.TestCase):
    """Checks reject invalid arguments with one line and exit status 2."""

    def test_arguments(self):
        for check in sorted((TOP / "lab/checks").iterdir()):
            if check.is_dir() or check.name == "tiers":
                continue
            with self.subTest(check=check.name):
                run_refused(self, check, "nonsense")

    def test_names(self):
        for check in "consumers", "pv-perf", "debian-kernels":
            self.assertRegex(run_refused(self, f"lab/checks/{check}", "trixie", "nonsense"),
                             rf"^lab/checks/{check}: no release 'nonsense', "
                             r"choose from: bookworm trixie\b")

    def test_chosen(self):
        for typed, taken in ([], ["a", "b"]), (["b"], ["b"]), (["b", "a"], ["a", "b"]):
            with mock.patch.object(sys, "argv", ["x", *typed]):
                self.assertEqual(steps.Arguments().parse_names("thing", ("a", "b")), taken)
        for typed, taken in ([], ["a"]), (["b"], ["b"]), (["b", "a"], ["a", "b"]):
            with mock.patch.object(sys, "argv", ["x", *typed]):
                self.assertEqual(steps.Arguments().parse_names("thing", ("a", "b"), ("b",)), taken)
