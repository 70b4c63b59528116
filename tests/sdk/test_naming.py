"""What is wrong with a name is said in the words of the one who is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from quoracy.core.errors import ConfigError
from quoracy.sdk.client import names as naming
from quoracy.sdk.client.names import lasting_name
from quoracy.sdk.witnessed import api


@pytest.mark.parametrize("what", ["participant", "member"])
def test_where_no_name_can_be_kept_the_setting_that_gives_one_is_named(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").write_text("no folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with pytest.raises(ConfigError, match=rf"^{what} .*name it: .*{naming.FOLDERS[what]}, where names are kept"):
        lasting_name("run", what)


def test_a_member_that_was_given_no_name_is_called_a_member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state").write_text("no folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("QUORACY_MEMBER", raising=False)
    with pytest.raises(ConfigError, match=r"^member "):
        api.prepare("tcp://127.0.0.1:1", "digits", "digits")
