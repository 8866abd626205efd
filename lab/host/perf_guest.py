# SPDX-License-Identifier: GPL-2.0-only
"""A Linux guest with Debian's perf, run by QEMU in a test machine."""

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

from . import judge, machine, records, steps, suite

PERF = Path("/usr/bin/perf")
PROGRAMS = records.INSIDE / "consumers"
GUEST_PROGRAMS = ("perf-work", "guest-kexec", "guest-hotplug", "guest-throttled")


def load_program(name):
    """Import a program of the test machine and return the module."""
    # In the test machine, the programs and judge.py share one directory.
    sys.modules["judge"] = judge
    if str(PROGRAMS) not in sys.path:
        sys.path.append(str(PROGRAMS))
    return importlib.import_module(name)


def find_libraries(program):
    """Return the shared libraries of a program installed on the build host."""
    said = subprocess.run(["ldd", program], check=True, capture_output=True,
                          text=True).stdout
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", said)]


def copy_program(program, root):
    """Copy a program of the build host and its shared libraries to the same paths in root."""
    for file in (program, *find_libraries(program)):
        path = root / file.relative_to("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, path)


def prepare(name="x86_64"):
    """Build a kernel and its programs; return its record."""
    record = records.Record(name)
    steps.install_packages(record)
    steps.run_script("lab/fetch/install-packages", "linux-perf")
    suite.prepare(record)
    return record


def pack_initramfs(record, root, plan, initrd):
    """Pack a directory, with init and its plan, into an initramfs; remove the directory."""
    (root / "lab/bin").mkdir(parents=True, exist_ok=True)
    with steps.lock_directory(record.userland):
        shutil.copy(record.userland / "init", root)
        for program in GUEST_PROGRAMS:
            shutil.copy(record.userland / "bin" / program, root / "lab/bin")
    machine.write_plan(root, [["verdict", "/dev/ttyS1"], *(
        ["test", name, f"/lab/bin/{program}", *map(str, args)]
        for name, (program, *args) in plan.items())])
    machine.write_initramfs(initrd, root)
    shutil.rmtree(root)


def add_kexec_kernel(root, kernel, initrd):
    """Add the kernel and initramfs that guest-kexec loads, unless `initrd` is None."""
    if initrd:
        (root / "lab").mkdir(parents=True, exist_ok=True)
        shutil.copy(kernel, root / "lab/kernel")
        shutil.move(initrd, root / "lab/initrd")


def build_next_initramfs(record, folder, plan, kernel, following):
    """Build and return the initramfs of a kernel started by kexec; it may start another one."""
    root, initrd = folder / "next", folder / "next.cpio"
    shutil.rmtree(root, ignore_errors=True)
    add_kexec_kernel(root, kernel, following)
    pack_initramfs(record, root, plan, initrd)
    return initrd


def build_files(record, folder, plan, *later):
    """Build the files for the test machine and return their paths.

    The files are the guest's kernel and initramfs, built in `folder`, and the programs
    that run QEMU. record: of the guest's kernel; plan: argv of each test by name; later: the plans of further kernels,
    each of which is started with kexec by the previous one.
    """
    root, kernel, initrd = folder / "root", folder / "bzImage", folder / "guest.cpio"
    shutil.rmtree(root, ignore_errors=True)
    copy_program(PERF, root)
    shutil.copy(record.kernel / record.image, kernel)
    (root / "lab/bin").mkdir(parents=True)
    (root / "lab/bin/perf").symlink_to(PERF)
    following = None
    for another in reversed(later):
        following = build_next_initramfs(record, folder, another, kernel, following)
    add_kexec_kernel(root, kernel, following)
    pack_initramfs(record, root, plan, initrd)
    return [kernel, initrd, records.LAB / "host/judge.py", *PROGRAMS.glob("*.py")]


def boot(found, prefix, record, release, test, guest_files, rerun=None):
    """Boot a test machine with the QEMU of a Debian release and run one test in it.

    rerun: the command that repeats the test, by default the whole check.
    """
    record = records.Record(f"{record.name}-long", record.tree)
    # Use a periodic tick: without it, a CPU whose only timer is lost never wakes up.
    record = record.replace(cmdline=f"{record.cmdline} highres=off")
    suite.boot(found, prefix, record, [test], files=guest_files, memory="3G",
               overlay=records.BUILD / "consumers" / release / "root", rerun=lambda *_: rerun)
