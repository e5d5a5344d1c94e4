# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists of packages: fetched as a signed file says, and kept without what nobody reads of them."""

import contextlib
import email.utils
import gzip
import lzma
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import zstandard

from kentry.errors import FetchError
from kentry.host.cache import sha256_of, write_atomically
from kentry.host.fetch import REMEDY, Meter, MissingError, fetch
from kentry.host.mirror import KEYRING_VARIABLE, MIRROR_VARIABLE, Mirror
from kentry.host.process import need, run
from kentry.progress import Update

# unstable's has 220 KB.
_MOST_RELEASE_BYTES = 4 << 20
# How far a mirror's clock may be ahead.
_AHEAD_SECONDS = 60
# A third of a list.
_KEPT = re.compile(
    rb"^(?:(?:Package|Version|Architecture|Priority|Pre-Depends|Depends|Provides|Filename|Size"
    rb"|SHA256):.*\n(?:[ \t].*\n)*|\n)",
    re.MULTILINE,
)
# Forms of a list by what its name ends with, the smallest first.
_READERS: dict[str, Callable[[bytes], bytes]] = {
    ".xz": lzma.decompress,
    ".gz": gzip.decompress,
    "": bytes,
}
# The name of a suite as a folder below dists/, such as stable-backports.
_SUITE = re.compile(r"[a-z][a-z0-9-]*")
# gpgv's words for signatures that are not good; doc/DETAILS of GnuPG has them.
_BAD = re.compile(r"^\[GNUPG:\] ((?:BADSIG|EXP\w*SIG|REVKEYSIG|ERRSIG|NO_PUBKEY|NODATA) .*)", re.M)


@dataclass(frozen=True)
class Suite:
    """A suite of a mirror, such as trixie-backports, for an architecture.

    `file` is where its list is, or will be, of which `seen` is known.
    """

    mirror: Mirror
    base: str
    name: str
    arch: str
    file: Path
    seen: Mapping[str, Any]
    update: Update

    def fetch(self) -> dict[str, Any]:
        """Make `file` the suite's list, and return what is known of it now; FetchError.

        Where that has a "problem", the list is from the suite's other name.
        """
        folder = f"{self.base}/dists/{self.name}"
        release = self._release(folder)
        try:
            return self._list(folder, release)
        except FetchError as err:
            # A mirror amid an update has other lists than its signed file says.  Under the suite's
            # other name, as stable for trixie, it may have yesterday's.
            alias = release.get("Suite", "")
            if alias == self.name or not _SUITE.fullmatch(alias):
                raise
            with contextlib.suppress(FetchError):
                folder = f"{self.base}/dists/{alias}"
                return {**self._list(folder, self._release(folder)), "problem": err.sentence}
            raise

    def _release(self, folder: str) -> dict[str, Any]:
        """Fetch the signed file; FetchError where it is forged, stale, or older than one `seen`."""
        from debian.deb822 import Release

        url, signed = f"{folder}/InRelease", self.file.with_name(f"{self.file.name}.signed")
        meter = Meter(self.update, f"the signature of {self.name}", 0)
        fetch(url, signed, _MOST_RELEASE_BYTES, "", meter, self.mirror.proxies)
        release = Release(_verified(url, signed, self.mirror.keyring))
        now, wrong = time.time(), ""
        try:
            date = email.utils.parsedate_to_datetime(release["Date"]).timestamp()
            until = email.utils.parsedate_to_datetime(release.get("Valid-Until", release["Date"]))
        except (KeyError, ValueError) as err:
            raise FetchError(f"{url} does not say of what date it is.", REMEDY) from err
        if release.get("Codename") != self.name:
            wrong = f"of {release.get('Codename')}, not of {self.name}"
        elif date < self.seen.get("date", 0):
            wrong = f"of {release['Date']}, older than the one that was fetched before"
        elif self.mirror.checks_dates and date > now + _AHEAD_SECONDS:
            wrong = f"of {release['Date']}, which is in the future by this machine's clock"
        elif self.mirror.checks_dates and "Valid-Until" in release and until.timestamp() < now:
            wrong = f"stale: it was valid until {release['Valid-Until']}"
        if wrong:
            raise FetchError(f"{url} is {wrong}.", REMEDY)
        return {**release, "date": date}

    def _list(self, folder: str, release: Mapping[str, Any]) -> dict[str, Any]:
        """Make `file` the list that the signed file names, as `candidates()` reads it."""
        signed = {row["name"]: row for row in release.get("SHA256", ())}
        name = f"main/binary-{self.arch}/Packages"
        form, row = next(
            ((form, signed[name + form]) for form in _READERS if name + form in signed), ("", None)
        )
        facts = {"date": release["date"], "sha256": row["sha256"] if row else ""}
        kept = self.seen.get("kept", "")
        is_seen = facts["sha256"] == self.seen.get("sha256") and self.file.is_file()
        if is_seen and kept in ("", sha256_of(self.file)):
            return {**facts, "kept": kept}
        content = b""
        if row:
            size = int(row["size"])
            paths = [f"{Path(name).parent}/by-hash/SHA256/{row['sha256']}", name + form]
            packed = self.file.with_name(f"{self.file.name}.packed")
            for path in paths if release.get("Acquire-By-Hash") == "yes" else paths[1:]:
                meter = Meter(self.update, f"the list of {self.name} for {self.arch}", size)
                with contextlib.suppress(*[MissingError] if path != paths[-1] else []):
                    url = f"{folder}/{path}"
                    fetch(url, packed, size, row["sha256"], meter, self.mirror.proxies)
                    break
            content = b"".join(_KEPT.findall(_READERS[form](packed.read_bytes())))
            packed.unlink()
        own = zstandard.ZstdCompressor(write_checksum=True).compress(content)
        write_atomically(self.file, own)
        return {**facts, "kept": sha256(own).hexdigest()}


def _verified(url: str, signed: Path, keyring: Path) -> str:
    """Return the text that the file has signed; FetchError unless a key of `keyring` did it."""
    argv = [need("gpgv"), "--keyring", str(keyring), "--weak-digest", "SHA1"]
    done = run([*argv, "--status-fd", "2", "--output", "-", str(signed)], check=False)
    is_good = re.search(r"^\[GNUPG:\] GOODSIG ", done.stderr, re.MULTILINE)
    bad = _BAD.findall(done.stderr)
    # Debian signs with the keys of several releases, of which an older keyring has one.
    if not is_good or any(reason.startswith("BADSIG") for reason in bad):
        reason = bad[-1] if bad else "it is not signed"
        remedy = f"Name another mirror in {MIRROR_VARIABLE}, or its keys in {KEYRING_VARIABLE}."
        raise FetchError(f"No key of {keyring} signed {url}: {reason}.", remedy, done.stderr)
    return done.stdout


def read_list(file: Path, facts: Mapping[str, Any]) -> bytes:
    """Return what fetch() kept of a list, as its `facts` say; FetchError where it is another."""
    try:
        own = file.read_bytes()
        if facts.get("kept") not in (None, "", sha256(own).hexdigest()):
            raise FetchError(f"The list {file} is not the one that was fetched.", "Delete it.")
        return zstandard.ZstdDecompressor().decompress(own)
    except (OSError, zstandard.ZstdError) as err:
        raise FetchError(f"The list {file} is damaged: {err}.", "Delete it.") from err
