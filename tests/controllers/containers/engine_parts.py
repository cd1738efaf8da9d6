# SPDX-License-Identifier: Apache-2.0
"""A real dockerd and containerd for tests, and a registry.

The engine runs in its own namespaces (processes, mounts, a network with only loopback):
ending its first process ends everything that it started, and nothing is left on the host.
Its root image is Debian's static busybox.
"""

import hashlib
import http.client
import io
import json
import os
import shutil
import socket
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.programs import CompletedProcess, Program, run_program, start_program

ROOT = Path(__file__).parents[3]
START_S = 120.0
IMAGE = "busybox:latest"
APPLETS = (
    "sh", "sleep", "echo", "cat", "ls", "true", "false", "stty", "yes", "env", "seq", "head",
    "printf", "dd", "tail", "pwd", "tee",
)  # fmt: skip


# Separate processes and mounts; /run is separate because runtimes keep state there.
ISOLATED = (
    "unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc",
    "sh", "-c", 'mount -t tmpfs run /run && exec "$@"', "sh",
)  # fmt: skip


class Dockerd:
    """An engine that can be killed and restarted with the same data."""

    def __init__(self, program: Path, directory: Path) -> None:
        self.program = program
        self.directory = directory
        self.socket = directory / "d.sock"
        self._process: Program[str] | None = None
        self._log = directory / "log"

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
        # Only the path of the socket must be short.
        with self._log.open("ab") as log:
            self._process = start_program(
                [
                    *ISOLATED, sys.executable, str(ROOT / "scripts" / "offline.py"),
                    str(self.program),
                    "--data-root", str(self.directory / "data"),
                    "--exec-root", str(self.directory / "exec"),
                    "--pidfile", str(self.directory / "pid"),
                    "--host", f"unix://{self.socket}",
                    "--cgroup-parent", f"/rdd-test-{os.getpid()}",
                    "--shutdown-timeout", "2",
                ],
                stdout=log,
                stderr=log,
                env=environment,
            )  # fmt: skip
        end = time.monotonic() + START_S
        while not self.is_answering():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < end, self._log.read_text()
            time.sleep(0.02)

    def is_answering(self) -> bool:
        try:
            return bool(self.call("GET", "/_ping", raw=True) == b"OK")
        except OSError:
            return False

    def kill(self) -> None:
        """Kill the engine and all its processes at once, like a crash."""
        if self._process is not None:
            self._process.end()
            self._process = None
        # A boot would remove these files; their process IDs are invalid in the next namespace.
        (self.directory / "pid").unlink(missing_ok=True)
        shutil.rmtree(self.directory / "exec", ignore_errors=True)

    def stop(self) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
        for controller in Path("/sys/fs/cgroup").glob(f"*/rdd-test-{os.getpid()}"):
            for path in sorted(controller.rglob("*"), reverse=True):
                if path.is_dir():
                    path.rmdir()
            controller.rmdir()

    @property
    def pid(self) -> int:
        """The process ID of the engine in the namespace of the test."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return int(children.read_text().split()[0])

    # -- requests

    def call(self, method: str, path: str, body: Any = None, *, raw: bool = False) -> Any:
        """Send a request with an independent client."""
        connection = _Connection(self.socket)
        try:
            data = body if isinstance(body, bytes) else json.dumps(body) if body else None
            connection.request(method, path, data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            found = response.read()
        finally:
            connection.close()
        assert response.status < 400, found
        return found if raw else json.loads(found or b"null")

    def import_image(self, repository: str = "busybox", tag: str = "latest", **files: str) -> str:
        """Import an image of busybox; further files make its ID unique."""
        response = self.call(
            "POST", f"/images/create?fromSrc=-&repo={repository}&tag={tag}",
            archive(files), raw=True,
        )  # fmt: skip
        return str(json.loads(response.splitlines()[-1])["status"])

    def import_layer(self, repository: str, text: str) -> str:
        """Import an image that contains only a small file, which is fast."""
        path = f"/images/create?fromSrc=-&repo={repository}&tag=latest"
        response = self.call("POST", path, _tar({"file": text}), raw=True)
        return str(json.loads(response.splitlines()[-1])["status"])

    def create(self, name: str = "", **members: Any) -> str:
        body = {"Image": IMAGE, "Cmd": ["sleep", "1000"], "StopSignal": "SIGKILL", **members}
        return str(self.call("POST", f"/containers/create?name={name}", body)["Id"])

    def run(self, name: str = "", **members: Any) -> str:
        id_ = self.create(name, **members)
        self.post(id_, "start")
        return id_

    def post(self, id_: str, verb: str) -> None:
        self.call("POST", f"/containers/{id_}/{verb}", raw=True)

    def remove(self, id_: str) -> None:
        self.call("DELETE", f"/containers/{id_}?force=1", raw=True)

    def inspect(self, id_: str) -> Any:
        return self.call("GET", f"/containers/{id_}/json")

    def events(self, id_: str, action: str) -> list[Any]:
        """Return the past events of a container."""
        filters = quote(json.dumps({"container": [id_], "event": [action]}))
        path = f"/events?since=1&until={time.time():.9f}&filters={filters}"
        return [json.loads(line) for line in self.call("GET", path, raw=True).splitlines()]

    def clear(self) -> None:
        """Remove everything except the busybox image."""
        for container in self.call("GET", "/containers/json?all=1"):
            self.remove(container["Id"])
        for volume in self.call("GET", "/volumes")["Volumes"] or ():
            self.call("DELETE", f"/volumes/{volume['Name']}?force=1", raw=True)
        for image in self.call("GET", "/images/json?all=1"):
            for tag in image["RepoTags"] or (image["Id"],):
                if tag != IMAGE:
                    name = image["Id"] if tag == "<none>:<none>" else tag
                    self.call("DELETE", f"/images/{name}?force=1", raw=True)


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("engine", timeout=START_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(START_S)
        self.sock.connect(str(self._path))


def archive(files: dict[str, str]) -> bytes:
    """Return a root directory with busybox."""
    busybox = next(path for path in ("/usr/bin/busybox", "/bin/busybox") if Path(path).exists())
    return _tar(files, Path(busybox))


def _tar(files: dict[str, str], busybox: Path | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        if busybox is not None:
            tar.add(busybox, "bin/busybox")
            for applet in APPLETS:
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


@contextmanager
def dockerd(real_part: Callable[[str], Path], directory: Path) -> Iterator[Dockerd]:
    """Run an engine with the busybox image during the block, and remove its files."""
    real_part("busybox")
    engine = Dockerd(real_part("dockerd"), directory)
    try:
        engine.start()
        engine.import_image()
        yield engine
    finally:
        engine.stop()


class Containerd:
    """A containerd in separate namespaces, controlled by its own client."""

    def __init__(self, program: Path, client: Path, directory: Path) -> None:
        self.program = program
        self.directory = directory
        self.socket = directory / "c.sock"
        self._client = client
        self._process: Program[str] | None = None

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "config.toml"
        config.write_text(
            f'version = 2\nroot = "{self.directory}/root"\nstate = "{self.directory}/state"\n'
            'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
            f'[grpc]\n  address = "{self.socket}"\n'
        )
        environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
        with (self.directory / "log").open("ab") as log:
            self._process = start_program(
                [*ISOLATED, str(self.program), "--config", str(config)],
                stdout=log,
                stderr=log,
                env=environment,
            )
        end = time.monotonic() + START_S
        while self.ctr("version", is_checked=False).returncode:
            assert self._process.poll() is None, (self.directory / "log").read_text()
            assert time.monotonic() < end, (self.directory / "log").read_text()
            time.sleep(0.02)

    def kill(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None
        shutil.rmtree(self.directory / "state", ignore_errors=True)
        self.socket.unlink(missing_ok=True)

    def stop(self) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def ctr(
        self, *words: str, namespace: str = "default", is_checked: bool = True
    ) -> CompletedProcess[str]:
        # The client mounts file systems itself, so it runs in the namespace of the engine.
        assert self._process is not None
        enter: list[str] = []
        if is_checked:
            children = f"/proc/{self._process.pid}/task/{self._process.pid}/children"
            pid = Path(children).read_text().split()[0]
            enter = ["nsenter", "--target", pid, "--mount", "--pid"]
        address = ("--address", str(self.socket), "--namespace", namespace)
        done = run_program([*enter, str(self._client), *address, *words])
        assert not is_checked or done.returncode == 0, done.stderr
        return done

    def import_image(self, name: str, *, namespace: str = "default") -> None:
        path = self.directory / "image.tar"
        path.write_bytes(image_archive(name))
        self.ctr("image", "import", str(path), namespace=namespace)

    def run(self, image: str, id_: str, *command: str, namespace: str = "default") -> None:
        words = ("run", "--detach", image, id_, *command)
        self.ctr(*words, namespace=namespace)

    def clear(self) -> None:
        for namespace in self.ctr("namespaces", "list", "--quiet").stdout.split():
            for id_ in self.ctr("tasks", "list", "-q", namespace=namespace).stdout.split():
                self.ctr("tasks", "delete", "--force", id_, namespace=namespace)
            for id_ in self.ctr("containers", "list", "-q", namespace=namespace).stdout.split():
                self.ctr("containers", "delete", id_, namespace=namespace)
            for name in self.ctr("images", "list", "-q", namespace=namespace).stdout.split():
                self.ctr("images", "remove", "--sync", name, namespace=namespace)


def image_archive(name: str) -> bytes:
    """Return an image of busybox in the format of `docker save`."""
    layer = archive({})
    diff = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "created": "2026-01-02T03:04:05Z",
            "config": {"Cmd": ["sleep", "1000"], "Env": ["PATH=/bin"], "Labels": {"made": "here"}},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff}"]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    members = {
        "config.json": config,
        "layer.tar": layer,
        "manifest.json": json.dumps(manifest).encode(),
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, data in members.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@contextmanager
def containerd(real_part: Callable[[str], Path], directory: Path) -> Iterator[Containerd]:
    """Run a containerd during the block, and remove its files."""
    real_part("busybox")
    engine = Containerd(real_part("containerd"), real_part("ctr"), directory)
    try:
        engine.start()
        yield engine
    finally:
        engine.stop()


@contextmanager
def registry(
    real_part: Callable[[str], Path],
    engine: Dockerd,
    directory: Path,
    *,
    port: int = 5000,
    htpasswd: Path | None = None,
) -> Iterator[str]:
    """Run a registry in the network of an engine, and return its host and port."""
    program = real_part("docker-registry")
    directory.mkdir(parents=True, exist_ok=True)
    config = directory / "config.yml"
    text = (
        "version: 0.1\nlog: {level: error}\n"
        f"storage: {{filesystem: {{rootdirectory: {directory}/data}}}}\n"
        f"http: {{addr: '127.0.0.1:{port}'}}\n"
    )
    if htpasswd is not None:
        text += f"auth: {{htpasswd: {{realm: test, path: {htpasswd}}}}}\n"
    config.write_text(text)
    with in_network_of(engine, directory / "log", str(program), "serve", str(config)):
        wait_for_port(engine, port)
        yield f"localhost:{port}"


@contextmanager
def silent_port(engine: Dockerd, port: int) -> Iterator[None]:
    """Open a port in the network of an engine that accepts connections and never responds."""
    code = f"import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(600)"
    with in_network_of(engine, engine.directory / "silent.log", sys.executable, "-c", code):
        wait_for_port(engine, port)
        yield


@contextmanager
def in_network_of(engine: Dockerd, log: Path, *command: str) -> Iterator[None]:
    """Run a program in the network of an engine."""
    enter = ["nsenter", f"--net=/proc/{engine.pid}/ns/net"]
    with log.open("wb") as file, start_program([*enter, *command], stdout=file, stderr=file):
        yield


def wait_for_port(engine: Dockerd, port: int) -> None:
    """Wait until a port is open in the network of an engine."""
    end = time.monotonic() + START_S
    wanted = f":{port:04X} "
    while True:
        table = Path(f"/proc/{engine.pid}/net/tcp").read_text()
        if any(wanted in line and " 0A " in line for line in table.splitlines()):
            return
        assert time.monotonic() < end, f"port {port} is not open"
        time.sleep(0.02)
