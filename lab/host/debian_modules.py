# SPDX-License-Identifier: GPL-2.0-only
"""KVM's modules with the series, for loading into Debian's own kernel.

Those for x86-64 are built as users build them, see debian_host.py. Those for other architectures
are cross-built here: only KVM is built, from build/BASE/linux, with the configuration of Debian's
kernel, and with the CRCs of its symbols if that kernel checks CRCs.
"""

import dataclasses
import os
import re
import shutil
from pathlib import Path

from . import kernel, programs, records, steps, suite

PACKAGES = ("flex", "bison", "bc", "libelf-dev", "libssl-dev", "dwarves", "rsync",
            "zlib1g-dev", "python3")
# These need a kernel with sanitizers or fault injection, or a separate test machine.
EXCLUDED_TESTS = ("kvm_stats_faults", "kvm_stats_stress", "pv_perf_hostile")
# A result channel on PCI: Debian's kernels have no other transport of virtio built in.
CHANNEL = ("-device", "virtio-serial-pci", "-device", "virtconsole,chardev=verdict")


@dataclasses.dataclass(frozen=True)
class Target:
    """An architecture of Debian for which KVM's modules are built."""

    # The record with the toolchain and the test machine, and the values that differ.
    record: str
    machine: dict = dataclasses.field(default_factory=dict)
    # The modules that are built, by default the record's, in the order in which they are
    # loaded; before them, Debian's own modules that KVM needs are loaded.
    modules: tuple = ()
    needed: tuple = ()
    # Additional arguments of make and of the compiler.
    make: tuple = ()
    cflags: tuple = ()


# The keys are Debian's names.
AMD64 = "amd64"
TARGETS = {
    # The selftests need nested paging, so the machine has one CPU, see x86_64.record.
    AMD64: Target("x86_64-npt", modules=("arch/x86/kvm/kvm.ko", "arch/x86/kvm/kvm-amd.ko"),
                  needed=("irqbypass.ko", "ccp.ko")),
    # Functions of KVM need not be traceable: Debian's compiler leaves room for the calls that
    # gcc 12 cannot create.
    "riscv64": Target("riscv64", {"verdict": CHANNEL}, make=("CC_FLAGS_FTRACE=",)),
    # KVM-HV instead of KVM-PR, which Debian does not build: QEMU implements the hypercalls of
    # nested KVM-HV. A part of KVM-HV is in Debian's vmlinux: it uses only members of struct kvm
    # and struct kvm_vcpu that precede those that the series add.
    "ppc64el": Target("ppc64", {"verdict": CHANNEL, "cmdline": "console=hvc0", "qemu": (
        "qemu-system-ppc64", "-M", "pseries,cap-nested-hv=true", "-cpu", "POWER9")},
                      modules=("arch/powerpc/kvm/kvm.ko", "arch/powerpc/kvm/kvm-hv.ko"),
                      make=("CC_FLAGS_FTRACE=",)),
    # QEMU 7.2 computes LARL addresses at a distance of more than 2 GB wrong, 4 GB too low: read
    # the addresses of per-CPU variables from a table instead.
    "s390x": Target("s390x", make=("CC_FLAGS_FTRACE=",),
                    cflags=("-DCONFIG_ARCH_MODULE_NEEDS_WEAK_PER_CPU=1",)),
}

# Options on which no structure depends.
TOOL_OPTIONS = re.compile("CONFIG_(?:" + "|".join((
    # The tools, their flags, and the keys of a build.
    r"(?:AS|BINDGEN|CC|CLANG|GCC|LD|OPENSSL|PAHOLE|RUST|RUSTC|TOOLCHAIN|TOOLS)_\w+",
    "BUILD_SALT", r"MODULE_SIG_\w+", "SYSTEM_TRUSTED_KEYS",
    # Rust and drivers written in it.
    "RUST", r"\w+_RUST_\w+", "AMCC_QT2025_PHY", r"DRM_PANIC_SCREEN_QR_\w+")) + ")")
# Options that depend on the compiler, and on which structures of the kernel depend, or options
# that depend on these.
RESTORED_OPTIONS = re.compile("CONFIG_(?:" + "|".join((
    # Function tracing: in struct module and in struct ftrace_ops.
    r"(?:HAVE_)?DYNAMIC_FTRACE\w*", r"(?:HAVE_)?FUNCTION_(?:GRAPH_)?TRACER",
    r"HAVE_SAMPLE_FTRACE_\w+", r"FTRACE_MCOUNT_USE_\w+", r"PPC_FTRACE_\w+", "OBJTOOL",
    "ARCH_USING_PATCHABLE_FUNCTION_ENTRY", "ARCH_WANTS_PRE_LINK_VMLINUX",
    "BUILDTIME_MCOUNT_SORT", r"FUNCTION_ALIGNMENT\w*", r"FPROBE\w*", "STACK_TRACER",
    "TASKS_RUDE_RCU", "HID_BPF",
    # Shadow stacks: in struct thread_info.
    "RISCV_USER_CFI", "ARCH_HAS_USER_SHADOW_STACK", "ARCH_USES_HIGH_VMA_FLAGS",
    "RISCV_ISA_ZABHA",
    # The canary: in struct task_struct.
    r"(?:HAVE_)?STACKPROTECTOR\w*")) + ")")
