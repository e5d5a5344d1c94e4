# SPDX-License-Identifier: GPL-2.0-or-later
"""Files over HTTP, of a known hash and size: resumed after a break, limited, with progress.

Proxies are those of http_proxy, https_proxy and no_proxy.
"""

import errno
import functools
import http.client
import os
import socket
import ssl
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError, IncompleteRead, ProtocolError

from kentry.errors import FetchError
from kentry.host import interrupt
from kentry.host.cache import check_room, no_space_is_an_error, sha256_of
from kentry.progress import Update

REMEDY = (
    "Try again, name another mirror in KENTRY_MIRROR, or a proxy in http_proxy and https_proxy."
    "  What the cache has needs no network."
)

# For how long a server may send nothing, and how much it must send in each such time.
_PATIENCE_SECONDS = 30.0
_LEAST_BYTES = 30_000
# Before another try.
_PAUSES_SECONDS = (1.0, 5.0)
_CHUNK_BYTES = 1 << 16
_NO_WAY = (errno.ENETUNREACH, errno.EHOSTUNREACH)


class MissingError(FetchError):
    """The server has no such file."""


class UnreachableError(FetchError):
    """The server does not answer, so it will not for another file either."""


class _PassingError(FetchError):
    """Another try may end well."""


class _SilentError(UnreachableError, _PassingError):
    """The server says nothing, or too little."""


class Meter:
    """Says how much of `size` bytes is here."""

    def __init__(self, update: Update, what: str, size: int) -> None:
        self._update, self._what, self.size = update, what, size
        self._here = 0
        self.add(0)

    def add(self, count: int) -> None:
        """Count bytes that came, or fewer than 0 that must come again."""
        self._here += count
        if self.size:
            text = f"{self._what}: {self._here / 1e6:.1f} of {self.size / 1e6:.1f} MB"
            self._update(min(self._here / self.size, 1.0), f"fetching {text}")
        else:
            self._update(None, f"fetching {self._what}")


def fetch(
    url: str, file: Path, size: int, sha256: str, meter: Meter, proxies: Mapping[str, str]
) -> None:
    """Make `file` the content of `url`, if it is not that already; FetchError.

    Without a `sha256` it is fetched anew, and may have at most `size` bytes.
    """
    if sha256 and file.is_file() and sha256_of(file) == sha256:
        meter.add(size)
        return
    # What came of it before a break is gone on with, also by the next kentry.
    part = file.with_name(f"{file.name}.part")
    for pause in (*_PAUSES_SECONDS, None):
        before = part.stat().st_size if sha256 and part.is_file() else 0
        try:
            come = _fetch_rest(url, part, before, size, meter, proxies)
            if sha256 and sha256_of(part) != sha256:
                part.unlink()
                meter.add(-come)
                error = _PassingError if before else FetchError
                raise error(f"The SHA-256 of {url} is not the expected one.", REMEDY)
            os.replace(part, file)
            return
        except _PassingError:
            if pause is None:
                raise
            time.sleep(pause)


def _fetch_rest(
    url: str, part: Path, come: int, size: int, meter: Meter, proxies: Mapping[str, str]
) -> int:
    """Fetch what is missing after the first `come` bytes, or all; return how long the file is."""
    headers = {"User-Agent": "kentry", **({"Range": f"bytes={come}-"} if come else {})}
    answer = _open(url, headers, {**proxies, **urllib.request.getproxies()})
    status = getattr(answer, "status", http.HTTPStatus.OK)
    if status >= http.HTTPStatus.MULTIPLE_CHOICES:
        answer.close()  # a page without end is not read
        if status == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink()
        raise _refusal(url, status, answer.reason)
    is_rest = status == http.HTTPStatus.PARTIAL_CONTENT
    come = come if is_rest else 0
    rest = getattr(answer, "length_remaining", 0) or 0
    check_room(part.parent, rest)
    meter.size = meter.size or come + rest
    meter.add(come)
    with answer, no_space_is_an_error(part), part.open("ab" if is_rest else "wb") as out:
        for chunk in _chunks(url, answer):
            come += out.write(chunk)
            meter.add(len(chunk))
            if come > size:
                raise FetchError(f"{url} has more than the {size} bytes that it may have.", REMEDY)
    return come


