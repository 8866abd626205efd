# SPDX-License-Identifier: GPL-2.0-only
"""Tests of lab/host/debian_modules.py: the options of Debian's kernels and the targets."""

import tempfile
import unittest
from pathlib import Path
from unittest import mock

from host import debian_modules, records, steps

# As the tools generate them from CONFIG below.
CONF = "CONFIG_KVM=m\nCONFIG_PREEMPT=y\nCONFIG_HZ=250\n"
HEADER = "#define CONFIG_KVM_MODULE 1\n#define CONFIG_PREEMPT 1\n#define CONFIG_HZ 250\n"
CONFIG = CONF + "# CONFIG_EXPERT is not set\n"


class Options(unittest.TestCase):
    """Options that olddefconfig drops are restored, ignored or refused."""

    def restore(self, wanted, made, conf="", header=""):
        """Return the changed files for make and C, and the names of the options."""
        return debian_modules.restore_options(CONFIG + wanted, CONFIG + made, CONF + conf,
                                              HEADER + header)

    def test_same_options(self):
        """Nothing changes if the configurations have the same options."""
        self.assertEqual(self.restore("CONFIG_FPROBE=y\n", "CONFIG_FPROBE=y\n"),
                         (CONF, HEADER, []))

    def test_unset_option(self):
        """An option that is not set equals one that is missing."""
        self.assertEqual(self.restore("# CONFIG_FOO is not set\n", ""), (CONF, HEADER, []))

    def test_lost_options(self):
        """A lost option is restored with its value: yes, module or number."""
        self.assertEqual(
            self.restore("CONFIG_DYNAMIC_FTRACE=y\nCONFIG_FPROBE_EVENTS=m\n"
                         "CONFIG_FUNCTION_ALIGNMENT=8\n",
                         "# CONFIG_DYNAMIC_FTRACE is not set\nCONFIG_FUNCTION_ALIGNMENT=0\n",
                         "CONFIG_FUNCTION_ALIGNMENT=0\n", "#define CONFIG_FUNCTION_ALIGNMENT 0\n"),
            (CONF + "CONFIG_DYNAMIC_FTRACE=y\nCONFIG_FPROBE_EVENTS=m\n"
             "CONFIG_FUNCTION_ALIGNMENT=8\n",
             HEADER + "#define CONFIG_DYNAMIC_FTRACE 1\n#define CONFIG_FPROBE_EVENTS_MODULE 1\n"
             "#define CONFIG_FUNCTION_ALIGNMENT 8\n",
             ["CONFIG_DYNAMIC_FTRACE", "CONFIG_FPROBE_EVENTS", "CONFIG_FUNCTION_ALIGNMENT"]))

    def test_added_option(self):
        """An option that Debian's kernel does not have is removed."""
        self.assertEqual(self.restore("", "CONFIG_OBJTOOL=y\n", "CONFIG_OBJTOOL=y\n",
                                      "#define CONFIG_OBJTOOL 1\n"),
                         (CONF, HEADER, ["CONFIG_OBJTOOL"]))

    def test_option_with_a_flag(self):
        """An option whose flag the compiler lacks is restored in the C header only."""
        self.assertEqual(self.restore("CONFIG_STACKPROTECTOR=y\n", ""),
                         (CONF, HEADER + "#define CONFIG_STACKPROTECTOR 1\n",
                          ["CONFIG_STACKPROTECTOR"]))

    def test_tool_options(self):
        """Options that describe the tools keep their values."""
        self.assertEqual(self.restore(
            "CONFIG_GCC_VERSION=160200\nCONFIG_CC_HAS_COUNTED_BY=y\nCONFIG_AS_VERSION=24750\n"
            "CONFIG_RUST=y\nCONFIG_AX88796B_RUST_PHY=y\n",
            "CONFIG_GCC_VERSION=120200\nCONFIG_BUILD_SALT=\"\"\n"), (CONF, HEADER, []))

    def test_unknown_options(self):
        """Any other option that differs is refused by name, with both values."""
        for wanted, made, text in (
                ("CONFIG_SLAB_FREELIST_HARDENED=y\n", "",
                 "CONFIG_SLAB_FREELIST_HARDENED=n instead of y"),
                ("", "CONFIG_LOCKDEP=y\n", "CONFIG_LOCKDEP=y instead of n"),
                ("CONFIG_NR_CPUS=512\n", "CONFIG_NR_CPUS=64\n", "CONFIG_NR_CPUS=64 instead of 512"),
                # Only whole names are known.
                ("CONFIG_BUILD_SALT_X=y\n", "", "CONFIG_BUILD_SALT_X=n"),
                ("CONFIG_STACK_TRACER_X=y\n", "", "CONFIG_STACK_TRACER_X=n")):
            with self.subTest(wanted=wanted, made=made):
                with self.assertRaises(records.Invalid) as caught:
                    self.restore("CONFIG_FPROBE=y\n" + wanted, made)
                self.assertIn(f"changes 1 options of Debian's configuration: {text}",
                              str(caught.exception))


