# SPDX-License-Identifier: GPL-2.0-only
"""The UAPI headers of a kernel that has only some of the series.

Such a kernel is a branch of build/BASE/linux. Most of its headers equal those of the whole tree;
the others are installed into a separate directory, which the compiler searches first.
"""

from . import patch_file
from .base_file import TREE
from .series_file import BASE, git

# The directories of the kernel source that make headers_install reads.
UAPI = ("include/uapi", "arch/x86/include/uapi")


def list_kernels():
    """Return the base and each series that changes headers: names of branches, in their order."""
    found, last = [], None
    for name in (BASE, *patch_file.list_series()):
        content = git("rev-parse", *(f"{name}:{folder}" for folder in UAPI))
        if content != last:
            found.append(name)
        last = content
    return found


def make_install(objects, folder):
    """Return the command that installs the headers of the tree into folder/include."""
    return ["make", "-C", TREE, f"O={objects}", "ARCH=x86_64", f"INSTALL_HDR_PATH={folder}",
            "headers_install"]


def make_older(name, objects, folder):
    """Return the commands that install the headers of a branch which differ from the tree's.

    objects: the build directory from which the headers of the tree are installed.
    """
    commands = []
    for path in git("diff", "--name-only", name, patch_file.list_series()[-1], "--",
                    *UAPI).decode().splitlines():
        source, target = folder / "uapi" / path, folder / path.partition("/uapi/")[2]
        for each in (source, target):
            each.parent.mkdir(parents=True, exist_ok=True)
        source.write_bytes(git("show", f"{name}:{path}"))
        commands.append(["env", "-C", objects, "sh", TREE / "scripts/headers_install.sh", source,
                         target])
    return commands
