#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The lists of mutants, and what checks/long/mutants says of what came of one."""

import contextlib
import importlib.machinery
import importlib.util
import io
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "lab/host"))

import records  # noqa: E402
import results  # noqa: E402
import steps  # noqa: E402

loader = importlib.machinery.SourceFileLoader("mutants",
                                              str(TOP / "checks/long/mutants"))
mutants = importlib.util.module_from_spec(
    importlib.util.spec_from_loader("mutants", loader))
loader.exec_module(mutants)

GOOD = '[[mutant]]\nname = "a"\nfile = "f"\nwas = "x"\nbecomes = ""\n'


class Lists(unittest.TestCase):
    """Mutants as they are written down."""

    def read(self, text):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "x.toml").write_text(text)
            return mutants.read(Path(folder))

    def complaint(self, text):
        with self.assertRaises(records.Invalid) as caught:
            self.read(text)
        return str(caught.exception)

    def test_good(self):
        mutant = self.read(GOOD)["x"]["a"]
        self.assertEqual((mutant.was, mutant.unseen), ("x", ""))

    def test_twice(self):
        self.assertIn("two mutants are called a", self.complaint(GOOD + GOOD))

    def test_missing_and_unknown_key(self):
        self.assertIn("a", self.complaint(GOOD.replace("file", "path")))
        self.assertIn("a", self.complaint(GOOD.replace('was = "x"\n', "")))

    def test_those_of_files_in_the_repository_apply(self):
        for mutant in mutants.choose(mutants.read(), []):
            if (TOP / mutant.file).is_file():
                with self.subTest(mutant=mutant.name):
                    mutants.apply(mutant, (TOP / mutant.file).read_text())

    def test_choose(self):
        lists = {"x": {"a": 1, "b": 2}, "y": {"c": 3}}
        for names, chosen in ([], [1, 2, 3]), (["x"], [1, 2]), (["c", "a"], [3, 1]), (
                ["b", "x"], [2, 1]):
            with self.subTest(names=names):
                self.assertEqual(mutants.choose(lists, names), chosen)
        with self.assertRaises(records.Invalid):
            mutants.choose(lists, ["a", "z"])


class Apply(unittest.TestCase):
    """The change is possible in one way, or it is an error."""

    MUTANT = mutants.Mutant("a", "f", "x;", "y;")

    def test_once(self):
        self.assertEqual(mutants.apply(self.MUTANT, "a; x; b;"), "a; y; b;")

    def test_never_and_twice(self):
        for text in ("", "a; b;", "x; x;"):
            with self.subTest(text=text), self.assertRaises(records.Invalid):
                mutants.apply(self.MUTANT, text)


class Order(unittest.TestCase):
    """Which test runs first."""

    def test_order(self):
        tests = [types.SimpleNamespace(name=name) for name in (
            "slow", "new", "quick", "likely", "unload", "kmemleak")]
        took = {"slow": 9.0, "quick": 1.0, "likely": 5.0, "unload": 3.0, "kmemleak": 2.0}
        mutant = mutants.Mutant("a", "f", "x", "", first=("likely",))
        with mock.patch.object(mutants.durations, "last",
                               lambda _, __, name: took.get(name, float("inf"))):
            self.assertEqual(
                [test.name for test in mutants.in_order(tests, mutant, "x86_64")],
                ["likely", "quick", "slow", "new", "unload", "kmemleak"])


class Agreed(unittest.TestCase):
    """What several boots say of one mutant."""

    def agreed(self, *said, test="t"):
        boots = iter(said)
        self.alone = []

        def boot(alone):
            self.alone.append(alone)
            line = next(boots)
            return line and test, line
        return mutants.agreed(boot)

    def test_nothing(self):
        self.assertIsNone(self.agreed(None))
        self.assertEqual(self.alone, [None])

    def test_the_same_but_for_numbers(self):
        self.assertEqual(self.agreed("not ok 3 - 504 of 16", "not ok 3 - 27 of 16"),
                         "not ok 3 - 27 of 16")
        self.assertEqual(self.alone, [None, "t"])
        self.assertEqual(self.agreed("data-race in read / run", "data-race in put / read"),
                         "data-race in put / read")
        self.assertEqual(self.agreed("KASAN: use-after-free in read+0x8/0x10",
                                     "KASAN: use-after-free in put+0x5/0x20"),
                         "KASAN: use-after-free in put+0x5/0x20")
        self.assertEqual(self.agreed("a", None, "a"), "a")
        self.assertEqual(self.alone, [None, "t", None])
        self.assertEqual(self.agreed("a", "b", "b"), "b")

    def test_no_test_to_run_alone(self):
        self.assertEqual(self.agreed("a", "a", test=None), "a")
        self.assertEqual(self.alone, [None, None])

    def test_chance(self):
        for said in ("a", "b", "c"), ("a", None, "b"), ("a", None, None):
            with self.subTest(said=said), self.assertRaises(steps.Failed) as caught:
                self.agreed(*said)
            self.assertIn("a", str(caught.exception))


