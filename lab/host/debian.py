# SPDX-License-Identifier: GPL-2.0-only
"""Records for booting Debian's unmodified kernels."""

from . import records, steps

# In load order. Older kernels have all of them.
MODULES = ("rng-core.ko", "irqbypass.ko", "ccp.ko", "kvm.ko", "kvm-amd.ko", "fuse.ko", "configfs.ko",
           "null_blk.ko")


def fetch_record(release):
    """Fetch the kernel of a release and return a record for booting it with long-running guests."""
    steps.run_script("lab/fetch/fetch-debian-kernel", release)
    folder = records.BUILD / "debian-kernels" / release
    return records.Record("x86_64-long").replace(
        kernel=folder, image="vmlinuz",
        modules=tuple(name for name in MODULES if (folder / name).is_file()))


def fetch_arm64_record(release):
    """Fetch the arm64 kernel of a release and return a record for booting it.

    KVM is built in; virtio is available only on PCI.
    """
    steps.run_script("lab/fetch/fetch-debian-kernel", release, ARCHITECTURE="arm64")
    return records.Record("arm64").replace(
        kernel=records.BUILD / "debian-kernels" / f"{release}-arm64", image="vmlinuz",
        verdict=("-device", "virtio-serial-pci", "-device", "virtconsole,chardev=verdict"))
