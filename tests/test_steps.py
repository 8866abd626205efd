#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Tests of lab/host/steps.py: what commands that compile are given."""

import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "lab/host"))

import records  # noqa: E402
import steps  # noqa: E402


class Environment(unittest.TestCase):
    """With ccache and without it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.links = self.folder / "ccache"

    def said(self, **env):
        """What a command has in its environment."""
        log = self.folder / "log"
        with mock.patch.object(steps, "CCACHE", self.links):
            steps.run("look", log, ["env"], env=env)
        return dict(line.partition("=")[::2] for line in log.read_text().splitlines())

    def test_without(self):
        self.assertNotIn("CCACHE_BASEDIR", self.said())

    def test_with(self):
        self.links.mkdir()
        found = self.said(MORE="x")
        self.assertEqual(found["PATH"].split(":")[0], str(self.links))
        self.assertEqual(found["CCACHE_BASEDIR"], str(records.TOP))
        self.assertEqual(found["MORE"], "x")


if __name__ == "__main__":
    unittest.main()
