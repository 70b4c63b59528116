"""Settings: later sources win, and everything that is wrong is named at once, with field, value, source and fix."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoracy.config import ServerConfig, load_config, read_settings
from quoracy.config.load import known_fields, tables
from quoracy.core.errors import CATALOG, ConfigError, ConfigErrors
from quoracy.core.kinds import KINDS
from quoracy.core.limits import Limits
from quoracy.docs.fields import attribute_docs
from quoracy.docs.settings import settings_page, toml

ROOT = Path(__file__).parents[2]


def written(folder: Path, text: str) -> Path:
    path = folder / "quoracy.toml"
    path.write_text(text, encoding="utf-8")
    return path


def problems(
    path: Path | None = None, overrides: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    with pytest.raises(ConfigErrors) as caught:
        load_config(path, overrides or {}, environ or {})
    for problem in caught.value.problems:
        assert problem.fix
        assert str(problem) in str(caught.value)
    return {problem.field: f"{problem.value!r}: {problem.fix}" for problem in caught.value.problems}


# -- defaults ------------------------------------------------------------------------------------------------------


def test_nothing_needs_to_be_set() -> None:
    config = load_config(None, {}, {})
    assert config == ServerConfig()
    assert (config.listen.host, config.listen.port) == ("127.0.0.1", 7700)
    assert (config.store.kind, config.store.folder) == ("sqlite", "quoracy-data")
    assert not config.tls_on()
    assert not config.tokens_required()


def test_the_defaults_of_hosts_and_runs_are_those_of_the_core() -> None:
    assert ServerConfig().host.limits() == Limits()
    assert ServerConfig().runs == {kind.name: kind.config() for kind in KINDS}


def test_every_setting_says_why() -> None:
    silent = [
        f"{name}.{field}"
        for name, struct in tables()
        for field in struct.__struct_fields__
        if not attribute_docs(struct).get(field)
    ]
    assert silent == []


def test_every_default_is_within_its_own_limits() -> None:
    for name, struct in tables():
        made = struct()
        for field in msgspec.structs.fields(struct):
            default = getattr(made, field.name)
            taken = msgspec.convert(msgspec.to_builtins(default), field.type)
            assert taken == default, f"{name}.{field.name}"


def test_a_new_run_gets_the_defaults_and_what_its_creator_wants() -> None:
    config = load_config(None, {"runs.cluster.max_workers": 7}, {})
    made = config.new_run("cluster", {"barrier_min": 3})
    assert (made["max_workers"], made["barrier_min"], made["heartbeat_interval_s"]) == (7, 3, 5.0)
    assert config.new_run("another", {"a": 1}) == {"a": 1}


# -- sources -------------------------------------------------------------------------------------------------------


def test_later_sources_win(tmp_path: Path) -> None:
    path = written(tmp_path, '[store]\nfolder = "file"\n[log]\nlevel = "error"\n[listen]\nport = 1\n')
    environ = {"QUORACY_DATA": "environment", "QUORACY_LOG": "warn"}
    settings = read_settings(path, {"store.folder": Path("line"), "listen": {"host": "::1"}}, environ)
    assert settings.config.store.folder == "line"
    assert settings.config.log.level == "warn"
    assert (settings.config.listen.host, settings.config.listen.port) == ("::1", 1)
    assert settings.sources == {
        "store.folder": "the command line", "log.level": "QUORACY_LOG", "listen.port": str(path),
        "listen.host": "the command line",
    }  # fmt: skip


def test_what_the_command_line_does_not_give_is_not_given(tmp_path: Path) -> None:
    path = written(tmp_path, "[listen]\nport = 1\n")
    assert load_config(path, {"listen.port": None, "tls": None}, {}).listen.port == 1


@pytest.mark.parametrize(
    ("environ", "level"),
    [
        ({"RUST_LOG": "debug"}, "debug"),
        ({"RUST_LOG": "WARN"}, "warn"),
        ({"RUST_LOG": "trace"}, "debug"),
        ({"RUST_LOG": "hyper=debug,quoracy=error"}, "error"),
        ({"RUST_LOG": "warn,hyper=debug"}, "warn"),
        ({"RUST_LOG": "hyper=debug"}, "info"),
        ({"RUST_LOG": "nonsense of another program"}, "info"),
        ({"RUST_LOG": ""}, "info"),
        ({"RUST_LOG": "debug", "QUORACY_LOG": "error"}, "error"),
        ({"QUORACY_LOG": "Warning"}, "warn"),
        ({"QUORACY_LOG": " "}, "info"),
    ],
)
def test_the_level_of_the_log_comes_from_the_environment(environ: dict[str, str], level: str) -> None:
    assert load_config(None, {}, environ).log.level == level


@pytest.mark.parametrize(
    ("environ", "objects"),
    [
        ({}, ""),
        ({"STORAGE_BACKEND": "local"}, ""),
        ({"STORAGE_BACKEND": "", "CHECKPOINT_BUCKET": "models"}, ""),
        ({"STORAGE_BACKEND": "local", "CHECKPOINT_BUCKET": "models"}, ""),
        ({"STORAGE_BACKEND": "s3", "CHECKPOINT_BUCKET": "models"}, "s3://models"),
        (
            {"STORAGE_BACKEND": " s3 ", "CHECKPOINT_BUCKET": "s3://models/llm?endpoint=https://minio:9000"},
            "s3://models/llm?endpoint=https://minio:9000",
        ),
    ],
)
def test_the_object_store_comes_from_the_environment(environ: dict[str, str], objects: str) -> None:
    assert load_config(None, {}, environ).store.objects == objects


def test_a_bucket_that_is_missing_or_wrong_is_named_by_its_variable() -> None:
    missing = problems(environ={"STORAGE_BACKEND": "s3"})
    assert "STORAGE_BACKEND=s3" in missing["CHECKPOINT_BUCKET"]
    assert "one of: local, s3" in problems(environ={"STORAGE_BACKEND": "gcs"})["STORAGE_BACKEND"]
    wrong = problems(environ={"STORAGE_BACKEND": "s3", "CHECKPOINT_BUCKET": "My Bucket"})
    assert "a bucket has 3 to 63 characters" in wrong["store.objects"]


def test_the_environment_and_the_file_agree_about_the_object_store(tmp_path: Path) -> None:
    """What the file says stays where the environment does not contradict it."""
    in_s3 = written(tmp_path, '[store]\nobjects = "s3://of-the-file/prefix"\n')
    assert load_config(in_s3, {}, {"STORAGE_BACKEND": "s3"}).store.objects == "s3://of-the-file/prefix"
    environ = {"STORAGE_BACKEND": "s3", "CHECKPOINT_BUCKET": "another"}
    assert load_config(in_s3, {}, environ).store.objects == "s3://another"
    assert load_config(in_s3, {}, {"STORAGE_BACKEND": "local"}).store.objects == ""
    local = written(tmp_path, '[store]\nobjects = "/srv/objects"\n')
    assert load_config(local, {}, {"STORAGE_BACKEND": "local"}).store.objects == "/srv/objects"


def test_the_heartbeat_interval_is_in_milliseconds() -> None:
    assert load_config(None, {}, {"HEARTBEAT_INTERVAL": "2500"}).runs["cluster"].heartbeat_interval_s == 2.5


@pytest.mark.parametrize("value", ["5s", "-1", "1e3", "2.5", "٥", "9" * 30])
def test_a_heartbeat_interval_that_is_no_number_is_named(value: str) -> None:
    assert problems(environ={"HEARTBEAT_INTERVAL": value}) == {
        "HEARTBEAT_INTERVAL": f"{value!r}: a whole number of milliseconds"
    }


def test_a_heartbeat_interval_out_of_range_is_named_with_its_variable() -> None:
    found = problems(environ={"HEARTBEAT_INTERVAL": "0"})
    assert found["runs.cluster.heartbeat_interval_s"].endswith("(HEARTBEAT_INTERVAL)")
    assert "at least twice heartbeat_interval_s (20.0)" in problems(environ={"HEARTBEAT_INTERVAL": "20000"}).get(
        "runs.cluster.heartbeat_timeout_s", ""
    )


def test_a_level_that_does_not_exist_is_named() -> None:
    found = problems(environ={"QUORACY_LOG": "loud"})
    assert found == {"log.level": "'loud': one of: debug, info, warn, error (QUORACY_LOG)"}


# -- everything that is wrong, at once -----------------------------------------------------------------------------

MANY = """
colour = "red"

