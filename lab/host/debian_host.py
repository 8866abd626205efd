# SPDX-License-Identifier: GPL-2.0-only
"""A host with Debian's kernel, on which the commands of modules/README.md install KVM's modules.

The host is a root directory; the kernel runs in a test machine, which loads the modules that were
installed in the root directory. All of Debian's kernels on x86-64 have modules that were built in
this way, by the program and from the packages that users have.
"""

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from . import base_file, pages, records, series_file, steps
from .debian_modules import AMD64, Modules

PAGE = "modules/README.md"
PROGRAM = records.TOP / "modules/kvm-stats-modules"
# What the directory of a new host depends on.
MAKE_ROOT = [Path(__file__), *(records.TOP / "lab/fetch" / name for name in (
    "make-root", "enter-root", "kernel-pin"))]
# The test machine runs the kernel, the commands run on the build host: uname -r, which some of
# them call, prints the release of the kernel.
UNAME = """#!/bin/sh
[ "$*" != -r ] || exec echo {kernel}
exec /usr/bin/uname "$@"
"""
# The directories of the kernel that the modules are built from, and those with headers.
SOURCES = ("virt/kvm", "arch/x86/kvm")
HEADERS = ("arch/x86/include", "include")
# Where the program builds the modules
KEPT = "var/cache/kvm-stats-modules/build/source"
# Debian's own modules for VFIO, and a sample driver that Debian does not build.
VFIO_MODULES = ("vfio.ko", "vfio_iommu_type1.ko", "mdev.ko", "mtty.ko")


def diff_tree(*options):
    """Return what git diff prints of the kernel tree, with uncommitted changes, and the base kernel:
    of the files that belong to KVM's modules.
    """
    with tempfile.TemporaryDirectory() as work:
        index = Path(work) / "index"
        shutil.copy(base_file.TREE / ".git/index", index)
        series_file.git("add", "-A", index=index)
        return series_file.git("diff", "--cached", "--no-renames", *options, series_file.BASE, "--",
                               *SOURCES, *HEADERS, index=index)


def list_sources():
    """Return the paths of KVM's source files in the kernel tree, and of the headers that the
    series edit.
    """
    edited = diff_tree("--name-only", "--diff-filter=d").decode().split()
    return sorted({str(path.relative_to(base_file.TREE)) for name in SOURCES
                   for path in (base_file.TREE / name).rglob("*") if path.is_file()} | set(edited))


def copy_changed_sources(target):
    """Copy the files of list_sources() that changed, and remove those that are gone."""
    names, listed = list_sources(), target / "sources"
    if listed.is_file():
        for name in set(listed.read_text().split("\n")) - set(names):
            (target / name).unlink()
    for name in names:
        path, data = target / name, (base_file.TREE / name).read_bytes()
        if not path.is_file() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    listed.write_text("\n".join(names))


class Host:
    """The root directory of a new host with a release of Debian."""

    def __init__(self, root, release):
        """release: of Debian, or a suite such as trixie-backports."""
        self.root = root
        self.release = release
        # The start of a command in the directory: options and variables of env follow.
        self.enter = [records.TOP / "lab/fetch/enter-root", root, "env"]

    @property
    def variables(self):
        """Variables of the environment for all blocks."""
        return []

    def make(self, **variables):
        """Create the directory, in which a user would answer apt with yes."""
        steps.run_script("lab/fetch/make-root", self.release, self.root, **variables)
        (self.root / "etc/apt/apt.conf.d/60answers").write_text(
            'APT::Get::Assume-Yes "true";\n')

    def copy_repository(self):
        """Copy the repository to the directory, in the place of an earlier copy."""
        shutil.rmtree(self.root / "repository", ignore_errors=True)
        pages.copy_repository(self.root / "repository")

    def format_command(self, block, *variables):
        """Return the command that runs a block of a page on the host, with more variables."""
        return [*self.enter, "-C", f"/repository/{block.directory}", *self.variables, *variables,
                "bash", "-c", block.format_script()]

    def run(self, block):
        """Run a block of a page; return its exit status."""
        return pages.run(block, self.format_command(block))


