# SPDX-License-Identifier: GPL-2.0-only
"""Tests of lab/host/steps.py: the environment of compilers."""

import tempfile
import unittest
from pathlib import Path
from unittest import mock

from host import records, steps


class Environment(unittest.TestCase):
    """The environment with and without ccache."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.links = self.folder / "ccache"

    def read_environment(self, **env):
        """Return the environment of a command run as a step."""
        log = self.folder / "log"
        with mock.patch.object(steps, "CCACHE", self.links):
            steps.run("look", log, ["env"], env=env)
        return dict(line.partition("=")[::2] for line in log.read_text().splitlines())

    def test_without_ccache(self):
        """The environment is unchanged without ccache."""
        self.assertNotIn("CCACHE_BASEDIR", self.read_environment())

    def test_with_ccache(self):
        """ccache's directory comes first in PATH, and additional variables are passed."""
        self.links.mkdir()
        found = self.read_environment(MORE="x")
        self.assertEqual(found["PATH"].split(":")[0], str(self.links))
        self.assertEqual(found["CCACHE_BASEDIR"], str(records.TOP))
        self.assertEqual(found["MORE"], "x")
