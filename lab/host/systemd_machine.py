# SPDX-License-Identifier: GPL-2.0-only
"""Boot Debian with systemd in a test machine: its root file system, and the units that run tests."""

import re
import shutil
import subprocess

from . import machine, records, steps

# lab.service, which runs the tests
INSIDE = records.INSIDE / "service"
PACKAGES = ("mmdebstrap", "kmod", "cpio")
# Files that the tests do not need: the test machine keeps the image in memory.
EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*",
            "/usr/share/javascript/*", "/usr/share/nodejs/*", "/usr/lib/udev/hwdb.*")
# Parameters of the kernel that boot such a system
CMDLINE = "rdinit=/usr/lib/systemd/systemd systemd.unit=multi-user.target"


def make_root(out, name, release, included, hooks=()):
    """Create an archive of a Debian system with these packages; return its path.

    name: for messages and the log. hooks: commands that change the system, see mmdebstrap(1).
    """
    image = out / "root.cpio"
    # Write the sources.list of the build host's mirror.
    steps.run_script("lab/fetch/apt-suites", str(out / "apt"), release, f"{release}-security",
                     "--", "check")
    steps.run(f"{name}: create the root file system", records.BUILD / f"logs/{name}-root.log",
              ["mmdebstrap", "--variant=apt", f"--include={','.join(included)}",
               *(f"--dpkgopt=path-exclude={path}" for path in EXCLUDED),
               "--aptopt=APT::Install-Recommends false", "--format=null",
               *(f"--customize-hook={hook}" for hook in hooks),
               # Remove mmdebstrap's wrappers, which prevent packages from starting services.
               "--customize-hook=cd \"$1\" && rm usr/sbin/policy-rc.d && "
               "mv sbin/start-stop-daemon.REAL sbin/start-stop-daemon && "
               f"find . -xdev | cpio -o -H newc --quiet >{image}",
               release, "-", str(out / "apt/sources.list")])
    return image


def add_lab(record, root, files):
    """Create the lab's files and units in the directory `root`."""
    found = re.search(rb"vermagic=(\S+)", (record.kernel / record.modules[0]).read_bytes())
    modules = root / "usr/lib/modules" / found[1].decode()
    units = root / "etc/systemd/system"
    for folder in (root / "lab/bin", modules / "kernel", units / "basic.target.wants",
                   root / "etc/modprobe.d"):
        folder.mkdir(parents=True)
    for name in record.modules:
        shutil.copy(record.kernel / name, modules / "kernel")
    for name in ("order", "builtin", "builtin.modinfo"):
        (modules / f"modules.{name}").write_text("")
    subprocess.run(["depmod", "-b", root / "usr", found[1].decode()], check=True)
    # Don't load KVM at boot.
    (root / "etc/modprobe.d/lab.conf").write_text("blacklist kvm_amd\n")
    for file in (*files, INSIDE / "run-plan"):
        shutil.copy(file, root / "lab/bin")
    shutil.copy(INSIDE / "lab.service", units)
    (units / "basic.target.wants/lab.service").symlink_to("../lab.service")


def make_pack(change_root):
    """Return a function that replaces machine.pack().

    change_root: called with the directory of the lab's files, before it is packed.
    """
    def pack(record, folder, tests, files, overlay):
        """Create an initramfs from the Debian system and the lab's files."""
        root = folder / "root"
        shutil.rmtree(root, ignore_errors=True)
        add_lab(record, root, files)
        change_root(root)
        machine.write_plan(root, [["test", name, f"/lab/bin/{program}", *arguments]
                                  for name, program, *arguments in tests])
        machine.write_initramfs(folder / "lab.cpio", root)
        with (folder / "initramfs").open("wb") as image:
            for archive in (overlay, folder / "lab.cpio"):
                with archive.open("rb") as part:
                    shutil.copyfileobj(part, image)

    return pack
