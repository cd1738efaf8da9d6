# SPDX-License-Identifier: Apache-2.0
"""Builds the guests of guest/ from Debian packages: `make guest-image`.

Two guests share a kernel and their setup (guest/rdd-init, cidata):

* `small`: everything in the initial RAM disk, ssh after about five seconds, for tests;
* `debian`: a Debian with systemd, ssh and docker on a disk.

Each is a directory with file names as in an instance (`image`, `kernel`, `kernel.cmdline`,
`initrd`), the form of RDD_GUEST_IMAGE. Results are cached in .cache/guest by the hash of the
package versions and of the sources in this repository; `current` links to the newest. The
build needs no loop device and no mount, but it needs root: files in the guest belong to root.
Packages come from the Debian mirror of this host.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

TOP = Path(__file__).parents[1]
GUEST = TOP / "guest"
CACHE = TOP / ".cache" / "guest"
RELEASE = "bookworm"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

KERNEL = "linux-image-cloud-amd64"
SMALL = ("busybox-static", "dropbear-bin")
# What the host agent and a rootless engine need: the driver `host` is tested in the Debian guest,
# too, because it has control groups of version 2 only, and systemd.
HOST_DRIVER = (
    "python3",
    "python3-yaml",
    "rootlesskit",
    "slirp4netns",
    "uidmap",
    "dbus-user-session",
    "libpam-systemd",
)
DEBIAN = (
    "systemd",
    "systemd-sysv",
    "udev",
    "dbus",
    "openssh-server",
    "iproute2",
    "kmod",
    "sudo",
    "e2fsprogs",
    "util-linux-extra",
    "docker.io",
    "iptables",
    "ca-certificates",
    "sshfs",
    "busybox-static",
    *HOST_DRIVER,
)
# In load order; dependencies are added.
MODULES = (
    "virtio_pci",
    "virtio_blk",
    "virtio_net",
    "virtio_balloon",
    "virtio-rng",
    "isofs",
    "button",
    "evdev",
    "virtiofs",
)
DISK_MB = 1400
SMALL_DISK_MB = 512
COMMAND_LINE = (
    "console=ttyS0 quiet mitigations=off random.trust_cpu=on no_timer_check tsc=reliable"
    " apparmor=0 selinux=0 panic=5"
)

# Services that are useless without console, mail or package upgrades; each costs a fraction of
# a second of an emulated boot.
MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty.target",
    "serial-getty@ttyS0.service",
    "systemd-networkd-wait-online.service",
    "systemd-pcrphase.service",
    "systemd-pcrphase-sysinit.service",
    "systemd-update-utmp.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-binfmt.service",
    "proc-sys-fs-binfmt_misc.automount",
    "systemd-ask-password-wall.path",
    "systemd-ask-password-console.path",
    "systemd-machine-id-commit.service",
    "systemd-firstboot.service",
    "systemd-sysusers.service",
    "systemd-hwdb-update.service",
    "systemd-journal-flush.service",
    # The kernel creates the nodes in /dev, the initial RAM disk has loaded the modules.
    "systemd-udevd.service",
    "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket",
    "systemd-udev-trigger.service",
    "systemd-udev-settle.service",
    "systemd-logind.service",
    "modprobe@configfs.service",
    "modprobe@dm_mod.service",
    "modprobe@drm.service",
    "modprobe@fuse.service",
    "modprobe@loop.service",
    "systemd-network-generator.service",
    "systemd-tmpfiles-clean.timer",
    "systemd-random-seed.service",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "kmod-static-nodes.service",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "modprobe@efi_pstore.service",
    "systemd-pstore.service",
    "keyboard-setup.service",
    "console-setup.service",
)


CONTAINERD_UNUSED = (
    "grpc.v1.cri",
    "snapshotter.v1.aufs",
    "snapshotter.v1.btrfs",
    "snapshotter.v1.devmapper",
    "snapshotter.v1.zfs",
    "internal.v1.tracing",
    "tracing.processor.v1.otlp",
)


def run(*command: object) -> str:
    """Run a program and return its output; exit with its errors on failure."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def mirrors() -> list[str]:
    """Return lines for sources.list: the mirrors configured on this host."""
    text = ""
    for path in [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]:
        text += path.read_text() if path.is_file() else ""
    found = re.findall(r"https?://[^\s\]]+", text)

    def pick(ending: str) -> str:
        matching = [url.rstrip("/") for url in found if url.rstrip("/").endswith(ending)]
        return matching[0] if matching else f"http://deb.debian.org{ending}"

    option = f"[signed-by={KEYRING}]"
    return [
        f"deb {option} {pick('/debian')} {RELEASE} main",
        f"deb {option} {pick('/debian-security')} {RELEASE}-security main",
    ]