class KernelHost(Host):
    """A host with the headers of Debian's kernel."""

    def __init__(self, root, release, kernel):
        """kernel: the release of the kernel that runs."""
        super().__init__(root, release)
        self.kernel = kernel
        self.modules = root / f"lib/modules/{kernel}/updates/kvm-stats"
        self.series = root / "series"

    def prepare(self):
        """Create the directory, unless its packages are those of the page, and copy the
        repository and unimported work of the kernel tree into it.
        """
        blocks = [block for block in pages.read_all() if block.page == PAGE]
        wanted = hashlib.sha256(repr([self.kernel, *(block.lines for block in blocks), *(
            path.read_text() for path in MAKE_ROOT)]).encode()).hexdigest()
        made = self.root / "made"
        if not made.is_file() or made.read_text() != wanted:
            self.make(KERNEL_VERSION=f"{self.kernel.partition('+')[0]}-*")
            uname = self.root / "usr/local/bin/uname"
            uname.write_text(UNAME.format(kernel=self.kernel))
            uname.chmod(0o755)
            # The package of Debian's kernel depends on it.
            steps.run_script("lab/fetch/enter-root", self.root, "apt-get", "install", "-q", "kmod")
            made.write_text(wanted)
        self.copy_repository()
        shutil.rmtree(self.series, ignore_errors=True)
        if work := series_file.find_unimported_work():
            print(f"modules: from {base_file.SHOWN} with {work}", file=sys.stderr)
            self.series.mkdir()
            (self.series / f"{base_file.NAME}.patch").write_bytes(diff_tree())

    @property
    def variables(self):
        """Variables of the environment for all blocks."""
        return [f"KVM_STATS_MODULES_SERIES=/{self.series.name}"] * self.series.is_dir()


class HostModules(Modules):
    """KVM's modules for Debian's x86-64 kernel, as a user installs them."""

    def __init__(self):
        super().__init__(AMD64)
        self.root = records.BASE_BUILD_DIR / "debian-host"
        # Debian's kernel with its own KVM, and the sample driver.
        self.debian = self.out / "debian"

    def make_host(self, root=None):
        """Return the host, in which the modules are installed after prepare(), or a copy of it in
        another directory.
        """
        return KernelHost(root or self.root, base_file.read_values()["debian_kernel"],
                          "".join(self.get_release()))

    def list_inputs(self):
        """Return the files that the modules depend on, in addition to the kernel tree."""
        return [PROGRAM, records.TOP / PAGE, records.TOP / "scripts/edits",
                *MAKE_ROOT, *super().list_inputs()]

    def build(self):
        """Install the modules by the first block of the page that is marked for this base."""
        shutil.rmtree(self.out, ignore_errors=True)
        host = self.make_host()
        host.prepare()
        block = next(block for block in pages.read_all() if block.page == PAGE
                     and block.is_run_by("modules", base_file.NAME))
        try:
            self._run("install", host.format_command(block, "KVM_STATS_MODULES_KEEP=1"))
        except steps.Failed as error:
            if "Failed to fetch" in str(error):
                raise steps.NotDelivered(str(error)) from error
            raise
        # Nothing differs: this lists the sources for BenchModules.
        copy_changed_sources(self.root / KEPT)
        # Another process that waits for its lock may have created it.
        self.out.mkdir(exist_ok=True)
        for name in self.modules:
            shutil.copy(host.modules / Path(name).name, self.out)
        self._build_sample(host)
        self._copy_debian_modules()

    def _build_sample(self, host):
        """Build the sample driver."""
        sample = host.root / "sample"
        shutil.rmtree(sample, ignore_errors=True)
        sample.mkdir()
        shutil.copy(base_file.TREE / "samples/vfio-mdev/mtty.c", sample)
        (sample / "Kbuild").write_text("obj-m := mtty.o\n")
        self._run("build the sample driver", [*host.enter, "make", "-C",
                                              f"/lib/modules/{host.kernel}/build", "M=/sample",
                                              "modules"])
        shutil.copy(sample / VFIO_MODULES[-1], self.out)

    def _copy_debian_modules(self):
        """Copy Debian's modules next to those of the series, and all to a second directory."""
        self.debian.mkdir()
        shutil.copy(self.out / VFIO_MODULES[-1], self.debian)
        for name in self.modules:
            shutil.copy(self.kernel_dir / Path(name).name, self.debian)
        for folder in (self.out, self.debian):
            self._copy_kernel(folder, *VFIO_MODULES[:-1])

    def _copy_kernel(self, folder, *more):
        """Copy Debian's kernel and the modules that KVM needs."""
        for name in ("vmlinuz", *self.target.needed, *more):
            shutil.copy(self.kernel_dir / name, folder)


class BenchModules(HostModules):
    """KVM's modules for work on the series: what changed in the kernel tree since they were
    installed, or since the last time, is compiled in the directory in which they were built.
    """

    def __init__(self):
        super().__init__()
        self.installed = self.out
        self.title = "bench"
        self.out = records.BASE_BUILD_DIR / self.title

    def build(self):
        """Compile the modules by the program that installs them."""
        if not (self.root / KEPT / "sources").is_file():
            HostModules().prepare()
        # Others use the host.
        with steps.lock_directory(self.installed):
            host = self.make_host()
            copy_changed_sources(self.root / KEPT)
            shutil.copy(PROGRAM, self.root / "repository/modules")
            self._run("compile", [*host.enter, "modules/kvm-stats-modules", "compile", host.kernel,
                                  f"/{KEPT}"])
            self.out.mkdir(exist_ok=True)
            self._run("strip", *(["strip", "--strip-debug", "-o", self.out / Path(name).name,
                                  self.root / KEPT / name] for name in self.modules))
        self._copy_kernel(self.out)
