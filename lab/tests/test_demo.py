# SPDX-License-Identifier: GPL-2.0-only
"""Tests of lab/demo: the selection of bases, with fake trees and builds."""

import contextlib
import io
import os
import unittest
from unittest import mock

from tools import load

GONE = "base 7.3: Debian no longer offers p in s; LINUX_SRC=TREE names a source tree"


class VanishedBase(unittest.TestCase):
    """The default base's package is no longer offered."""

    def setUp(self):
        self.demo = load("lab/demo")
        self.run = mock.Mock(return_value=mock.Mock(returncode=0))
        for target, name, value in (
                (self.demo.base_file, "NAME", "7.3"),
                (self.demo.base_file, "list_names", lambda: ["5.10", "6.12", "7.3"]),
                (self.demo.subprocess, "run", self.run)):
            self.enterContext(mock.patch.object(target, name, value))

    def try_others(self, available, **environment):
        """Return the status and the output of the demo if some bases are available."""
        environment = {"BASE": "", **environment}
        with mock.patch.object(self.demo.sources, "have_tree",
                               lambda base: mock.Mock(available=base in available)), \
                mock.patch.dict(os.environ, environment), \
                contextlib.redirect_stdout(io.StringIO()) as output:
            return self.demo.run_other_base(GONE), output.getvalue()

    def test_newest_other_base_runs(self):
        """One line names the reason, LINUX_SRC and the base that is shown instead."""
        self.assertEqual(self.try_others(["5.10", "6.12"]),
                         (0, f"{GONE}; continuing with 6.12\n"))
        self.assertEqual(self.run.call_args.kwargs["env"]["BASE"], "6.12")
        self.assertEqual(self.try_others(["5.10"]), (0, f"{GONE}; continuing with 5.10\n"))

    def test_no_base_is_available(self):
        """The reason is the error message."""
        with self.assertRaisesRegex(self.demo.records.Invalid, GONE):
            self.try_others([])

    def test_chosen_base_must_be_available(self):
        """Another base is not what the user has chosen."""
        with self.assertRaisesRegex(self.demo.records.Invalid, GONE):
            self.try_others(["5.10"], BASE="7.3")