# Restored in the C header only: in make, they add flags that the compiler does not have.
ONLY_IN_HEADER = re.compile(r"CONFIG_STACKPROTECTOR\w*")


def restore_options(wanted, made, conf, header):
    """Restore the options of Debian's kernel that olddefconfig has dropped.

    An older compiler lacks features. Structures depend on the options, so the modules must be
    built with those of the kernel. asm-offsets.h is not generated again: KVM's assembly uses
    only offsets in KVM's own structures.

    wanted, made: Debian's configuration and the one that olddefconfig has made of it; conf,
    header: the generated files for make and for C. Return both as they have to be, and the
    names of the restored options. Raise Invalid if the configurations differ in an option that
    is neither restored nor about tools.
    """
    wanted, made = kernel.parse_options(wanted), kernel.parse_options(made)
    changed = [name for name in sorted(wanted.keys() | made.keys())
               if wanted.get(name, "n") != made.get(name, "n")
               and not TOOL_OPTIONS.fullmatch(name)]
    unknown = [f"{name}={made.get(name, 'n')} instead of {wanted.get(name, 'n')}"
               for name in changed if not RESTORED_OPTIONS.fullmatch(name)]
    if unknown:
        raise records.Invalid(f"the compiler changes {len(unknown)} options of Debian's "
                              f"configuration: {', '.join(unknown)}")
    for name in changed:
        value = wanted.get(name, "n")
        conf = re.sub(rf"^{name}=.*\n", "", conf, flags=re.M)
        header = re.sub(rf"^#define {name}(?:_MODULE)? .*\n", "", header, flags=re.M)
        if value == "n":
            continue
        if not ONLY_IN_HEADER.fullmatch(name):
            conf += f"{name}={value}\n"
        header += (f"#define {name}_MODULE 1\n" if value == "m" else
                   f"#define {name} {1 if value == 'y' else value}\n")
    return conf, header, changed


def list_selftests(record, whole=True):
    """Return the path of mainline's test, which runs a vCPU, and, if `whole` is set, those of the
    selftests that the series add.
    """
    ours = [path for path in programs.list_selftests(record) if path.name not in EXCLUDED_TESTS]
    return [*([Path(programs.UPSTREAM_TEST)] if record.level == "guest" else []),
            *(ours if whole else [])]


def make_test(path):
    """Return the test of a selftest; the machine has one CPU."""
    return suite.Test(path.name, [path.name], suite.judge_partly
                      if path.name in suite.PARTLY_ON_ONE_CPU else None)


def list_tests(record, whole=True):
    """Return the tests of list_selftests() and that of kvm-stats for suite.boot()."""
    return [*(make_test(path) for path in list_selftests(record, whole)),
            suite.Test("kvm-stats", ["sources", "next", "files"])]