class Targets(unittest.TestCase):
    """The tests that run with the modules of each architecture."""

    UNLOADED = {"amd64": ["kvm_amd", "kvm"], "riscv64": ["kvm"], "ppc64el": ["kvm_hv", "kvm"],
                "s390x": ["kvm"]}

    def list_targets(self):
        """Return the modules of each architecture whose record the base has."""
        found = [debian_modules.Modules(name)
                 for name, target in debian_modules.TARGETS.items()
                 if target.record in records.list_names()]
        self.assertTrue(found)
        return found

    def test_modules(self):
        """The modules are unloaded in reverse order, except the lab's."""
        for modules in self.list_targets():
            self.assertEqual(modules.make_unload_test().argv,
                             ["unload", *self.UNLOADED[modules.architecture]])
            self.assertEqual(len({*modules.make_record().modules}),
                             len(modules.target.needed) + len(modules.modules))

    def test_tests(self):
        """Mainline's test runs first, if guests can run; no test needs another configuration."""
        for modules in self.list_targets():
            with self.subTest(architecture=modules.architecture):
                names = [path.name for path in debian_modules.list_selftests(modules.record)]
                self.assertEqual("kvm_binary_stats_test" == names[0],
                                 modules.architecture != "s390x")
                self.assertEqual(names.count("kvm_stats_lifetime"), 1)
                self.assertNotIn("kvm_stats_stress", names)
                self.assertEqual("pv_perf_events_test" in names, modules.record.arch == "x86_64")
                self.assertNotIn("pv_perf_hostile", names)
                self.assertEqual([path.name for path in debian_modules.list_selftests(
                                     modules.record, whole=False)],
                                 names[:1] if modules.architecture != "s390x" else [])


class Fetch(unittest.TestCase):
    """Debian's kernel has the version of the source."""

    def setUp(self):
        work = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.modules = debian_modules.Modules("riscv64")
        self.modules.kernel_dir = work / "kernel"
        source = work / "linux"
        source.mkdir()
        (source / "Makefile").write_text("VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\n")
        self.enterContext(mock.patch.object(records.base_file, "TREE", source))

    def write(self, release):
        """Write the release name of a fetched kernel."""
        self.modules.kernel_dir.mkdir(exist_ok=True)
        (self.modules.kernel_dir / "release").write_text(f"{release}\n")

    def fetch(self, offered):
        """Fetch from a mirror that offers a release; return whether a kernel was cached."""
        cached = []

        def run_script(*_, **variables):
            self.assertEqual(variables, {"KERNEL_VERSION": "7.3.4-*", "ARCHITECTURE": "riscv64"})
            cached.append(self.modules.kernel_dir.exists())
            if not cached[0]:
                self.write(offered)

        with mock.patch.object(steps, "run_script", run_script):
            self.modules.fetch()
        return cached[0]

    def test_version(self):
        """A cached kernel of another version is removed, one of the same version is used."""
        self.assertFalse(self.fetch("7.3.4+deb13-riscv64"))
        self.assertTrue(self.fetch("7.3.5+deb13-riscv64"))
        self.write("7.3.3+deb13-riscv64")
        self.assertFalse(self.fetch("7.3.4+deb13-riscv64"))

    def test_version_that_is_not_offered(self):
        """If the mirror offers another version only, the package counts as not delivered."""
        with self.assertRaisesRegex(steps.NotDelivered, "is 7.3.5.deb13-riscv64, .* is 7.3.4$"):
            self.fetch("7.3.5+deb13-riscv64")
