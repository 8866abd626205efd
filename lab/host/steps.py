# SPDX-License-Identifier: GPL-2.0-only
"""Long-running steps: announced, timed, logged, and skipped if their inputs are unchanged."""

import argparse
import contextlib
import errno
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

from . import records, results

# Held while a source tree is hashed.
HASHING = threading.Lock()


class Failed(Exception):
    """A step failed: the message contains the first error and the path of the log."""


class NotDelivered(Failed):
    """A mirror did not deliver a package: the message contains apt's error."""


# The exit status of scripts that fetch packages if the mirror does not deliver one, after
# several attempts: EX_TEMPFAIL of <sysexits.h>.
NOT_DELIVERED = 75


class Arguments(argparse.ArgumentParser):
    """Reports invalid arguments in one line."""

    def error(self, message):
        raise records.Invalid(message)

    def parse_names(self, what, available, only_typed=()):
        """Parse the names on the command line; return them in the order of `available`.

        Without arguments, return all available names except those in `only_typed`.
        """
        self.add_argument(what, nargs="*")
        named = vars(self.parse_args())[what]
        for name in named:
            if name not in available:
                raise records.Invalid(f"no {what} '{name}', choose from: {' '.join(available)}")
        return [name for name in available
                if name in named or not named and name not in only_typed]


def main(function):
    """Run a command of the lab and exit: 2 for invalid input, 1 for a failed step.

    A check whose packages a mirror does not deliver ends as skipped.
    """
    command = Path(sys.argv[0]).resolve().relative_to(records.TOP)
    try:
        records.base_file.read_values()
        sys.exit(function())
    except records.Invalid as error:
        status, message = 2, error
    except NotDelivered as error:
        status, message = NOT_DELIVERED, error
        if found := results.Results.current:
            found.skip(command.name, str(error))
            sys.exit(found.end())
    except Failed as error:
        status, message = 1, error
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        status, message = 2, f"{error.filename or records.BUILD}: {error.strerror}"
    print(f"{command}: {message}", file=sys.stderr)
    sys.exit(status)


# Debian's directory of compiler names that run ccache.
CCACHE = Path("/usr/lib/ccache")


def get_compile_environment():
    """Return the environment for compilers: with ccache, if installed, shared by all clones."""
    if not CCACHE.is_dir():
        return dict(os.environ)
    return {**os.environ, "PATH": f"{CCACHE}:{os.environ['PATH']}",
            # The path and the age of a clone must not affect the hash.
            "CCACHE_BASEDIR": str(records.TOP), "CCACHE_NOHASHDIR": "1",
            "CCACHE_SLOPPINESS": "time_macros,include_file_mtime,include_file_ctime"}


def run(what, log, *commands, env=None):
    """Run commands, write their output to a log, and print the time they took.

    The commands are niced in favour of running test machines, whose clocks don't stop.
    env: additional variables.
    """
    print(f"{what} ...", file=sys.stderr)
    start, cost = time.monotonic(), 0
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        for command in commands:
            print("+", *command, file=output, flush=True)
            with subprocess.Popen(["nice", *command], stdin=subprocess.DEVNULL,
                                  stdout=output, stderr=subprocess.STDOUT,
                                  env={**get_compile_environment(), **(env or {})}) as process:
                cost += wait_and_account(process, "building")
            if process.returncode:
                raise Failed(f"{what}: {find_error(log)} (log: {log})")
    print(f"{what}: {time.monotonic() - start:.0f} s, {cost:.0f} s of CPU",
          file=sys.stderr)


def has_exited(process):
    """Return True if the process has exited; don't reap it, as that discards its CPU time."""
    return os.waitid(os.P_PID, process.pid,
                     os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def wait_and_account(process, kind=None):
    """Wait until a process exits; return its CPU seconds, including its reaped children.

    If `kind` is given, append the seconds to the file named by the variable COSTS.
    """
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    # Skip the name in brackets, which may contain any character.
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    cost = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    if kind and "COSTS" in os.environ:
        with open(os.environ["COSTS"], "a", encoding="utf-8") as costs:
            print(kind, cost, file=costs)
    return cost


@contextlib.contextmanager
def lock_directory(folder):
    """Lock a directory exclusively for the duration of the context."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def find_error(log):
    """Return the first error in a log, or its last line."""
    lines = log.read_text(errors="replace").split("\n")
    error = re.compile(r"error:|undefined reference|\*\*\*|No such file|Failed to fetch", re.I)
    found = [line for line in lines if error.search(line)]
    return (found or [line for line in lines if line] or ["no output"])[
        0 if found else -1].strip()


def run_script(path, *arguments, **variables):
    """Run a program of the repository, which prints its own errors, with additional variables."""
    with subprocess.Popen([records.TOP / path, *arguments],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, **variables}) as script:
        last = ""
        for last in script.stdout:
            sys.stderr.write(last)
            sys.stderr.flush()
    if script.returncode == NOT_DELIVERED:
        raise NotDelivered(last.strip())
    if script.returncode:
        raise Failed(f"{path} failed")


def report_error(found, name, error, **options):
    """Report the error of a step as a result: as skipped if a package was not delivered.

    options: those of Results.report().
    """
    if isinstance(error, NotDelivered):
        found.skip(name, str(error))
    else:
        found.report(name, False, str(error), **options)


@functools.lru_cache(maxsize=None)
def use_tree():
    """Generate the patched kernel tree, or use it unchanged if it contains unimported work."""
    run_script("scripts/tree", "--use")


def install_packages(*chosen):
    """Install the Debian packages needed by the lab and by the given records."""
    common = (records.KERNELS / "packages").read_text().split("\n")
    wanted = {package: None for package in
              [line for line in common if line and not line.startswith("#")]
              + [package for record in chosen for package in record.packages]}
    run_script("lab/fetch/install-packages", *wanted)


@functools.lru_cache(maxsize=None)
def hash_source(source, *excluded):
    """Return a hash of a source tree, with uncommitted changes, without some directories."""
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
                        *excluded], check=True, env=env)
        return subprocess.run([*git, "write-tree"], check=True, env=env,
                              capture_output=True, text=True).stdout


def build_if_changed(folder, record, files, excluded, build):
    """Call build() if the inputs of the files in `folder` have changed.

    excluded: directories of the kernel source that are not an input.
    """
    with lock_directory(folder):
        stamp = Stamp(folder / "lab.stamp", record, files, excluded)
        if not stamp:
            stamp.remove()
            build()
            stamp.write()


class Stamp:
    """A hash of all inputs of a build; true if it equals the stored one."""

    def __init__(self, path, record, files, excluded):
        compiler = subprocess.run([record.compiler, "--version"],
                                  check=True, capture_output=True).stdout
        digest = hashlib.sha256(compiler)
        # A tree is hashed once; concurrent callers wait for the cached result.
        with HASHING:
            digest.update(hash_source(record.source, *excluded).encode())
        # Hash the values, not the file: some come from the record named by `like`. A copy of the
        # repository that shares build/ has other paths.
        digest.update(repr(sorted(vars(record).items())).replace(str(records.TOP), "").encode())
        for file in files:
            digest.update(file.read_bytes())
        self.path = path
        self.value = digest.hexdigest()

    def __bool__(self):
        return self.path.is_file() and self.path.read_text() == self.value

    def remove(self):
        """Remove the stamp before a build, so that an interrupted build is repeated."""
        self.path.unlink(missing_ok=True)

    def write(self):
        """Store the hash after a build."""
        temporary = self.path.with_suffix(".new")
        temporary.write_text(self.value)
        temporary.rename(self.path)