class Packages:
    """apt with lists and archives of its own, separate from those of the host."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.sources = directory / "sources.list"
        for name in ("lists/partial", "cache/archives/partial"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        self.sources.write_text("\n".join(mirrors()) + "\n")
        (directory / "status").touch()

    def apt(self, *arguments: object) -> str:
        """Run apt-get with an empty package status."""
        options = {
            "Dir::Etc::SourceList": self.sources,
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": self._directory / "lists",
            "Dir::State::Status": self._directory / "status",
            "Dir::Cache": self._directory / "cache",
            "APT::Sandbox::User": "root",
            "APT::Install-Recommends": "0",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
        }
        words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        return run("apt-get", "-q", *words, *arguments)

    def versions(self, *names: str) -> dict[str, str]:
        """Return the versions of `names` and their dependencies by name."""
        plan = self.apt("--simulate", "install", *names)
        return dict(re.findall(r"^Inst (\S+) \((\S+) ", plan, re.M))

    def unpack(self, names: Iterable[str], into: Path) -> None:
        """Extract the files of packages without running their scripts."""
        downloads = self._directory / "download"
        shutil.rmtree(downloads, ignore_errors=True)
        downloads.mkdir()
        words = list(names)
        for name in words:
            self.apt("-d", "-y", "-o", f"Dir::Cache::archives={downloads}/", "install", name)
        wanted = {path.name.partition("_")[0]: path for path in downloads.glob("*.deb")}
        into.mkdir(parents=True, exist_ok=True)
        for name in words:
            run("dpkg-deb", "-x", wanted[name], into)


def archive(entries: Iterable[tuple[str, int, bytes]]) -> bytes:
    """Return a cpio archive (newc), owned by root, for the kernel."""
    out = bytearray()
    for number, (name, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        path = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
        out += b"070701" + b"".join(b"%08X" % field for field in fields) + path
        out += b"\0" * (-len(out) % 4) + data
        out += b"\0" * (-len(out) % 4)
    return bytes(out)


def directories(*paths: str) -> Iterator[tuple[str, int, bytes]]:
    """Yield entries for directories and their parents."""
    seen = {""}
    for path in paths:
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            name = "/".join(parts[:end])
            if name not in seen:
                seen.add(name)
                yield name, 0o040755, b""


def module_files(unpacked: Path) -> tuple[str, list[Path]]:
    """Return the kernel's version and the modules in load order."""
    (tree,) = (unpacked / "lib" / "modules").iterdir()
    run(unpacked / "bin" / "busybox", "depmod", "-b", unpacked, tree.name)
    lines = (tree / "modules.dep").read_text().splitlines()
    needs = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    by_name = {Path(name).stem.replace("-", "_"): name for name in needs}
    order: list[str] = []

    def add(name: str) -> None:
        for need in reversed(needs[name]):
            if need not in order:
                add(need)
        if name not in order:
            order.append(name)

    for module in MODULES:
        add(by_name[module.replace("-", "_")])
    return tree.name, [tree / name for name in order]


def boot_entries(unpacked: Path, modules: Sequence[Path]) -> Iterator[tuple[str, int, bytes]]:
    """Yield the entries of both RAM disks: busybox, init, modules."""
    busybox = unpacked / "bin" / "busybox"
    yield from directories("bin", "sbin", "usr/bin", "usr/sbin", "modules")
    yield from directories("dev", "proc", "sys", "run", "etc", "lib", "lib64")
    yield "bin/busybox", 0o104755, busybox.read_bytes()
    for applet in run(busybox, "--list").split():
        if applet != "busybox":
            yield f"bin/{applet}", 0o120777, b"/bin/busybox"
    yield "init", 0o100755, (GUEST / "initramfs-init").read_bytes()
    for module in modules:
        yield f"modules/{module.name}", 0o100644, module.read_bytes()
    order = "".join(module.name + "\n" for module in modules)
    yield "modules/order", 0o100644, order.encode()


