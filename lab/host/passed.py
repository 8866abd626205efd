# SPDX-License-Identifier: GPL-2.0-only
"""Results by content: a check of a tier that passed on this machine does not run again while
its inputs are unchanged.

A check declares the files that it reads in its header, relative to the repository:

    # Inputs: kvm-stats lab/inside     files and directories, in addition to COMMON and the check

A check without this line always runs, for example because it fetches the newest version of a
package. The other inputs are the kernel tree of its base, and this machine: its packages, kernel
and number of CPUs. The last passed run of each check is in the user's cache directory, which
other clones use as well.
"""

import hashlib
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

from . import needs, records

FOLDER = (Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
          / "kvm-stats-lab/passed")
# What every check may read.
COMMON = ("lab/host", "lab/fetch", "scripts", "patches/default", ":(glob)patches/*/base")


def list_inputs(check):
    """Return the paths that a check declares, COMMON and itself included, None without a line."""
    line = re.search(r"^# Inputs: (.+)$", check.read_text(), re.M)
    return line and [*COMMON, str(check.relative_to(records.TOP)), *line[1].split()]


def list_files(paths):
    """Return the files of the repository below these paths, those not added to git included.

    An empty list if this is not a git repository.
    """
    found = subprocess.run(["git", "-C", records.TOP, "ls-files", "-z", "--cached", "--others",
                            "--exclude-standard", "--", *paths], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True, check=False).stdout
    # A file that conflicts is listed several times.
    return sorted({records.TOP / name for name in found.split("\0")[:-1]
                   if (records.TOP / name).is_symlink() or (records.TOP / name).exists()})


def hash_file(path):
    """Return type, permissions and content of a file, hashed."""
    mode = path.lstat().st_mode
    content = os.readlink(path).encode() if stat.S_ISLNK(mode) else path.read_bytes()
    return f"{mode:o} {hashlib.sha256(content).hexdigest()}"


def hash_inputs(check, base):
    """Return a hash of the files and the kernel tree that a check reads, None if unknown.

    base: None for a check that is independent of the base.
    """
    paths = list_inputs(check)
    files = list_files(paths) if paths else []
    if check not in files:
        return None
    lines = [f"{path.relative_to(records.TOP)} {hash_file(path)}" for path in files]
    if not needs.is_independent(check):
        tree = records.BUILD / base / "linux"
        for command in ("rev-parse", "HEAD"), ("status", "--porcelain", "-uno"):
            done = subprocess.run(["git", "-C", tree, *command], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True, check=False)
            if done.returncode:
                return None
            lines.append(done.stdout)
            # The names of edited files do not tell their content.
            if command[0] == "status" and done.stdout:
                return None
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def hash_machine():
    """Return a hash of this machine's packages, kernel and number of CPUs."""
    packages = subprocess.run(["dpkg-query", "-W"], stdout=subprocess.PIPE, check=True).stdout
    facts = f"{os.uname().release} {os.uname().machine} {os.cpu_count()}\n"
    return hashlib.sha256(facts.encode() + packages).hexdigest()


def find_record(title):
    """Return the file with the last passed run of a check."""
    return FOLDER / title.replace("/", "_")


def read(title, inputs, machine):
    """Return the number of results if the last passed run had these hashes, otherwise 0."""
    try:
        count, *hashes = find_record(title).read_text().split()
        return int(count) if hashes == [inputs, machine] else 0
    except (FileNotFoundError, ValueError):
        return 0


def write(title, inputs, machine, count):
    """Record that a check passed with this number of results."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    new = find_record(f"{title}.{os.getpid()}.new")
    new.write_text(f"{count} {inputs} {machine}\n")
    new.replace(find_record(title))


def forget_all():
    """Delete all records."""
    shutil.rmtree(FOLDER, ignore_errors=True)
