"""S3 and what speaks its protocol, as an object store. Settings come from where AWS tools look for them."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from onnxdyno.domain.errors import ObjectChanged, ObjectMissing, OnnxdynoError, StoreError, UsageError
from onnxdyno.domain.models import ObjectVersion
from onnxdyno.domain.text import printable

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

_CONNECT_S = 4.0
_READ_S = 8.0
_TRIES = 2
_CHUNK_BYTES = 1 << 20
_CONFLICT_TRIES = 5

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]")
_ACCESS = "check the credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_PROFILE) and their rights"
_REFUSED = {
    "NoSuchBucket": "no such bucket. Create it or correct the URI",
    "InvalidBucketName": "not a bucket name. Correct the URI",
    "InvalidAccessKeyId": f"the access key is not known; {_ACCESS}",
    "SignatureDoesNotMatch": f"the secret key is wrong; {_ACCESS}",
    "ExpiredToken": "the session token has expired; get a new one",
    "InvalidToken": "the session token is not valid; get a new one",
    "RequestTimeTooSkewed": "this machine's clock is wrong; set it",
    "AccessDenied": f"access denied; {_ACCESS}",
    "PermanentRedirect": "the bucket is in another region; set AWS_REGION",
    "AuthorizationHeaderMalformed": "the region is wrong; set AWS_REGION",
    "NotImplemented": "the server does not offer this operation (conditional writes are needed)",
}
"""Answers that another try does not change, and what to do."""


def parse_uri(uri: str) -> tuple[str, str]:
    """(bucket, prefix) of `s3://bucket/prefix`. Raises `UsageError`; never repeats credentials put into the URI."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        parts = urlsplit("")
    if "@" in parts.netloc:
        raise UsageError("an s3:// URI must not hold credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")
    _, _, rest = uri.partition("://")
    bucket, _, prefix = rest.partition("/")
    if parts.scheme.lower() != "s3" or not _BUCKET.fullmatch(bucket):
        raise UsageError(f"{printable(uri)!r} names no bucket: write `s3://<bucket>/<prefix>`.")
    return bucket, prefix.strip("/")


