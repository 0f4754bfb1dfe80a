"""What only S3 can get wrong: encoded keys, pages, ETags, credentials, dead endpoints."""

import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

import pytest

from onnxdyno.adapters import s3
from onnxdyno.adapters.s3 import S3Store
from onnxdyno.domain.errors import ObjectChanged, OnnxdynoError, StoreError, UsageError
from stores import ACCESS_KEY, SECRET_KEY, S3Server, free_ports, s3_registry

DATA = Path(__file__).parent.parent / "cases" / "data"
LIMIT_S = 30.0


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        ("s3://models", ("models", "")),
        ("s3://models/", ("models", "")),
        ("s3://models/a/b/", ("models", "a/b")),
        ("s3://models/a b+c", ("models", "a b+c")),
        ("s3://models/50%25?x#y", ("models", "50%25?x#y")),
    ],
)
def test_an_s3_uri_names_a_bucket_and_a_prefix_exactly(uri: str, parts: tuple[str, str]) -> None:
    assert s3.parse_uri(uri) == parts


@pytest.mark.parametrize(
    "uri", ["s3://", "s3:///x", "s3:models", "models", "https://models/x", "s3://a\nb/x", "s3://[x/y"]
)
def test_what_names_no_bucket_is_refused(uri: str) -> None:
    with pytest.raises(UsageError, match="s3://<bucket>") as caught:
        s3.parse_uri(uri)
    assert "\n" not in str(caught.value)


def test_credentials_in_a_uri_are_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        s3.parse_uri("s3://AKIAX:topsecret@models/x")
    assert "topsecret" not in str(caught.value)
    assert "AKIAX" not in str(caught.value)


def _one_line(call: Callable[[], object]) -> OnnxdynoError:
    """The typed error that `call` ends in, checked to be quick, one line and free of secrets."""
    began = time.monotonic()
    with pytest.raises(OnnxdynoError) as caught:
        call()
    assert time.monotonic() - began < LIMIT_S
    text = str(caught.value)
    assert "\n" not in text
    assert SECRET_KEY not in text
    assert ACCESS_KEY not in text
    return caught.value


def _calls(store: S3Store) -> list[Callable[[], object]]:
    return [lambda: list(store.list()), lambda: store.get("x"), lambda: store.put_if_absent("x", b"y")]


def test_a_missing_bucket_is_one_clear_line_and_not_worth_a_retry(s3_environment: S3Server) -> None:
    for call in _calls(S3Store("no-such-bucket", "x")):
        error = _one_line(call)
        assert isinstance(error, StoreError)
        assert not error.retryable
        assert "no such bucket" in str(error)


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("AWS_SECRET_ACCESS_KEY", "wrong", "secret key is wrong"),
        ("AWS_ACCESS_KEY_ID", "nobody", "access key is not known"),
    ],
)
def test_wrong_credentials_are_one_clear_line_and_not_worth_a_retry(
    s3_environment: S3Server, monkeypatch: pytest.MonkeyPatch, name: str, value: str, hint: str
) -> None:
    monkeypatch.setenv(name, value)
    for call in _calls(S3Store("models", "x")):
        error = _one_line(call)
        assert isinstance(error, StoreError)
        assert not error.retryable
        assert hint in str(error)


