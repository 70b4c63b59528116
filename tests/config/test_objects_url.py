"""Where objects are: what is understood, what is refused by field, value and fix, and what is never repeated."""

from __future__ import annotations

import pytest

from quoracy.config import load_config
from quoracy.config.objects_url import ObjectsAddress, parse_objects
from quoracy.core.errors import ConfigError, ConfigErrors


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("some/where", ObjectsAddress("file", "some/where")),
        ("/some/where", ObjectsAddress("file", "/some/where")),
        ("file:///some/where%20else", ObjectsAddress("file", "/some/where else")),
        ("memory://", ObjectsAddress("memory")),
        ("s3://bucket", ObjectsAddress("s3", bucket="bucket")),
        ("s3://my.bucket-1/a/b/", ObjectsAddress("s3", bucket="my.bucket-1", prefix="a/b")),
        (
            "s3://bucket/a?endpoint=http://127.0.0.1:8333&region=eu-central-1",
            ObjectsAddress("s3", "", "bucket", "a", "http://127.0.0.1:8333", "eu-central-1"),
        ),
        (
            "s3://bucket?endpoint=https%3A%2F%2F[::1]:9000/&anonymous=true",
            ObjectsAddress("s3", "", "bucket", "", "https://[::1]:9000", "", True),
        ),
    ],
)
def test_what_is_understood(url: str, address: ObjectsAddress) -> None:
    assert parse_objects(url) == address
    assert parse_objects(str(address)) == address


@pytest.mark.parametrize(
    ("url", "fix"),
    [
        ("", "write a folder"),
        (" ", "write a folder"),
        ("a\0b", "write a folder"),
        ("http://127.0.0.1:8333/bucket", "write a folder"),
        ("memory://x", "write a folder"),
        ("file://some/where", "three slashes"),
        ("file:///", "three slashes"),
        ("file:///a%00b", "three slashes"),
        ("s3://", "a bucket has 3 to 63 characters"),
        ("s3://a", "a bucket has 3 to 63 characters"),
        ("s3://Bucket", "a bucket has 3 to 63 characters"),
        ("s3://bucket:99", "a bucket has 3 to 63 characters"),
        ("s3://bucket/..", "no part begins with a dot"),
        ("s3://bucket/a//b", "no part begins with a dot"),
        ("s3://bucket/ä", "no part begins with a dot"),
        (f"s3://bucket/{'x' * 257}", "at most 256"),
        ("s3://bucket?endpoint=127.0.0.1:8333", "an endpoint is http://HOST:PORT"),
        ("s3://bucket?endpoint=http://host/path", "an endpoint is http://HOST:PORT"),
        ("s3://bucket?endpoint=http://host:99999", "an endpoint is http://HOST:PORT"),
        ("s3://bucket?region=a%20b", "a region is a name"),
        ("s3://bucket?anonymous=yes", "anonymous is true or false"),
        ("s3://bucket?region=a&region=b", "something twice"),
        ("s3://bucket?timeout=5", "this asks for timeout; there are endpoint, region, anonymous"),
        ("s3://bucket?endpoint", "write a folder"),
        ("s3://[bucket", "write a folder"),
        ("s3://bucket/a#b", "something twice, or a #"),
    ],
)
def test_what_is_refused(url: str, fix: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_objects(url, "objects")
    assert caught.value.field == "objects"
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:hush@bucket/prefix",
        "s3://bucket/prefix?secret_access_key=hush",
        "s3://bucket/prefix?region=a&aws_secret_access_key=hush",
        "s3://bucket/prefix?endpoint=http://key:hush@host:8333",
        "https://key:hush@host/bucket",
    ],
)
def test_a_url_with_a_secret_is_refused_and_the_secret_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_objects(url)
    assert "hush" not in f"{caught.value} {caught.value.value}"
    assert (
        "AWS_SECRET_ACCESS_KEY" in caught.value.fix or "http" in caught.value.value or "endpoint is" in caught.value.fix
    )


def test_a_wrong_setting_is_told_with_the_others() -> None:
    with pytest.raises(ConfigErrors) as caught:
        load_config(None, {"store": {"objects": "ftp://host/x"}, "host.beat_s": 60.0}, {})
    problems = {problem.field: problem for problem in caught.value.problems}
    assert set(problems) == {"store.objects", "host.takeover_s"}
    assert "memory://, or s3://BUCKET/PREFIX" in problems["store.objects"].fix
    assert load_config(None, {"store.objects": "s3://bucket/x"}, {}).store.objects == "s3://bucket/x"