class S3Store:
    """Objects below one prefix of a bucket.

    Neither a listing nor the writer of a key tells version ids alike on all servers, and the ETag notices every
    change of bytes: `list` and `head` leave `version_id` None; a version that carries an id is fetched by it.
    """

    def __init__(self, bucket: str, prefix: str = "") -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""

    def __repr__(self) -> str:
        return f"S3Store({self.uri!r})"

    @property
    def uri(self) -> str:
        """`s3://bucket/prefix`."""
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    @cached_property
    def _client(self) -> "S3Client":
        with self._translated(""):
            return _new_client()

    def list(self, prefix: str = "") -> Iterator[ObjectVersion]:
        """Every object whose key starts with `prefix`, all pages, in the order of the keys' bytes."""
        found = []
        with self._translated(prefix):
            # boto3 asks for URL encoding by itself and then decodes the keys: asking here would leave them encoded
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            for page in pages:
                for entry in page.get("Contents", []):
                    key = entry["Key"].removeprefix(self._prefix)
                    if key and not key.endswith("/"):
                        found.append(self._version(key, entry["ETag"], entry["Size"]))
        yield from sorted(found, key=lambda version: version.key.encode("utf-8", "surrogatepass"))

    def head(self, key: str) -> ObjectVersion | None:
        """The current version of one object, or None."""
        from botocore.exceptions import ClientError

        with self._translated(key):
            try:
                answer = self._client.head_object(Bucket=self._bucket, Key=self._prefix + key)
            except ClientError as error:
                if _status(error) == 404:
                    return None
                raise
        return self._version(key, answer["ETag"], answer["ContentLength"])

    def get(self, key: str) -> bytes:
        """The bytes of a small object. Raises `ObjectMissing`."""
        with self._translated(key):
            body: bytes = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)["Body"].read()
            return body

    def fetch(self, version: ObjectVersion, sink: Callable[[bytes], None]) -> None:
        """Stream exactly this version into `sink`. Raises `ObjectChanged`, `ObjectMissing`, `StoreError`."""
        seen_bytes = 0
        for chunk in self._chunks(version):
            seen_bytes += len(chunk)
            sink(chunk)
        if seen_bytes != version.size_bytes:
            raise StoreError(
                f"{self._name(version.key)}: {seen_bytes} bytes came, {version.size_bytes} were announced. Try again."
            )

    def _chunks(self, version: ObjectVersion) -> Iterator[bytes]:
        with self._translated(version.key):
            pinned: dict[str, Any] = {"VersionId": version.version_id} if version.version_id else {}
            answer = self._client.get_object(
                Bucket=self._bucket, Key=self._prefix + version.key, IfMatch=f'"{version.etag}"', **pinned
            )
            with closing(answer["Body"]) as body:
                yield from body.iter_chunks(_CHUNK_BYTES)

    def put_if_absent(self, key: str, body: bytes) -> bool:
        """Create the object, all or nothing; False if the key exists."""
        from botocore.exceptions import ClientError

        with self._translated(key):
            for conflicts_left in reversed(range(_CONFLICT_TRIES)):
                try:
                    self._client.put_object(Bucket=self._bucket, Key=self._prefix + key, Body=body, IfNoneMatch="*")
                except ClientError as error:
                    if _status(error) == 412:
                        # boto3 may have sent twice what the server took the first time: then the object is ours
                        return _retries(error) > 0 and self.get(key) == body
                    if _code(error) != "ConditionalRequestConflict" or not conflicts_left:
                        raise
                else:
                    return True
        return False

    def delete(self, key: str) -> None:
        """Remove the object; nothing happens if it is not there."""
        with self._translated(key):
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key)

    def filesystem(self) -> tuple[Any, str]:
        """A pyarrow file system from the settings of the client, and the path of this prefix in it."""
        from pyarrow import fs

        with self._translated(""):
            endpoint = urlsplit(self._client.meta.endpoint_url)
            found = _new_session().get_credentials()
            if found is None:
                _no_credentials()
            keys = found.get_frozen_credentials()
            settings: dict[str, Any] = {"endpoint_override": endpoint.netloc} if _is_custom(endpoint.geturl()) else {}
            system = fs.S3FileSystem(
                access_key=keys.access_key,
                secret_key=keys.secret_key,
                session_token=keys.token,
                region=self._client.meta.region_name or "us-east-1",
                scheme=endpoint.scheme,
                connect_timeout=_CONNECT_S,
                request_timeout=_READ_S,
                retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_TRIES),
                tls_ca_file_path=os.environ.get("AWS_CA_BUNDLE"),
                **settings,
            )
        return system, f"{self._bucket}/{self._prefix}".rstrip("/")

    def _version(self, key: str, etag: str, size_bytes: int) -> ObjectVersion:
        return ObjectVersion(store_uri=self.uri, key=key, etag=etag.strip('"'), version_id=None, size_bytes=size_bytes)

    def _name(self, key: str) -> str:
        return printable(f"{self.uri}/{key}" if key else self.uri)

    @contextmanager
    def _translated(self, key: str) -> Iterator[None]:
        """Turn what boto3 raises into this project's errors, in one line, without the server's own text."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except OnnxdynoError:
            raise
        except ClientError as error:
            raise _answered(self._name(key), error) from None
        except (BotoCoreError, ValueError) as error:
            raise _unanswered(self._name(key), error) from None


def _new_session() -> Any:
    import boto3

    return boto3.Session()


def _new_client() -> "S3Client":
    from botocore.config import Config

    session = _new_session()
    settings = Config(
        connect_timeout=_CONNECT_S,
        read_timeout=_READ_S,
        retries={"mode": "standard", "total_max_attempts": _TRIES},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        signature_version="s3v4",
    )
    client: S3Client = session.client("s3", config=settings)
    if _is_custom(client.meta.endpoint_url):
        # a bucket as a host name resolves only where somebody has set up a wildcard name
        by_path = settings.merge(Config(s3={"addressing_style": "path"}))
        client = session.client("s3", config=by_path)
    return client


def _is_custom(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    return not host.endswith((".amazonaws.com", ".amazonaws.com.cn"))


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _retries(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0))


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _answered(name: str, error: Any) -> StoreError:
    code, status = _code(error), _status(error)
    if code in ("NoSuchKey", "NoSuchVersion"):
        return ObjectMissing(f"{name}: no such object.")
    if status == 412:
        return ObjectChanged(f"{name}: replaced after it was listed. Try again.")
    if code in _REFUSED:
        return StoreError(f"{name}: {_REFUSED[code]}.", retryable=False)
    if status in (401, 403):
        return StoreError(f"{name}: access denied ({printable(code, 60)}); {_ACCESS}.", retryable=False)
    is_passing = status >= 500 or status in (408, 409, 429)
    advice = "Try again later" if is_passing else "Check the URI and the endpoint"
    return StoreError(f"{name}: the server answered {status} {printable(code, 60)}. {advice}.", retryable=is_passing)


def _no_credentials() -> NoReturn:
    raise UsageError(
        "no S3 credentials found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or use a role."
    )


def _unanswered(name: str, error: Exception) -> OnnxdynoError:
    from botocore import exceptions as boto

    kind = type(error).__name__
    match error:
        case boto.NoCredentialsError():
            _no_credentials()
        case boto.PartialCredentialsError() | boto.ProfileNotFound() | boto.CredentialRetrievalError():
            return UsageError(f"{name}: the S3 credentials are incomplete ({kind}); {_ACCESS}.")
        case boto.ParamValidationError() | boto.NoRegionError() | boto.InvalidConfigError() | ValueError():
            return UsageError(f"{name}: the S3 settings are not valid ({kind}); check AWS_ENDPOINT_URL and AWS_REGION.")
        case boto.SSLError():
            return StoreError(
                f"{name}: no trusted TLS connection; check the endpoint and AWS_CA_BUNDLE.", retryable=False
            )
        case _:
            return StoreError(f"{name}: {_endpoint()} does not answer ({kind}). Is it up, is AWS_ENDPOINT_URL right?")


def _endpoint() -> str:
    """Host and port only: an endpoint may hold credentials."""
    url = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    parts = urlsplit(url or "")
    port = f":{parts.port}" if parts.port else ""
    return printable(f"{parts.hostname}{port}") if parts.hostname else "the S3 endpoint"
