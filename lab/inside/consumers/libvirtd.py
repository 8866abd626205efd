# SPDX-License-Identifier: GPL-2.0-only
"""libvirt's daemon in the lab's guest, and its client."""

import contextlib
import subprocess
from pathlib import Path

import consumer

# There is nobody but root, and no virtlogd.
FILES = {
    "/etc/passwd": "root:x:0:0::/:\nlibvirt-qemu:x:64055:64055::/:\n",
    "/etc/group": "root:x:0:\nkvm:x:104:\nlibvirt-qemu:x:64055:\n",
    "/etc/libvirt/libvirtd.conf": 'auth_unix_rw = "none"\n',
    "/etc/libvirt/qemu.conf": """\
user = "root"
group = "root"
security_driver = "none"
namespaces = []
cgroup_controllers = []
seccomp_sandbox = 0
stdio_handler = "file"
"""}
SOCKET = Path("/run/libvirt/libvirt-sock")


def virsh(*command, limit=120):
    """What virsh prints, in so many seconds."""
    done = consumer.run(["virsh", "-q", *command], limit)
    if done.returncode:
        raise RuntimeError(f"virsh {command[0]}: {done.stderr.strip()}")
    return done.stdout


def pid(domain):
    """Of its QEMU."""
    return int(Path(f"/run/libvirt/qemu/{domain}.pid").read_text())


@contextlib.contextmanager
def running():
    """The daemon's process, once it answers; it is killed in the end."""
    for name, text in FILES.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    SOCKET.unlink(missing_ok=True)
    with subprocess.Popen("libvirtd") as libvirtd:
        try:
            consumer.wait_for("libvirtd's socket", SOCKET.exists)
            for line in virsh("version").splitlines():
                print("#", line)
            yield libvirtd
        finally:
            libvirtd.kill()