[listen]
host = ""
port = 70000
prot = 7

[store]
kind = "postgres"

[access]
tokens = true
insecure = "yes"

[limits]
max_connections = 0
messages_per_s = 1.5

[host]
takeover_s = nan
beat_s = -1

[runs.cluster]
max_workers = "many"
barrier_deadline_s = inf

[runs.pipeline]
rounds = 3

[log.level]
x = 1
"""


def test_all_that_is_wrong_is_named_at_once(tmp_path: Path) -> None:
    path = written(tmp_path, MANY)
    found = problems(path)
    assert found.keys() == {
        "colour", "listen.host", "listen.port", "listen.prot", "store.kind", "access.tokens", "access.insecure",
        "limits.max_connections", "limits.messages_per_s", "host.takeover_s", "host.beat_s",
        "runs.cluster.max_workers", "runs.cluster.barrier_deadline_s", "runs.pipeline", "log.level",
    }  # fmt: skip
    assert found["listen.port"] == f"70000: a whole number from 0 to 65535 ({path})"
    assert found["listen.prot"] == f"7: there is no such setting; did you mean listen.port? ({path})"
    assert found["store.kind"] == f"'postgres': one of: sqlite, memory, etcd ({path})"
    assert found["access.insecure"] == f"'yes': true or false ({path})"
    assert found["colour"].endswith(f"quoracy config example shows all ({path})")


def test_the_message_has_one_line_for_each(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(written(tmp_path, MANY), {}, {})
    lines = str(caught.value).splitlines()
    assert lines[0] == "15 settings are wrong:"
    assert len(lines) == 16
    assert CATALOG[caught.value.code].exit == 2


def test_one_wrong_setting_reads_as_any_other_error() -> None:
    with pytest.raises(ConfigError, match=re.escape("listen.port = -1: a whole number from 0 to 65535")) as caught:
        load_config(None, {"listen.port": -1}, {})
    assert (caught.value.field, caught.value.value) == ("listen.port", -1)


@pytest.mark.parametrize("field", known_fields())
def test_a_wrong_value_of_any_setting_is_named_with_what_would_do(field: str) -> None:
    found = problems(overrides={field: [1]})
    assert found.keys() == {field}
    text = r"(empty or )?a text (of at most|that matches)"
    fix = rf"(a list: )?(a whole number from|a number from|{text}|one of:|true or false|names with values)"
    assert re.match(rf"\[1\]: {fix}", found[field])


@given(
    st.sampled_from(sorted(known_fields())),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers(), max_size=2),
)
def test_any_value_of_any_setting_is_taken_or_named(field: str, value: Any) -> None:
    with suppress(ConfigErrors):
        assert isinstance(load_config(None, {field: value}, {}), ServerConfig)


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"tls.cert": "x"}, "tls.key"),
        ({"tls.key": "x"}, "tls.cert"),
        ({"listen.host": "0.0.0.0"}, "listen.host"),
        ({"listen.host": "0.0.0.0", "tls.cert": "x", "tls.key": "x", "access.tokens": "off"}, "listen.host"),
        ({"limits.burst_bytes": 2048}, "limits.burst_bytes"),
        ({"limits.max_unsent_bytes": 2048}, "limits.max_unsent_bytes"),
        ({"limits.max_connections": 10}, "limits.max_connections_per_identity"),
        ({"host.beat_s": 2.0}, "host.takeover_s"),
        ({"runs.cluster.barrier_min": 9, "runs.cluster.max_workers": 8}, "runs.cluster.barrier_min"),
        (
            {"runs.federated.clients": 9, "runs.federated.aggregation": {"rule": "krum"}},
            "runs.federated.aggregation.rule",
        ),
    ],
)
def test_values_that_do_not_go_together_are_named(overrides: dict[str, Any], field: str) -> None:
    assert problems(overrides=overrides).keys() == {field}


def test_contradictions_are_told_beside_wrong_values_but_not_about_them() -> None:
    found = problems(overrides={"listen.port": -1, "tls.cert": "x", "host.beat_s": "often", "host.takeover_s": 0.1})
    assert found.keys() == {"listen.port", "tls.key", "host.beat_s"}


# -- who must prove something --------------------------------------------------------------------------------------

PAIR = {"tls.cert": "server.crt", "tls.key": "server.key"}


@pytest.mark.parametrize(
    ("overrides", "required"),
    [
        ({}, False),
        ({"listen.host": "::1"}, False),
        (PAIR, False),
        ({"access.tokens": "required"}, True),
        ({"listen.host": "0.0.0.0"} | PAIR, True),
        ({"listen.host": "0.0.0.0", "access.insecure": True}, False),
        ({"listen.host": "0.0.0.0", "access.insecure": True, "access.tokens": "required"}, True),
        ({"listen.host": "0.0.0.0", "access.insecure": True, "access.tokens": "off"} | PAIR, False),
    ],
)
def test_tokens_are_asked_where_others_can_reach_the_server(overrides: dict[str, Any], required: bool) -> None:
    assert load_config(None, overrides, {}).tokens_required() is required


# -- files ---------------------------------------------------------------------------------------------------------


def test_a_file_that_is_not_there_or_no_toml_is_named(tmp_path: Path) -> None:
    assert "No such file" in problems(tmp_path / "gone.toml")["--config"]
    assert "not TOML" in problems(written(tmp_path, "[listen\n"))["--config"]
    (tmp_path / "latin.toml").write_bytes(b'[store]\nfolder = "\xe4"\n')
    assert "not UTF-8" in problems(tmp_path / "latin.toml")["--config"]
    assert "directory" in problems(tmp_path)["--config"].lower()


def test_a_table_must_be_a_table(tmp_path: Path) -> None:
    assert "write [listen]" in problems(written(tmp_path, "listen = 7700\n"))["listen"]
    assert "write [runs]" in problems(written(tmp_path, "runs = 1\n"))["runs"]


# -- the example ---------------------------------------------------------------------------------------------------


def uncommented(page: str) -> str:
    return re.sub(r"^#(?=\w)", "", page, flags=re.MULTILINE)


def test_the_page_of_settings_is_fresh() -> None:
    page = (ROOT / "docs/reference/quoracy.toml").read_text(encoding="utf-8")
    assert page == settings_page(), "run: python -m quoracy.docs"


def test_the_example_is_a_file_that_changes_nothing(tmp_path: Path) -> None:
    settings = read_settings(written(tmp_path, settings_page()), {}, {})
    assert settings.config == ServerConfig()
    assert settings.sources == {}


def test_the_example_shows_every_setting_with_its_default(tmp_path: Path) -> None:
    settings = read_settings(written(tmp_path, uncommented(settings_page())), {}, {})
    assert settings.config == ServerConfig()
    assert settings.sources.keys() == known_fields().keys()


def test_what_is_shown_can_be_used_and_names_its_source(tmp_path: Path) -> None:
    overrides = {
        "listen.port": 7701,
        "store.folder": 'a "b"\\ \x7f\té',
        "access.tokens": "required",
        "log.level": "warn",
    }
    first = read_settings(None, overrides, {"HEARTBEAT_INTERVAL": "2500"})
    page = settings_page(first.config, first.sources)
    assert "port = 7701  # from the command line; the default is 7700" in page
    assert "heartbeat_interval_s = 2.5  # from HEARTBEAT_INTERVAL; the default is 5.0" in page
    assert read_settings(written(tmp_path, page), {}, {}).config == first.config


@given(st.text() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False))
def test_any_value_can_be_written_as_toml(value: Any) -> None:
    assert tomllib.loads(f"value = {toml(value)}")["value"] == value
