# SPDX-License-Identifier: GPL-2.0-only
"""Long steps: said, timed, logged, and skipped when nothing changed."""

import argparse
import contextlib
import fcntl
import functools
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import records


# Held while it is found out what is in a source tree.
ASKING = threading.Lock()


class Failed(Exception):
    """A step that failed: the line that matters and the log's path."""


class Arguments(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message):
        raise records.Invalid(message)

    def names(self, what, there, only_typed=()):
        """Those that are typed, of those that there are; if none is, all but some."""
        self.add_argument(what, nargs="*")
        named = vars(self.parse_args())[what]
        for name in named:
            if name not in there:
                raise records.Invalid(f"no {what} '{name}', choose from: {' '.join(there)}")
        return [name for name in there
                if name in named or not named and name not in only_typed]


def main(function):
    """Run a command of the lab; wrong input is exit 2, a failure exit 1."""
    try:
        records.base_file.values()
        sys.exit(function())
    except records.Invalid as error:
        status, message = 2, error
    except Failed as error:
        status, message = 1, error
    command = Path(sys.argv[0]).resolve().relative_to(records.TOP)
    print(f"{command}: {message}", file=sys.stderr)
    sys.exit(status)


# Debian's folder of links: each compiler by way of ccache.
CCACHE = Path("/usr/lib/ccache")


def environment():
    """That of commands that compile: if ccache is installed, it remembers what they did,
    for every clone of this repository."""
    if not CCACHE.is_dir():
        return dict(os.environ)
    return {**os.environ, "PATH": f"{CCACHE}:{os.environ['PATH']}",
            # Where a clone is must not make a difference, nor when it was made.
            "CCACHE_BASEDIR": str(records.TOP), "CCACHE_NOHASHDIR": "1",
            "CCACHE_SLOPPINESS": "time_macros,include_file_mtime,include_file_ctime"}


def run(what, log, *commands, env=None):
    """Run commands niced, with their output in a log; say what and how long.

    Machines that run come first: in them time passes meanwhile. env: variables to
    have besides.
    """
    print(f"{what} ...", file=sys.stderr)
    start, cost = time.monotonic(), 0
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        for command in commands:
            print("+", *command, file=output, flush=True)
            with subprocess.Popen(["nice", *command], stdin=subprocess.DEVNULL,
                                  stdout=output, stderr=subprocess.STDOUT,
                                  env={**environment(), **(env or {})}) as process:
                cost += spent(process, "building")
            if process.returncode:
                raise Failed(f"{what}: {line_that_matters(log)} (log: {log})")
    print(f"{what}: {time.monotonic() - start:.0f} s, {cost:.0f} s of CPU",
          file=sys.stderr)


def has_ended(process):
    """Whether it has; nobody has waited for it yet, so its CPU time is still known."""
    return os.waitid(os.P_PID, process.pid,
                     os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def spent(process, kind=None):
    """Wait until a process ends; returns the CPU seconds that it took with the
    processes it waited for, and adds those of a kind to the file that COSTS names."""
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    # What is in brackets, its name, may have anything in it.
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    cost = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    if kind and "COSTS" in os.environ:
        with open(os.environ["COSTS"], "a", encoding="utf-8") as costs:
            print(kind, cost, file=costs)
    return cost


@contextlib.contextmanager
def alone(folder):
    """Nobody else works in this folder meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def line_that_matters(log):
    """The first error of a log, or its last line."""
    lines = log.read_text(errors="replace").split("\n")
    error = re.compile(r"error:|undefined reference|\*\*\*|No such file", re.I)
    found = [line for line in lines if error.search(line)]
    return (found or [line for line in lines if line] or ["no output"])[
        0 if found else -1].strip()


def script(name, *arguments, **variables):
    """Run one of scripts/, with variables in its environment; whoever fails says why."""
    done = subprocess.run([records.TOP / "scripts" / name, *arguments],
                          stdin=subprocess.DEVNULL, stdout=sys.stderr,
                          env={**os.environ, **variables}, check=False)
    if done.returncode:
        raise Failed(f"scripts/{name} failed")


@functools.lru_cache(maxsize=None)
def use_tree():
    """Have the patched kernel's tree: made of the patches, or as it stands if there is
    work in it."""
    script("tree", "--use")


def install(*chosen):
    """Have the packages of the lab and of some records installed."""
    common = (records.KERNELS / "packages").read_text().split("\n")
    wanted = {package: None for package in
              [line for line in common if line and not line.startswith("#")]
              + [package for record in chosen for package in record.packages]}
    script("install-packages", *wanted)


@functools.lru_cache(maxsize=None)
def source_id(source, *left_out):
    """What is in a source tree, committed or not, but for some folders."""
    if not (source / "Makefile").is_file():
        raise records.Invalid(f"no kernel source in {source}: run make tree")
    git = ["git", "-C", str(source)]
    index = subprocess.run([*git, "rev-parse", "--path-format=absolute",
                            "--git-path", "index"], check=True,
                           capture_output=True, text=True).stdout.strip()
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(Path(index).read_bytes())
        copy.flush()
        env = {**os.environ, "GIT_INDEX_FILE": copy.name}
        subprocess.run([*git, "add", "-A"], check=True, env=env)
        subprocess.run([*git, "rm", "-rfq", "--cached", "--ignore-unmatch", "--",
                        *left_out], check=True, env=env)
        return subprocess.run([*git, "write-tree"], check=True, env=env,
                              capture_output=True, text=True).stdout


def unless_made(folder, record, files, left_out, build):
    """Call build() unless what was made in folder is of the same files.

    left_out: folders of the source that it is not made from.
    """
    with alone(folder):
        stamp = Stamp(folder / "lab.stamp", record, files, left_out)
        if not stamp:
            stamp.drop()
            build()
            stamp.keep()


class Stamp:
    """What something was made from; true while that is unchanged."""

    def __init__(self, path, record, files, left_out):
        compiler = subprocess.run([record.compiler, "--version"],
                                  check=True, capture_output=True).stdout
        digest = hashlib.sha256(compiler)
        # Who asks while another one does waits for its answer.
        with ASKING:
            digest.update(source_id(record.source, *left_out).encode())
        # The record as read: another one may have a part in it.
        digest.update(repr(sorted(vars(record).items())).encode())
        for file in files:
            digest.update(file.read_bytes())
        self.path = path
        self.value = digest.hexdigest()

    def __bool__(self):
        return self.path.is_file() and self.path.read_text() == self.value

    def drop(self):
        """Forget it: from here on what was made is half done."""
        self.path.unlink(missing_ok=True)

    def keep(self):
        """It is made."""
        temporary = self.path.with_suffix(".new")
        temporary.write_text(self.value)
        temporary.rename(self.path)