class Boot(unittest.TestCase):
    """What one boot says; how long tests take is known from those without a mutant."""

    def boot(self, control, passed=True, name="test", output=b"1 of 2", splats=()):
        workshop = object.__new__(mutants.Workshop)
        workshop.record = types.SimpleNamespace(name="kernel")
        boot = types.SimpleNamespace(
            run=mock.Mock(return_value=[("exit", name, None)]), times={name: 1.5}, problem=None,
            splats=lambda: splats,
            channel=types.SimpleNamespace(output={name: output}, status={name: 0},
                                          running=None))
        tests = {name: types.SimpleNamespace(judge=lambda output, _: (passed, output))}
        with mock.patch.object(mutants.machine, "Boot", return_value=boot), \
                mock.patch.object(mutants.durations, "last", return_value=4), \
                mock.patch.object(mutants.durations, "keep") as keep:
            said = workshop.boot(workshop.record, None, tests, control)
        self.limit, = boot.run.call_args.args
        return said, keep.call_args

    def test_boot(self):
        self.assertEqual(self.boot(True), (
            (None, None), mock.call(1.5, "tests", "kernel", "test")))
        self.assertEqual(self.limit, mutants.LIMIT)
        self.assertEqual(self.boot(False), ((None, None), None))
        self.assertEqual(self.limit, 4 * mutants.SLOWER)
        self.assertEqual(self.boot(False, passed=False), (
            ("test", "kernel/test: 1 of 2"), None))
        self.assertEqual(self.boot(False, output=b"not ok 2 x\n"), (
            ("test", "kernel/test: not ok 2 x"), None))
        self.assertEqual(self.boot(False, splats=["BUG: x", "BUG: y"]), (
            ("test", "kernel/test: BUG: x"), None))

    def test_what_looks_at_what_all_have_left(self):
        self.assertEqual(self.boot(False, passed=False, name="unload"), (
            (None, "kernel/unload: 1 of 2"), None))


class Verdict(unittest.TestCase):
    """What kernels see of a mutant, and the result that comes of it."""

    class Workshop:
        """One that knows what its kernel will see."""

        def __init__(self, seen):
            self.saw = seen
            self.asked = False

        def open(self, _):
            return not isinstance(self.saw, bool)

        def seen(self, _):
            self.asked = True
            if isinstance(self.saw, Exception):
                raise self.saw
            return self.saw

    def verdict(self, *seen, unseen=""):
        self.workshops = {str(i): self.Workshop(what)
                          for i, what in enumerate(seen)}
        mutant = mutants.Mutant("a", "f", "x", "", unseen,
                                tuple(self.workshops))
        found = results.Results()
        with contextlib.redirect_stdout(io.StringIO()) as said:
            mutants.check(mutant, self.workshops, found)
        self.assertEqual(found.passed + found.failed, 1)
        return bool(found.passed), said.getvalue()

    def test_seen(self):
        passed, said = self.verdict("some test", None)
        self.assertTrue(passed)
        self.assertIn("some test", said)
        self.assertFalse(self.workshops["1"].asked)

    def test_seen_by_the_second(self):
        self.assertTrue(self.verdict(None, "some test")[0])

    def test_unseen(self):
        self.assertFalse(self.verdict(None, None)[0])

    def test_unseen_for_a_reason(self):
        passed, said = self.verdict(None, None, unseen="the same code")
        self.assertTrue(passed)
        self.assertIn("the same code", said)

    def test_seen_in_spite_of_a_reason(self):
        self.assertFalse(self.verdict("some test", unseen="the same code")[0])

    def test_kernel_that_fails_without_it(self):
        passed, said = self.verdict(False, unseen="the same code")
        self.assertFalse(passed)
        self.assertIn("fails without it", said)
        self.assertFalse(self.workshops["0"].asked)

    def test_does_not_compile_or_apply(self):
        for error in (steps.Failed("error: x"), records.Invalid("no f")):
            with self.subTest(error=error):
                passed, said = self.verdict(error, unseen="the same code")
                self.assertFalse(passed)
                self.assertIn(str(error), said)


if __name__ == "__main__":
    unittest.main()