def small_entries(unpacked: Path) -> Iterator[tuple[str, int, bytes]]:
    """Yield the further entries of the small guest: ssh server, accounts, services."""
    for name in ("sbin/dropbear", "bin/dropbearkey"):
        yield f"usr/{name}", 0o100755, (unpacked / "usr" / name).read_bytes()
    output = run(
        unpacked / "lib64" / "ld-linux-x86-64.so.2",
        "--library-path",
        f"{unpacked}/lib/x86_64-linux-gnu:{unpacked}/usr/lib/x86_64-linux-gnu",
        "--list",
        unpacked / "usr/sbin/dropbear",
    )
    yield from directories("lib/x86_64-linux-gnu", "etc/dropbear", "etc/acpi/PWRF")
    for path in re.findall(r"(/\S+\.so\S*) \(", output):
        name = Path(path).name
        folder = "lib64" if name.startswith("ld-linux") else "lib/x86_64-linux-gnu"
        yield f"{folder}/{name}", 0o100755, Path(path).read_bytes()
    libraries = [Path(path).name for path in re.findall(r"(/\S+\.so\S*) \(", output)]
    if not any(name.startswith("ld-linux") for name in libraries):
        loader = unpacked / "lib64" / "ld-linux-x86-64.so.2"
        yield "lib64/ld-linux-x86-64.so.2", 0o100755, loader.read_bytes()
    yield "usr/sbin/rdd-init", 0o100755, (GUEST / "rdd-init").read_bytes()
    yield "usr/bin/sudo", 0o100755, (GUEST / "sudo").read_bytes()
    yield "etc/inittab", 0o100644, (GUEST / "inittab").read_bytes()
    yield "etc/acpi/PWRF/00000080", 0o100755, b"#!/bin/sh\nexec poweroff\n"
    yield "etc/passwd", 0o100644, b"root:x:0:0:root:/root:/bin/sh\n"
    # An empty password: the guest's sudo uses su. A login needs a key.
    yield "etc/shadow", 0o100600, b"root::19000:0:99999:7:::\n"
    yield "etc/group", 0o100644, b"root:x:0:\nsudo:x:27:\ntty:x:5:\n"
    yield "etc/shells", 0o100644, b"/bin/sh\n/bin/ash\n"
    yield "etc/hosts", 0o100644, b"127.0.0.1 localhost\n::1 localhost\n"
    yield (
        "etc/profile",
        0o100644,
        b"set -a\n[ ! -e /etc/environment ] || . /etc/environment\nset +a\n",
    )


def build_small(target: Path, unpacked: Path, modules: Sequence[Path]) -> None:
    """Build the guest in the RAM disk, with a small data disk for tests."""
    entries = [*boot_entries(unpacked, modules), *small_entries(unpacked)]
    (target / "initrd").write_bytes(archive(entries))
    (target / "kernel.cmdline").write_text(COMMAND_LINE + "\n")
    run("mke2fs", "-q", "-t", "ext4", "-L", "data", target / "image", f"{SMALL_DISK_MB}M")


def build_debian(
    target: Path, unpacked: Path, modules: Sequence[Path], packages: Packages, work: Path
) -> None:
    """Build the guest on a disk."""
    root = work / "root"
    run(
        "mmdebstrap",
        "--mode=root",
        "--variant=apt",
        "--dpkgopt=force-unsafe-io",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        '--aptopt=APT::Install-Recommends "0"',
        '--aptopt=Acquire::Retries "3"',
        f"--include={','.join(DEBIAN)}",
        RELEASE,
        root,
        packages.sources,
    )
    shutil.copytree(unpacked / "lib" / "modules", root / "lib" / "modules", symlinks=True)
    for tree in (root / "lib" / "modules").iterdir():
        run("chroot", root, "depmod", tree.name)  # indexes in kmod's format
    shutil.copy(GUEST / "rdd-init", root / "usr/sbin/rdd-init")
    (root / "usr/sbin/rdd-init").chmod(0o755)
    units = root / "etc/systemd/system"
    power = root / "etc/acpi/PWRF/00000080"
    power.parent.mkdir(parents=True)
    power.write_text("#!/bin/sh\nexec systemctl poweroff\n")
    power.chmod(0o755)
    for name in ("rdd-init-setup.service", "rdd-init-boot.service", "rdd-power.service"):
        shutil.copy(GUEST / name, units / name)
        (units / name).chmod(0o644)
    wants = {
        "sysinit.target.wants/rdd-init-setup.service": "../rdd-init-setup.service",
        "multi-user.target.wants/rdd-init-boot.service": "../rdd-init-boot.service",
        "sysinit.target.wants/rdd-power.service": "../rdd-power.service",
    }
    for name, goal in wants.items():
        (units / name).parent.mkdir(exist_ok=True)
        (units / name).symlink_to(goal)
    for name in MASKED:
        (units / name).unlink(missing_ok=True)
        (units / name).symlink_to("/dev/null")
    # The configuration check of sshd takes a second of emulated time.
    (units / "ssh.service.d").mkdir()
    (units / "ssh.service.d" / "rdd.conf").write_text("[Service]\nExecStartPre=\n")
    # Only the user's own systemd needs its module of PAM; a login would ask logind, which is off.
    run("chroot", root, "pam-auth-update", "--package", "--remove", "systemd")
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()  # every machine generates its own
    # Probing plugins for other file systems and for Kubernetes takes containerd seconds.
    (root / "etc/containerd").mkdir(exist_ok=True)
    unused = ", ".join(f'"io.containerd.{name}"' for name in CONTAINERD_UNUSED)
    (root / "etc/containerd/config.toml").write_text(
        f"version = 2\ndisabled_plugins = [{unused}]\n"
    )
    (root / "etc/machine-id").write_text("")
    (root / "etc/hostname").write_text("rdd-guest\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    (root / "etc/fstab").write_text("/dev/vda / ext4 rw,relatime 0 0\n")
    (root / "etc/systemd/journald.conf.d").mkdir(parents=True, exist_ok=True)
    (root / "etc/systemd/journald.conf.d/rdd.conf").write_text(
        "[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\n"
    )
    raw = work / "disk.raw"
    run("mke2fs", "-q", "-t", "ext4", "-L", "rdd-root", "-d", root, raw, f"{DISK_MB}M")
    run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, target / "image")
    (target / "initrd").write_bytes(archive(boot_entries(unpacked, modules)))
    (target / "kernel.cmdline").write_text(f"{COMMAND_LINE} root=/dev/vda rw\n")


