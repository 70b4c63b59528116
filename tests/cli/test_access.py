"""``quoracy ca``, ``token`` and ``config``: what they print can be used as it is."""

from __future__ import annotations

import json
import time
import tomllib
from datetime import datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from quoracy.cli import ca, config, token
from quoracy.config import ServerConfig, load_config
from quoracy.core.errors import CATALOG, ConfigError
from quoracy.doors.auth import Authority, Identity, Role, client_context, server_context
from quoracy.doors.tokens import SECRET_FILE

runner = CliRunner()


def good(result: Result) -> Result:
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def wrong(result: Result, field: str) -> ConfigError:
    assert isinstance(result.exception, ConfigError), result.output
    assert result.exception.field == field
    assert CATALOG[result.exception.code].exit == 2
    return result.exception


# -- token ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", Role)
def test_the_token_that_is_printed_is_good_for_the_server_of_that_folder(tmp_path: Path, role: Role) -> None:
    result = good(runner.invoke(token.app, ["new", "--role", role.value, "--run", "bert", "--folder", str(tmp_path)]))
    assert "a new server secret was made" in result.stderr
    assert result.stdout.count("\n") == 1, "the token alone, for $(...)"
    identity = Authority.open(tmp_path).check_token(result.stdout.strip(), time.time())
    assert isinstance(identity, Identity)
    assert (identity.role, identity.run) == (role, "bert")


def test_a_token_as_json(tmp_path: Path) -> None:
    Authority.open(tmp_path)
    arguments = ["new", "--role", "member", "--expires", "7d", "--name", "Ada", "--folder", str(tmp_path), "--json"]
    result = good(runner.invoke(token.app, arguments))
    assert result.stderr == ""
    said = json.loads(result.stdout)
    assert (said["role"], said["run"], said["name"]) == ("member", "*", "Ada")
    ends_s = time.time() + 7 * 86_400
    assert abs(datetime.fromisoformat(said["expires"]).timestamp() - ends_s) < 60
    authority = Authority.open(tmp_path)
    assert isinstance(authority.check_token(said["token"], ends_s - 60), Identity)
    assert not isinstance(authority.check_token(said["token"], ends_s + 60), Identity)


def test_the_folder_may_come_from_the_environment(tmp_path: Path) -> None:
    good(runner.invoke(token.app, ["new", "--role", "viewer"], env={"QUORACY_DATA": str(tmp_path)}))
    assert (tmp_path / SECRET_FILE).exists()


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("90m", 5400), ("12h", 43_200), ("7d", 604_800), ("4W", 2_419_200)]
)
def test_durations(text: str, seconds: int) -> None:
    assert token.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["7", "d", "0d", "-1d", "1.5h", "7 days", "٧d", "9999999999d", ""])
def test_what_is_no_duration_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match="a number and a unit"):
        token.parse_duration(text)


def test_wrong_options_of_a_token_are_named(tmp_path: Path) -> None:
    base = ["new", "--folder", str(tmp_path), "--role", "member"]
    wrong(runner.invoke(token.app, [*base, "--expires", "soon"]), "--expires")
    wrong(runner.invoke(token.app, [*base, "--run", "a*b"]), "run")
    assert runner.invoke(token.app, ["new", "--role", "king", "--folder", str(tmp_path)]).exit_code == 2


# -- ca ------------------------------------------------------------------------------------------------------------


def test_what_ca_init_makes_can_be_used_by_both_ends(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    result = good(runner.invoke(ca.app, ["init", "--folder", str(folder), "--host", "train.example.org"]))
    assert "train.example.org, localhost, 127.0.0.1, ::1" in result.stdout
    settings = tomllib.loads(result.stdout[result.stdout.index("[tls]") :].partition("\n\n")[0])
    server_context(settings["tls"]["cert"], settings["tls"]["key"])
    client_context(folder / "ca.crt")
    made = {path.name: path.read_bytes() for path in folder.iterdir()}
    wrong(runner.invoke(ca.app, ["init", "--folder", str(folder)]), "--folder")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == made


def test_the_tables_that_ca_prints_make_a_server_that_may_listen_anywhere(tmp_path: Path) -> None:
    result = good(runner.invoke(ca.app, ["init", "--folder", str(tmp_path / 'a "b"')]))
    path = tmp_path / "quoracy.toml"
    path.write_text(
        result.stdout[result.stdout.index("[tls]") :].partition("\n\n")[0] + '\n[listen]\nhost = "0.0.0.0"\n'
    )
    made = load_config(path, {}, {})
    assert made.tls_on()
    assert made.tokens_required()


def test_ca_as_json(tmp_path: Path) -> None:
    result = good(runner.invoke(ca.app, ["init", "--folder", str(tmp_path), "--days", "30", "--json"]))
    said = json.loads(result.stdout)
    assert said["authority"]["cert"] == str(tmp_path / "ca.crt")
    assert said["server"]["hosts"] == ["localhost", "127.0.0.1", "::1"]
    result = good(runner.invoke(ca.app, ["issue", "--name", "two", "--folder", str(tmp_path), "--json"]))
    assert json.loads(result.stdout)["key"] == str(tmp_path / "two.key")
    assert "[tls]" in good(runner.invoke(ca.app, ["issue", "--name", "three", "--folder", str(tmp_path)])).stdout


def test_wrong_options_of_ca_are_named(tmp_path: Path) -> None:
    folder = ["--folder", str(tmp_path)]
    wrong(runner.invoke(ca.app, ["init", *folder, "--host", "tcp://x:7700"]), "--host")
    wrong(runner.invoke(ca.app, ["init", *folder, "--days", "0"]), "--days")
    wrong(runner.invoke(ca.app, ["issue", *folder, "--name", "x"]), "authority's key")
    assert list(tmp_path.iterdir()) == []


# -- config --------------------------------------------------------------------------------------------------------


def test_the_example_is_the_page_in_the_documents() -> None:
    page = Path(__file__).parents[2] / "docs/reference/quoracy.toml"
    assert good(runner.invoke(config.app, ["example"])).stdout == page.read_text(encoding="utf-8")


def test_show_says_what_a_server_would_use(tmp_path: Path) -> None:
    path = tmp_path / "quoracy.toml"
    path.write_text("[listen]\nport = 7701\n")
    result = good(runner.invoke(config.app, ["show", "--config", str(path)], env={"QUORACY_LOG": "debug"}))
    assert f"port = 7701  # from {path}; the default is 7700\n" in result.stdout
    assert 'level = "debug"  # from QUORACY_LOG; the default is "info"\n' in result.stdout
    result = good(runner.invoke(config.app, ["show", "--config", str(path), "--json"], env={"QUORACY_LOG": "debug"}))
    said = json.loads(result.stdout)
    assert said["config"]["listen"] == {"host": "127.0.0.1", "port": 7701, "advertise": ""}
    assert said["config"]["runs"]["cluster"]["max_workers"] == ServerConfig().runs["cluster"].max_workers
    assert said["sources"] == {"listen.port": str(path), "log.level": "QUORACY_LOG"}


def test_show_names_all_that_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "quoracy.toml"
    path.write_text('[listen]\nport = "x"\nhots = 1\n')
    error = wrong(runner.invoke(config.app, ["show", "--config", str(path)]), "listen.hots")
    assert str(error).startswith("2 settings are wrong:\n")