def test_no_credentials_say_what_to_set(s3_environment: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    store = S3Store("models", "x")
    for call in (*_calls(store), store.filesystem):
        error = _one_line(call)
        assert isinstance(error, UsageError)
        assert "AWS_ACCESS_KEY_ID" in str(error)


def test_an_endpoint_that_refuses_is_one_clear_line(s3_environment: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://user:{SECRET_KEY}@127.0.0.1:{port}")
    error = _one_line(lambda: list(S3Store("models").list()))
    assert isinstance(error, StoreError)
    assert error.retryable
    assert f"127.0.0.1:{port}" in str(error)


def test_an_endpoint_that_never_answers_is_given_up(s3_environment: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(16)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        error = _one_line(lambda: list(S3Store("models").list()))
    assert isinstance(error, StoreError)
    assert error.retryable


def test_an_endpoint_that_is_no_url_is_a_usage_error(s3_environment: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "not a url")
    assert isinstance(_one_line(lambda: list(S3Store("models").list())), UsageError)


def test_secrets_are_in_neither_uri_nor_repr(s3_environment: S3Server) -> None:
    store = S3Store("models", "a b")
    list(store.list())
    assert store.uri == "s3://models/a b"
    assert SECRET_KEY not in repr(store) + store.uri
    assert ACCESS_KEY not in repr(store) + store.uri


def test_more_than_a_thousand_keys_are_all_listed_once(s3_environment: S3Server) -> None:
    registry = s3_registry(s3_environment)
    keys = [f"m {number:04d}+%.onnx" for number in range(1103)]
    client = s3_environment.client()
    prefix = registry.store.uri.removeprefix("s3://models/")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: client.put_object(Bucket="models", Key=f"{prefix}/{key}", Body=b"x"), keys))
    assert [version.key for version in registry.store.list()] == keys


def test_hostile_keys_come_back_exactly_and_are_decoded_once(s3_environment: S3Server) -> None:
    """This server refuses `..` and over-long keys and folds `//`; what it stores must come back as it was put."""
    registry = s3_registry(s3_environment)
    listed = [each["key"] for each in json.loads((DATA / "s3_keys.json").read_text("utf-8"))]
    keys = [
        key for key in listed if ".." not in key and "//" not in f"/{key}" and not key.endswith("/") and len(key) < 250
    ]
    assert len(keys) >= 14
    for key in keys:
        registry.upload(key, key.encode())
    assert {version.key for version in registry.store.list()} == set(keys)
    for version in registry.store.list():
        assert registry.store.get(version.key) == version.key.encode()
        assert registry.store.head(version.key) == version


def test_a_multipart_object_is_read_whole_although_its_etag_is_no_digest(s3_environment: S3Server) -> None:
    case = json.loads((DATA / "multipart_etag.json").read_text())
    parts = [b"a" * case["part_size"], b"b" * 100]
    client, key = s3_environment.client(), "multipart.onnx"
    upload = client.create_multipart_upload(Bucket="models", Key=key)["UploadId"]
    done = [
        {
            "PartNumber": number,
            "ETag": client.upload_part(Bucket="models", Key=key, UploadId=upload, PartNumber=number, Body=part)["ETag"],
        }
        for number, part in enumerate(parts, start=1)
    ]
    client.complete_multipart_upload(Bucket="models", Key=key, UploadId=upload, MultipartUpload={"Parts": done})
    store = S3Store("models")
    version = store.head(key)
    assert version is not None
    assert "-" in version.etag
    assert version.etag != case["md5"]
    digest = hashlib.sha256()
    store.fetch(version, digest.update)
    assert digest.hexdigest() == case["sha256"]
    store.delete(key)


def test_a_version_with_an_id_is_fetched_by_it_although_the_key_moved_on(s3_environment: S3Server) -> None:
    client = s3_environment.client()
    bucket = "versioned"
    client.create_bucket(Bucket=bucket)
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = client.put_object(Bucket=bucket, Key="m.onnx", Body=b"first")
    store = S3Store(bucket)
    listed = store.head("m.onnx")
    assert listed is not None
    client.put_object(Bucket=bucket, Key="m.onnx", Body=b"second")
    with pytest.raises(ObjectChanged):
        store.fetch(listed, lambda _: None)
    seen: list[bytes] = []
    pinned = type(listed)(
        store_uri=listed.store_uri, key=listed.key, etag=listed.etag, version_id=first["VersionId"], size_bytes=5
    )
    store.fetch(pinned, seen.append)
    assert b"".join(seen) == b"first"


Answer = Callable[[str, dict[str, list[str]]], tuple[int, dict[str, str], bytes]]


@contextmanager
def _scripted_server(answer: Answer) -> Iterator[str]:
    """An HTTP server that says what a real one rarely says; yields its endpoint."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            if (self.headers.get("Expect") and self.command == "PUT") or self.command == "PUT":
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
            parts = urlsplit(self.path)
            status, headers, body = answer(self.command, parse_qs(parts.query, keep_blank_values=True))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "Content-Length" not in headers:
                self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

        do_GET = do_PUT = do_HEAD = _reply  # noqa: N815 - names of http.server

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - name of http.server
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def scripted(s3_environment: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], S3Store]]:
    """A store whose server is played by a function."""
    with ExitStack() as stack:

        def start(answer: Answer) -> S3Store:
            monkeypatch.setenv("AWS_ENDPOINT_URL", stack.enter_context(_scripted_server(answer)))
            return S3Store("bucket")

        yield start


def test_a_page_without_contents_does_not_end_a_listing(scripted: Callable[[Answer], S3Store]) -> None:
    case = json.loads((DATA / "listing_three_pages.json").read_text())

    def answer(_: str, query: dict[str, list[str]]) -> tuple[int, dict[str, str], bytes]:
        token = query.get("continuation-token", ["t0"])[0]
        page = case["pages"][int(token[1:])]
        rows = "".join(
            f"<Contents><Key>{escape(row['Key'])}</Key><LastModified>{row['LastModified']}</LastModified>"
            f"<ETag>{escape(row['ETag'])}</ETag><Size>{row['Size']}</Size></Contents>"
            for row in page.get("Contents", [])
        )
        following = page.get("NextContinuationToken")
        more = f"<NextContinuationToken>{following}</NextContinuationToken>" if following else ""
        truncated = str(page["IsTruncated"]).lower()
        text = f"<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{truncated}</IsTruncated>{more}{rows}"
        return 200, {"Content-Type": "application/xml"}, f"{text}</ListBucketResult>".encode()

    found = [version.key for version in scripted(answer).list("models/")]
    assert [key for key in found if key.endswith(".onnx")] == case["expected_models"]
    assert len(found) == 5


def test_a_put_that_boto_sends_again_after_it_succeeded_is_ours(scripted: Callable[[Answer], S3Store]) -> None:
    stored: list[bytes] = []

    def answer(method: str, _: dict[str, list[str]]) -> tuple[int, dict[str, str], bytes]:
        if method == "GET":
            return 200, {"ETag": '"e"'}, b"body"
        stored.append(b"body")
        if len(stored) == 1:
            return 500, {}, b"<Error><Code>InternalError</Code></Error>"
        return 412, {}, b"<Error><Code>PreconditionFailed</Code></Error>"

    store = scripted(answer)
    assert store.put_if_absent("x", b"body")
    stored.clear()
    assert not store.put_if_absent("x", b"another body")


def test_a_conflict_of_conditional_puts_is_tried_again(scripted: Callable[[Answer], S3Store]) -> None:
    answers = [409, 409, 200]

    def answer(_: str, __: dict[str, list[str]]) -> tuple[int, dict[str, str], bytes]:
        status = answers.pop(0)
        body = b"<Error><Code>ConditionalRequestConflict</Code></Error>" if status == 409 else b""
        return status, {"ETag": '"e"'}, body

    assert scripted(answer).put_if_absent("x", b"body")
    assert answers == []


def test_a_body_that_comes_short_is_an_error_worth_a_retry(scripted: Callable[[Answer], S3Store]) -> None:
    def answer(method: str, _: dict[str, list[str]]) -> tuple[int, dict[str, str], bytes]:
        body = b"" if method == "HEAD" else b"half"
        return 200, {"ETag": '"e"', "Content-Length": "8"}, body

    store = scripted(answer)
    version = store.head("x")
    assert version is not None
    with pytest.raises(StoreError) as caught:
        store.fetch(version, lambda _: None)
    assert caught.value.retryable
    assert "\n" not in str(caught.value)


def test_a_server_in_trouble_is_worth_a_retry_and_does_not_speak_for_itself(
    scripted: Callable[[Answer], S3Store],
) -> None:
    def answer(_: str, __: dict[str, list[str]]) -> tuple[int, dict[str, str], bytes]:
        return 503, {}, b"<Error><Code>Slow\x1b[31mDown</Code><Message>two\nlines</Message></Error>"

    error = _one_line(lambda: scripted(answer).get("x"))
    assert isinstance(error, StoreError)
    assert error.retryable
    assert "\x1b" not in str(error)