class Modules:
    """KVM's modules for the kernel of one architecture."""

    def __init__(self, architecture):
        self.architecture = architecture
        self.target = TARGETS[architecture]
        suffix = "" if architecture == AMD64 else f"-{architecture}"
        self.title = f"debian-modules{suffix}"
        # The modules and Debian's kernel.
        self.out = records.BASE_BUILD_DIR / self.title
        # Modules are built in a copy of the source: their objects end up next to it.
        self.made = self.out / "made"
        # The directory of Debian's kernel is named after the release.
        self.kernel_dir = (records.BUILD / "debian-kernels" /
                           f"{records.base_file.read_values()['debian_kernel']}{suffix}")
        self.record = records.Record(self.target.record)
        # Paths below the directories of the build and of the source.
        self.modules = self.target.modules or self.record.modules

    def get_release(self):
        """Return the version and the suffix in the release name of Debian's kernel."""
        return re.fullmatch(r"([\d.]+)(\S*)",
                            (self.kernel_dir / "release").read_text().strip()).groups()

    def fetch(self):
        """Fetch Debian's kernel in the version of the source, which the modules need."""
        found = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$",
                                (records.base_file.TREE / "Makefile").read_text(), re.M))
        source = ".".join(found[key] for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL"))
        if (self.kernel_dir / "release").is_file() and self.get_release()[0] != source:
            shutil.rmtree(self.kernel_dir)
        steps.run_script("lab/fetch/fetch-debian-kernel",
                         records.base_file.read_values()["debian_kernel"],
                         KERNEL_VERSION=f"{source}-*", **({} if self.architecture == AMD64 else
                                                          {"ARCHITECTURE": self.architecture}))
        if self.get_release()[0] != source:
            raise steps.NotDelivered(f"Debian's kernel in {self.kernel_dir.name} is "
                                     f"{''.join(self.get_release())}, "
                                     f"{records.base_file.SHOWN} is {source}")

    def make_unload_test(self):
        """Return the test that unloads the modules. The lab's module cannot be unloaded."""
        names = [Path(name).stem.replace("-", "_") for name in self.modules
                 if not name.startswith("extmod/")]
        return suite.Test("unload", ["unload", *reversed(names)])

    def make_record(self, userland=None, more_modules=(), folder=None):
        """Return the record of a machine with Debian's kernel and the modules of a directory.

        userland: its programs, by default the record's; folder: by default, that of the
        modules with the series.
        """
        return self.record.replace(
            kernel=folder or self.out, image="vmlinuz", modules=(
                *self.target.needed, *(Path(name).name for name in self.modules), *more_modules),
            userland=userland or self.record.userland, **self.target.machine)

    def _configure(self, make):
        """Configure the source as Debian's kernel and prepare the build of modules."""
        config = (self.kernel_dir / "config").read_text()
        build = self.out / "kernel"
        build.mkdir(parents=True)
        # Debian's kernel does not check signatures, and there is no key for one.
        (build / ".config").write_text(re.sub(
            r"^(CONFIG_SYSTEM_TRUSTED_KEYS)=.*$", r'\1=""', config, flags=re.M))
        if "CONFIG_MODVERSIONS=y\n" in config:
            # fetch-debian-kernel has fetched it.
            shutil.copy(self.kernel_dir / "Module.symvers", build)
        self._run("prepare", [*make, "olddefconfig"], [*make, "modules_prepare"])
        conf, header = build / "include/config/auto.conf", build / "include/generated/autoconf.h"
        new_conf, new_header, changed = restore_options(
            config, (build / ".config").read_text(), conf.read_text(), header.read_text())
        if changed:
            conf.write_text(new_conf)
            header.write_text(new_header)

    def _run(self, what, *commands):
        log = records.BASE_BUILD_DIR / f"logs/{self.title}-{what.replace(' ', '-')}.log"
        steps.run(f"{self.title}: {what}", log, *commands)

    def build(self):
        """Build the modules with Debian's configuration."""
        record, source = self.record, self.record.source
        shutil.rmtree(self.out, ignore_errors=True)
        folder = next(Path(name).parent for name in self.modules if name.endswith("/kvm.ko"))
        make = ["make", "-C", source, f"O={self.out}/kernel", f"ARCH={record.arch}",
                f"CROSS_COMPILE={record.cross_compile}", f"LOCALVERSION={self.get_release()[1]}",
                # Nothing reads their types, and they compile faster without. The header files
                # of tracepoints are included from the directory of the objects.
                " ".join([f"KCFLAGS=-g0 -I{self.made}/{folder}", *self.target.cflags]),
                "CONFIG_DEBUG_INFO_BTF=", *self.target.make, f"-j{os.cpu_count()}",
                # vmlinux, which has the symbols, is not built.
                "KBUILD_MODPOST_WARN=1"]
        directories = [self.made / folder]
        for name in (f"arch/{record.srcarch}/kvm", "virt/kvm"):
            shutil.copytree(source / name, self.made / name)
        if record.extmod:
            shutil.copytree(records.INSIDE / record.extmod, self.made / "extmod")
            directories.append(self.made / "extmod")
        with steps.lock_directory(records.BASE_BUILD_DIR / "kernels"):
            self._configure(make)
            self._run("build KVM", *([*make, f"M={name}", "modules"] for name in directories))
        for name in self.modules:
            shutil.copy(self.made / name, self.out)
        shutil.copy(self.kernel_dir / "vmlinuz", self.out)

    def list_inputs(self):
        """Return the files that the modules depend on, in addition to the kernel tree."""
        extmod = self.record.extmod and sorted((records.INSIDE / self.record.extmod).iterdir())
        return [Path(__file__), self.kernel_dir / "config", self.kernel_dir / "release",
                *(extmod or [])]

    def prepare(self):
        """Fetch Debian's kernel, and build the modules unless nothing has changed."""
        self.fetch()
        steps.run_script("lab/fetch/install-packages", *PACKAGES)
        steps.install_packages(self.record)
        steps.build_if_changed(self.out, self.make_record(), self.list_inputs(),
                               ("Documentation", "tools/testing"), self.build)