def _open(url: str, headers: Mapping[str, str], proxies: Mapping[str, str]) -> Any:
    """What reads the file that `url` names; FetchError."""
    try:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme == "file":
            return Path(urllib.request.url2pathname(parts.path)).open("rb")
        is_direct = urllib.request.proxy_bypass(parts.netloc)
        pool = _pool("" if is_direct else proxies.get(parts.scheme, ""), os.getpid())
        return pool.request(
            "GET", url, headers=headers, preload_content=False, decode_content=False
        )
    except (OSError, ValueError, HTTPError) as err:
        raise _error(url, err) from err


@functools.cache
def _pool(proxy: str, process: int) -> urllib3.PoolManager:
    """Connections of a process through a proxy, or through none, that stay open.

    A hundred packages are fetched from one mirror: its name is looked up once for all of them.
    """
    retries = urllib3.Retry(total=None, connect=0, read=0, redirect=5, status=0, other=0)
    more: dict[str, Any] = {"timeout": _PATIENCE_SECONDS, "retries": retries}
    if not proxy:
        return urllib3.PoolManager(**more)
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    auth = urllib.parse.unquote(urllib3.util.parse_url(proxy).auth or "")
    credentials = urllib3.make_headers(proxy_basic_auth=auth or None)
    return urllib3.ProxyManager(proxy, proxy_headers=credentials, **more)


def _chunks(url: str, answer: Any) -> Iterator[bytes]:
    began, come = time.monotonic(), 0
    try:
        while chunk := answer.read1(_CHUNK_BYTES):
            interrupt.check()
            yield chunk
            come += len(chunk)
            if time.monotonic() - began > _PATIENCE_SECONDS:
                if come < _LEAST_BYTES:
                    raise TimeoutError
                began, come = time.monotonic(), 0
    except (OSError, HTTPError) as err:
        raise _error(url, err) from err


def _refusal(url: str, status: int, reason: str | None) -> FetchError:
    passing = status >= http.HTTPStatus.INTERNAL_SERVER_ERROR
    passing |= status in (416, 429)  # the range is wrong, or requests come too fast
    kind = MissingError if status in (404, 410) else _PassingError if passing else FetchError
    return kind(f"{url} could not be fetched: HTTP status {status}, {reason}.", REMEDY)


def _error(url: str, err: BaseException) -> FetchError:
    kind: type[FetchError] = FetchError
    # urllib3's errors say around it what happened.
    cause = err
    while isinstance(cause, HTTPError) and (cause.__cause__ or cause.__context__):
        cause = cause.__cause__ or cause.__context__ or cause
    reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    if isinstance(cause, FileNotFoundError):
        kind = MissingError
    elif isinstance(cause, TimeoutError):
        kind, reason = _SilentError, "the server is silent or too slow"
    elif isinstance(cause, socket.gaierror):
        kind, reason = UnreachableError, f"no network, or no such host ({reason})"
    elif isinstance(cause, ConnectionRefusedError) or getattr(cause, "errno", 0) in _NO_WAY:
        kind = UnreachableError
    elif isinstance(cause, IncompleteRead):
        kind, reason = _PassingError, "the connection broke off"
    elif isinstance(cause, ConnectionError | http.client.HTTPException | ProtocolError):
        kind = _PassingError
    elif isinstance(cause, ssl.SSLCertVerificationError):
        reason = f"its certificate is not valid: {cause.verify_message}"
    return kind(f"{url} could not be fetched: {reason.rstrip('.')}.", REMEDY)
