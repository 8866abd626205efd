# SPDX-License-Identifier: GPL-2.0-only
"""The generated mutants of kvm-stats, and how lab/checks/long/program-mutants judges them."""

import contextlib
import io
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

from host import c_mutants, records, results
from tools import load, run_refused

program_mutants = load("lab/checks/long/program-mutants")

SOURCE = """\
#define LIMIT 5
/* if (x > 1) */
static int limit(int x)
{
	const char *text = "a > 1"; /* y == 2 */

	while (x > 1)
		x--;
	if (x && !text)
		return x + 1;
	report(x,
	       text);
	return 0;
}
"""


class Generate(unittest.TestCase):
    """The mutants of a C file."""

    def setUp(self):
        self.found = [(mutant.line, c_mutants.describe(mutant)) for mutant in c_mutants.generate(SOURCE)]

    def test_changes(self):
        for line, change in (
                (7, "while (x > 1) -> ;"), (7, "while (x > 1) -> while (x >= 1)"),
                (7, "while (x > 1) -> while (x > 2)"), (7, "while (x > 1) -> while (false)"),
                (8, "x--; -> ;"), (9, "if (x && !text) -> if (x || !text)"),
                (9, "if (x && !text) -> if (x)"), (9, "if (x && !text) -> if (!text)"),
                (9, "if (x && !text) -> if (x && text)"), (9, "if (x && !text) -> if (true)"),
                (10, "return x + 1; -> return x - 1;"), (10, "return x + 1; -> return 0;"),
                (11, "report(x, -> ;")):
            with self.subTest(change=change):
                self.assertIn((line, change), self.found)

    def test_comments_strings_and_declarations(self):
        """Comments, strings, preprocessor lines and declarations are not changed."""
        self.assertEqual({line for line, _ in self.found}, {7, 8, 9, 10, 11, 13})

    def test_lines_keep_their_numbers(self):
        for mutant in c_mutants.generate(SOURCE):
            changed = c_mutants.apply(mutant, SOURCE)
            self.assertNotEqual(changed, SOURCE)
            self.assertEqual(changed.count("\n"), SOURCE.count("\n"))
            self.assertEqual(mutant.function, "limit")

    def test_all_files(self):
        """Each C file of kvm-stats has mutants, all different."""
        for path in (records.TOP / "kvm-stats/lib").glob("*.c"):
            found = c_mutants.generate(path.read_text())
            self.assertEqual(len(found), len(set(found)))


class Choose(unittest.TestCase):
    """The groups of mutants that are named."""

    def choose(self, *names):
        """Return the files of each group."""
        arguments = types.SimpleNamespace(name=list(names), since=None, seed=1)
        return {group.name: group.files for group in program_mutants.choose(arguments)}

    def test_file_and_directory(self):
        found = self.choose("kvm-stats/src/sums.c", "src/serve/http/")
        self.assertEqual(found["src/sums.c"], {"src/sums.c"})
        self.assertEqual({str(Path(file).parent) for file in found["src/serve/http"]}, {"src/serve/http"})
        self.assertGreater(len(found["src/serve/http"]), 5)

    def test_all_directories(self):
        self.assertEqual(set(self.choose()), {"lib", "src", "src/bpf", "src/serve", "src/serve/http"})

    def test_unknown(self):
        for name in "src/no.c", "nowhere", "tests":
            with self.subTest(name=name), self.assertRaises(records.Invalid):
                self.choose(name)


class Run(unittest.TestCase):
    """A test with a mutant: it passes, fails, or hangs."""

    def setUp(self):
        top = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (top / "kvm-stats").mkdir()
        for name, value in ("OUT", top), ("COPY", top / "kvm-stats"), ("SLOWER", (0.1, 0.1)):
            self.enterContext(mock.patch.object(program_mutants, name, value))
        self.enterContext(mock.patch.object(program_mutants, "LEAST_SECONDS", (1, 1)))

    def test_results(self):
        for command, failure in (("true", None), ("echo ok 1", None), ("exit 1", "failed"),
                                 ("echo 'not ok 1'; sleep 60", "failed"), ("sleep 60", "hangs"),
                                 ("while true; do :; done", "hangs")):
            with self.subTest(command=command):
                test = program_mutants.Test(command, [])
                self.assertEqual(test.run("mutants", (0.1, 0.1))[0], failure)

    def test_leaks(self):
        """Scripts do not report leaks of commands, and programs of the tests do."""
        script = program_mutants.COPY / "script"
        script.write_text("#!/bin/sh\n[ \"$ASAN_OPTIONS\" = detect_leaks=0 ]\n")
        script.chmod(0o755)
        for command, expected in ("./script", True), ('[ -z "${ASAN_OPTIONS-}" ]', False):
            with self.subTest(command=command):
                test = program_mutants.Test(command, [])
                self.assertEqual(test.is_script, expected)
                self.assertIsNone(test.run("mutants", (0.1, 0.1))[0])


class Copy(unittest.TestCase):
    """The copy of kvm-stats that has the mutants."""

    def test_moved_file(self):
        """A file that was moved is not in the copy: make would compile it."""
        top = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(mock.patch.object(program_mutants, "COPY", top / "kvm-stats"))
        moved = top / "kvm-stats/src/serve/moved.c"
        moved.parent.mkdir(parents=True)
        moved.touch()
        program_mutants.copy_sources()
        self.assertFalse(moved.exists())
        self.assertEqual((top / "kvm-stats/Makefile").read_text(), (records.TOP / "kvm-stats/Makefile").read_text())