def fingerprint(versions: dict[str, str]) -> str:
    """Return the name of a build: a hash of all its inputs."""
    hasher = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted(GUEST.iterdir()):
        if path.is_file():
            hasher.update(path.name.encode() + b"\0" + path.read_bytes())
    for item in sorted(versions.items()):
        hasher.update("=".join(item).encode() + b"\n")
    return hasher.hexdigest()[:16]


def main() -> None:
    """Build the guests unless they are cached, and link `current` to them."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        provide()


def provide() -> None:
    """Build or reuse the guests; the caller holds the lock."""
    packages = Packages(CACHE / "apt")
    try:
        packages.apt("update")
    except SystemExit as error:
        if not (CACHE / "current" / "packages").exists():
            raise
        sys.stdout.write(f"using the cached guests: {str(error.code).splitlines()[-1]}\n")
        return
    versions = packages.versions(KERNEL, *SMALL, *DEBIAN)
    target = CACHE / fingerprint(versions)
    if not target.exists():
        if os.geteuid() != 0:
            sys.exit("building the guests needs root; run: sudo make guest-image")
        build(target, packages, versions)
    link = CACHE / f"current.{os.getpid()}"
    link.symlink_to(target.name)
    link.replace(CACHE / "current")
    sys.stdout.write(f"guests: {CACHE / 'current'}\n")


def build(target: Path, packages: Packages, versions: dict[str, str]) -> None:
    """Build both guests in a directory that is renamed when they are complete."""
    work = CACHE / f"work.{os.getpid()}"
    result = work / "result"
    shutil.rmtree(work, ignore_errors=True)
    try:
        unpacked = work / "unpacked"
        (kernel,) = (name for name in versions if name.startswith("linux-image-6"))
        libraries = ("libc6", "libcrypt1", "libtomcrypt1", "libtommath1", "libgmp10", "zlib1g")
        sys.stdout.write("building the small guest\n")
        packages.unpack([kernel, *SMALL, *libraries], unpacked)
        _, modules = module_files(unpacked)
        (image,) = (unpacked / "boot").glob("vmlinuz-*")
        for name in ("small", "debian"):
            (result / name).mkdir(parents=True)
        shutil.copy(image, result / "small" / "kernel")
        os.link(result / "small" / "kernel", result / "debian" / "kernel")
        build_small(result / "small", unpacked, modules)
        sys.stdout.write("building the Debian guest\n")
        sys.stdout.flush()
        build_debian(result / "debian", unpacked, modules, packages, work)
        lines = [f"{name}={version}\n" for name, version in sorted(versions.items())]
        (result / "packages").write_text("".join(lines))
        for old in CACHE.iterdir():
            if re.fullmatch(r"[0-9a-f]{16}", old.name):
                shutil.rmtree(old)
        result.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
