# SPDX-License-Identifier: GPL-2.0-only
"""Functions that several test files share."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

TOP = Path(__file__).resolve().parents[2]


def load(path):
    """Return a program of the repository as a module, without running it."""
    name = Path(path).name.replace("-", "_")
    loader = importlib.machinery.SourceFileLoader(name, str(TOP / path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    # The directories of checks contain only checks.
    with mock.patch("host.steps.main"), mock.patch.object(sys, "dont_write_bytecode", True):
        loader.exec_module(module)
    return module


def run_refused(test, command, *arguments, **variables):
    """Run a program of the repository that must fail; return the line that it prints."""
    done = subprocess.run([TOP / command, *arguments], env={**os.environ, **variables},
                          capture_output=True, text=True, check=False)
    test.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1),
                     done.stderr)
    return done.stderr


def run_git(folder, *arguments, **options):
    """Run git as some user; return its output."""
    return subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b",
                           *arguments], text=True, check=True, stdout=subprocess.PIPE,
                          **options).stdout


def commit_all(folder):
    """Turn a directory into a repository of git with one commit."""
    for command in ("init", "-q"), ("add", "-A"), ("commit", "-qm", "all"):
        run_git(folder, *command)