class Judge(unittest.TestCase):
    """Results are kept while the tests that they depend on do not change."""

    def setUp(self):
        self.top = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.top / "results").mkdir()
        (self.top / "mutants").mkdir()
        (self.top / "a.c").write_text(SOURCE)
        for name in "OUT", "COPY":
            self.enterContext(mock.patch.object(program_mutants, name, self.top))
        self.enterContext(mock.patch.object(program_mutants, "make", self.make))
        self.compiles = True
        self.inputs = {"cheap": "1", "slow": "2"}
        tests = [mock.Mock(programs=[]), mock.Mock(programs=[])]
        for test, name in zip(tests, self.inputs):
            test.name = name
            test.run.return_value = (None, (1, 1))
        self.tests = tests
        self.workshop = program_mutants.Workshop.__new__(program_mutants.Workshop)
        self.workshop.objects = {}
        self.workshop.unusable = set()
        self.workshop.coverage = mock.Mock(known={name: {"limits": (1, 1)} for name in self.inputs})
        self.workshop.coverage.list_tests.return_value = tests
        self.workshop.coverage.find_inputs.side_effect = lambda test: self.inputs[test.name]
        self.mutant = next(mutant for mutant in c_mutants.generate(SOURCE) if mutant.line == 8)

    def make(self, _build, *targets):
        """Compile: the object is the source."""
        if targets == ("a.o",):
            text = (self.top / "a.c").read_text()
            (self.top / "mutants/a.o").write_text(text)
            return int(not self.compiles and text != SOURCE), ""
        return 0, ""

    def judge(self, expected, runs):
        """Compare a result, and how often the tests have run for it."""
        for test in self.tests:
            test.run.reset_mock()
        self.assertEqual(self.workshop.judge("a.c", self.mutant), expected)
        self.assertEqual([test.run.call_count for test in self.tests], runs)
        self.assertEqual((self.top / "a.c").read_text(), SOURCE)

    def test_survives(self):
        self.judge("survives", [1, 1])
        self.judge("survives", [0, 0])
        self.inputs["slow"] = "3"
        self.judge("survives", [1, 1])

    def test_detected(self):
        """The first test that fails twice detects a mutant; other tests do not matter."""
        self.tests[0].run.side_effect = [("failed", (1, 1)), (None, (1, 1))]
        self.tests[1].run.return_value = "failed", (1, 1)
        self.judge("detected by slow", [2, 2])
        self.inputs["cheap"] = "3"
        self.judge("detected by slow", [0, 0])

    def test_not_counted(self):
        self.compiles = False
        self.judge("does not compile", [0, 0])

    def test_same_object(self):
        self.mutant = self.mutant._replace(becomes=self.mutant.was)
        self.judge("same object", [0, 0])


class Report(unittest.TestCase):
    """The share of mutants that a group requires."""

    def report(self, name, results_of_mutants, count=None, reasons=()):
        """Return the first line of a group's result."""
        mutants = [("src/a.c", c_mutants.Mutant(line, "f", f"{line};", ";"))
                   for line, _ in enumerate(results_of_mutants)]
        group = program_mutants.Group(name, mutants)
        workshop = mock.Mock()
        workshop.judge.side_effect = results_of_mutants
        with contextlib.redirect_stdout(io.StringIO()) as out, \
                contextlib.redirect_stderr(io.StringIO()):
            while group.try_next(workshop, dict.fromkeys(reasons, "reason"), count):
                pass
            group.report(results.Results())
        return out.getvalue()

    def test_share(self):
        for name, detected, passes in (("src", 17, True), ("src", 16, False),
                                       ("src/sums.c", 19, True), ("src/sums.c", 18, False)):
            text = self.report(name, ["detected by a"] * detected + ["survives"] * (20 - detected))
            self.assertEqual(text.startswith("ok"), passes, text)
            self.assertIn(f"{detected} of 20 mutants detected, 0 not counted", text)

    def test_count(self):
        """Mutants that do not compile, or are listed as equivalent, do not count."""
        text = self.report("src", ["does not compile", "detected by a", "same object", "detected by a",
                                   "survives"], 2)
        self.assertIn("2 of 2 mutants detected, 2 not counted", text)
        text = self.report("src", ["survives"], reasons=[("src/a.c", "f", "0; -> ;")])
        self.assertIn("0 of 0 mutants detected, 1 not counted", text)

    def test_stale_entry(self):
        """An entry of the list that no mutant matches is reported."""
        with tempfile.TemporaryDirectory() as top, contextlib.redirect_stdout(io.StringIO()) as out:
            tests = Path(top) / "kvm-stats/tests"
            tests.mkdir(parents=True)
            (Path(top) / "kvm-stats/a.c").write_text(SOURCE)
            (tests / "mutants.toml").write_text(
                '[[equivalent]]\nfile = "a.c"\nfunction = "limit"\nreason = "r"\n'
                'changes = ["x--; -> ;", "y--; -> ;"]\n')
            with mock.patch.object(records, "TOP", Path(top)):
                reasons = program_mutants.read_equivalent(results.Results())
        self.assertEqual(list(reasons.values()), ["r", "r"])
        self.assertIn("no such mutant of limit(): y--; -> ;", out.getvalue())
        self.assertNotIn("x--", out.getvalue())


class Arguments(unittest.TestCase):
    """Invalid arguments."""

    def test_refused(self):
        for arguments, line in ((["src/none.c"], "no C file or directory 'src/none.c'"),
                                (["--since", "none"], "--since 'none': not a commit")):
            self.assertIn(line, run_refused(self, "lab/checks/long/program-mutants", *arguments))


if __name__ == "__main__":
    unittest.main()
