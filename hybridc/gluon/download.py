"""Files from the network, or from other folders by ``file://``."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from hybridc.errors import CheckError, DownloadError, FileWriteError, MXNetError
from hybridc.ground.whole_files import replacing

_TIMEOUT = 60  # seconds without a byte
_CHUNK = 1 << 20  # bytes that are in memory at once
_REPOSITORY = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"
# What servers answer that will not answer otherwise a second time: not allowed, not there.
_FINAL = (401, 403, 404, 410)
_SCHEMES = ("http", "https", "ftp", "file")


class HashMismatch(MXNetError, UserWarning):
    """A downloaded file is not the one that was wanted: its SHA-1 is another. It is not kept."""


def check_sha1(filename: str | os.PathLike[str], sha1_hash: str) -> bool:
    """Whether the SHA-1 hash of the file ``filename`` is ``sha1_hash``, in hexadecimal digits."""
    import hashlib

    with Path(filename).open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.sha1(usedforsecurity=False)).hexdigest() == sha1_hash


def replace_file(src: str | os.PathLike[str], dst: str | os.PathLike[str]) -> None:
    """Move the file ``src`` in the place of ``dst``, at once."""
    Path(src).replace(dst)


def download(
    url: str,
    path: str | None = None,
    overwrite: bool = False,
    sha1_hash: str | None = None,
    retries: int = 5,
    verify_ssl: bool = True,
) -> str:
    """The file that a URL names, in a folder or under a name; the name of the file.

    Raises DownloadError if it cannot be had, with the place where to put it by hand, and :class:`HashMismatch`.

    Parameters
    ----------
    url:
        The URL: ``https://…``, ``http://…``, ``ftp://…``, or ``file:///…``, which copies.
    path:
        The folder, or the name of the file; None is the current folder.
    overwrite:
        Whether a file that is there is downloaded again.
    sha1_hash:
        The SHA-1 that the file must have; a file that is there is kept if it has. None for any.
    retries:
        How often it is tried in all; 0 is once.
    verify_ssl:
        Whether the server's certificate is checked; else there is a warning.
    """
    name = url.split("/")[-1]
    if path is None or Path(path).expanduser().is_dir():
        if not name:
            raise CheckError(f"Can't construct file-name from this URL. Please set the `path` option manually: {url}")
        file = Path(path or "", name)
    else:
        file = Path(path)
    if retries < 0:
        raise CheckError(f"Number of retries should be at least 0, currently it's {retries}")
    if url.partition("://")[0] not in _SCHEMES:
        raise CheckError(f"download: {url!r} is no URL; it must begin with {'://, '.join(_SCHEMES)}://")
    if not verify_ssl:
        warnings.warn(
            "Unverified HTTPS request is being made (verify_ssl=False). Adding certificate verification is strongly "
            "advised.",
            stacklevel=2,
        )
    target = file.expanduser()
    if not overwrite and target.exists() and (sha1_hash is None or check_sha1(target, sha1_hash)):
        return str(file)
    target.parent.mkdir(parents=True, exist_ok=True)
    print(f"Downloading {file} from {url}...")  # noqa: T201
    for left in range(max(retries, 1) - 1, -1, -1):
        try:
            _fetch(url, target, sha1_hash, verify_ssl)
            break
        except FileWriteError:
            raise
        except (OSError, HashMismatch) as error:
            if not left or _is_final(error):
                if isinstance(error, HashMismatch):
                    raise
                raise _unreachable(url, target, sha1_hash, error) from error
            print(f"download failed due to {error!r}, retrying, {left} attempt{'s' * (left > 1)} left")  # noqa: T201
    return str(file)


def _fetch(url: str, target: Path, sha1_hash: str | None, verify_ssl: bool) -> None:
    import hashlib
    import ssl
    from urllib.request import urlopen

    context = None if verify_ssl else ssl._create_unverified_context()  # as the user wants
    digest = hashlib.sha1(usedforsecurity=False)
    with urlopen(url, timeout=_TIMEOUT, context=context) as source, replacing(target) as file:  # the scheme was checked
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
        sized, got = source.headers.get("Content-Length"), file.tell()
        if sized is not None and int(sized) != got:
            raise ConnectionError(f"the connection ended after {got} of {sized} bytes")
        if sha1_hash is not None and digest.hexdigest() != sha1_hash:
            raise HashMismatch(
                f"File {target} is downloaded but the content hash does not match: its SHA-1 is {digest.hexdigest()}, "
                f'wanted {sha1_hash}. The repo may be outdated or download may be incomplete. If the "repo_url" is '
                "overridden, consider switching to the default repo."
            )


def _is_final(error: Exception) -> bool:
    """Whether another attempt would give the same."""
    return isinstance(getattr(error, "reason", None), FileNotFoundError) or getattr(error, "code", None) in _FINAL


def _unreachable(url: str, target: Path, sha1_hash: str | None, error: OSError) -> DownloadError:
    code, reason = getattr(error, "code", None), getattr(error, "reason", error)
    what = str(reason) if code is None else f"the server answers {code}, {reason}"
    wanted = "" if sha1_hash is None else f" (SHA-1 {sha1_hash})"
    return DownloadError(
        f"Failed downloading url {url}: {what}. Without a network, put the file{wanted} there by hand: "
        f"{target.absolute()}"
    )


def get_repo_url() -> str:
    """The address of MXNet's files: $MXNET_GLUON_REPO, by default Apache's."""
    address = os.environ.get("MXNET_GLUON_REPO") or _REPOSITORY
    return address if address.endswith("/") else f"{address}/"


def get_repo_file_url(namespace: str, filename: str) -> str:
    """The address of one of MXNet's files."""
    return f"{get_repo_url()}{namespace}/{filename}"
