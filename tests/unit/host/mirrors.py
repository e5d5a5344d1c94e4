# SPDX-License-Identifier: GPL-2.0-or-later
"""A small signed archive, and a server on 127.0.0.1 that may be down, slow or broken."""

from __future__ import annotations

import contextlib
import email.utils
import hashlib
import lzma
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kentry.host.process import run
from tests.unit.kernels import fakes
from tests.unit.kernels.sources import put

SUITE = "bookworm"
ARCHES = ("arm64", "riscv64")


def gpg(home: Path, *words: str) -> None:
    run(["gpg", "--homedir", str(home), "--batch", "--yes", "--pinentry-mode", "loopback", *words])


class Archive:
    """Debian's archive in a folder: packages of a suite, and what its signed file says."""

    def __init__(self, folder: Path, keys: Path) -> None:
        self.folder = folder
        self._keys = keys
        self.packages: list[dict[str, str]] = []
        self.forms: dict[str, Callable[[bytes], bytes]] = {".xz": lzma.compress}

    def add(self, name: str, version: str = "1", files: Any = None, **fields: str) -> Path:
        """Add a package; fields with "_" for "-" are of its control file and list."""
        path = self.folder / f"pool/{name}_{version.replace(':', '_')}_arm64.deb"
        path.parent.mkdir(parents=True, exist_ok=True)
        named = {key.replace("_", "-"): value for key, value in fields.items()}
        control = {"Package": name, "Version": version, "Architecture": "arm64", **named}
        fakes.deb(path, files or {}, **control)
        data = path.read_bytes()
        facts = {"Filename": f"pool/{path.name}", "Size": str(len(data))}
        digest = hashlib.sha256(data).hexdigest()
        self.packages.append({**control, "Description": "a test", **facts, "SHA256": digest})
        return path

    def add_kernel(self, version: str) -> Path:
        name = f"linux-image-{version.split('-')[0]}-arm64"
        return self.add(name, version, fakes.boot_files())

    def publish(
        self, suite: str = SUITE, *, key: str = "good", age: float = 3600, **says: str
    ) -> None:
        """Write the lists of `suite` and sign them, as of `age` seconds ago."""
        base = self.folder / "dists" / suite
        rows = []
        for arch in ARCHES:
            named = [package for package in self.packages if arch == "arm64"]
            paragraphs = ("".join(f"{k}: {v}\n" for k, v in package.items()) for package in named)
            text = "\n".join(paragraphs).encode()
            for ending, pack in self.forms.items():
                data, name = pack(text), f"main/binary-{arch}/Packages{ending}"
                put(base / name, data)
                digest = hashlib.sha256(data).hexdigest()
                rows.append(f" {digest} {len(data)} {name}\n")
                if says.get("Acquire_By_Hash"):
                    put(base / f"main/binary-{arch}/by-hash/SHA256/{digest}", data)
                    (base / name).unlink()
        fields = {"Codename": suite, "Suite": "oldstable", "Origin": "Debian"}
        fields |= {"Date": date(-age), "Components": "main", "Architectures": " ".join(ARCHES)}
        fields |= {name.replace("_", "-"): value for name, value in says.items()}
        head = "".join(f"{name}: {value}\n" for name, value in fields.items())
        put(base / "Release", f"{head}SHA256:\n{''.join(rows)}")
        words = ("--local-user", f"{key}@example.org", "--output", f"{base}/InRelease")
        gpg(self._keys, *words, "--clearsign", f"{base}/Release")


def date(seconds: float) -> str:
    """Returns the time, some seconds from now, as a signed file writes it."""
    return email.utils.formatdate(time.time() + seconds, usegmt=True)


class Server(ThreadingHTTPServer):
    """Serves `folder`; `answers` has what stands in for the first requests of a path's end."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.connections = 0
        self.asked: list[tuple[str, str]] = []  # the path, or a proxy's whole URL, and its range
        self.answers: dict[str, list[Callable[[_Handler, bytes], None]]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(SimpleHTTPRequestHandler):
    server: Server
    # Connections stay open.
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Range", "")))
        file = self.server.folder / self.path.partition("//")[2].partition("/")[2]
        if "://" not in self.path:
            file = self.server.folder / self.path.lstrip("/")
        if not file.is_file():
            self.begin(404, 0)
            return
        data = file.read_bytes()
        for end, answers in self.server.answers.items():
            if self.path.endswith(end) and answers:
                answers.pop(0)(self, data)
                return
        start = int(self.headers.get("Range", "bytes=0-")[6:-1])
        self.begin(206 if start else 200, len(data) - start)
        self.wfile.write(data[start:])

    def begin(self, status: int, length: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, *_words: Any) -> None:
        pass


def cut(handler: _Handler, data: bytes) -> None:
    """Break off after half of the file."""
    handler.begin(200, len(data))
    handler.wfile.write(data[: len(data) // 2])
    handler.close_connection = True


def whole(handler: _Handler, data: bytes) -> None:
    """Know nothing of ranges."""
    handler.begin(200, len(data))
    handler.wfile.write(data)


def longer(handler: _Handler, data: bytes) -> None:
    """Send more than there should be."""
    whole(handler, data + bytes(10))


def slow(handler: _Handler, data: bytes) -> None:
    """Send a byte now and then."""
    handler.begin(200, len(data))
    with contextlib.suppress(OSError):
        for place in range(200):
            handler.wfile.write(data[place : place + 1])
            time.sleep(0.02)


def failing(status: int) -> Callable[[_Handler, bytes], None]:
    """Answer with a status of failure."""
    return lambda handler, data: handler.send_error(status)


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Server]:
    with Server(folder) as server:
        threading.Thread(target=partial(server.serve_forever, 0.02), daemon=True).start()
        yield server
        server.shutdown()
