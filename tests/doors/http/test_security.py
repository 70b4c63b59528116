"""Browsers are loyal to every page they show: what foreign pages and foreign names must not be able to do here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.doors.http.live import Live, live, problem, raw

from quoracy.doors.auth import Authority, Role
from quoracy.trust import client_context
from quoracy.trust.ca import create_authority

ORDER = {"command": "pause"}


# -- names ---------------------------------------------------------------------------------------------------------


def host(running: Live, name: str) -> httpx.Response:
    return running.http.get("/api/status", headers={"host": name})


@pytest.mark.parametrize(
    "name", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "quoracy.example.", "x:80"]
)
def test_a_name_that_was_made_to_point_here_is_refused(home: Live, name: str) -> None:
    told = problem(host(home, name), 421, "wrong_host")
    assert "http.allowed_hosts" in told["fix"]


@pytest.mark.parametrize(
    "name", ["localhost", "LOCALHOST:3000", "127.0.0.1:1", "[::1]:3000", "192.0.2.7", "localhost."]
)
def test_loopback_and_addresses_in_figures_are_let_in(home: Live, name: str) -> None:
    assert host(home, name).status_code == 200


@pytest.mark.parametrize("name", ["a b", "localhost:x", "user@localhost", "localhost/x", "", "localhost:99999"])
def test_a_host_that_cannot_be_read_is_refused(home: Live, name: str) -> None:
    answer = raw(home.port, f"GET /api/status HTTP/1.1\r\nhost: {name}\r\nconnection: close\r\n\r\n".encode())
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 421"))
    assert b"application/problem+json" in answer


def test_a_host_must_come_and_come_once(home: Live) -> None:
    assert host(home, "localhost").status_code == 200
    for sent in (b"", b"host: localhost\r\nhost: evil.example\r\n", b"host: evil.example\r\nhost: localhost\r\n"):
        answer = raw(home.port, b"GET /api/status HTTP/1.1\r\n" + sent + b"connection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400"), answer
    old = raw(home.port, b"GET /livez HTTP/1.0\r\n\r\n")
    assert old.startswith(b"HTTP/1.1 200"), "before 1.1 there was no such header"


def test_names_that_the_settings_or_the_address_give_are_let_in(tmp_path: Path) -> None:
    listen, http = {"advertise": "tcp://node7.example:7700"}, {"allowed_hosts": ["Quoracy.Example"]}
    with live(tmp_path, listen={"port": 0, **listen}, http=http) as running:
        for name in ("node7.example", "quoracy.example:3000", "localhost"):
            assert host(running, name).status_code == 200
        problem(host(running, "node8.example"), 421, "wrong_host")


# -- origins -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "https://127.0.0.1"])
def test_a_foreign_page_changes_nothing(home: Live, origin: str) -> None:
    before = home.http.get("/api/runs/demo").json()["entry"]
    response = home.http.post("/api/runs/demo/orders", json=ORDER, headers={"origin": origin})
    problem(response, 403, "foreign_origin")
    assert "access-control-allow-origin" not in response.headers
    assert home.http.get("/api/runs/demo").json()["entry"] == before
    preflight = home.http.options(
        "/api/runs/demo/orders", headers={"origin": origin, "access-control-request-method": "POST"}
    )
    assert not [name for name in preflight.headers if name.startswith("access-control")]


def test_a_page_of_this_server_may_change_things(home: Live) -> None:
    response = home.http.post("/api/runs/demo/orders", json=ORDER, headers={"origin": home.url})
    assert response.status_code == 200


def test_an_origin_of_the_settings_is_let_in_exactly(tmp_path: Path) -> None:
    good = "https://board.example"
    with live(tmp_path, http={"allowed_origins": [good]}) as running:
        running.coordinator.create("demo")
        asked = {"origin": good, "access-control-request-method": "POST"}
        preflight = running.http.options("/api/runs/demo/orders", headers=asked)
        assert preflight.headers["access-control-allow-origin"] == good
        assert preflight.headers["access-control-allow-methods"] == "OPTIONS, POST"
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        assert "access-control-allow-credentials" not in preflight.headers
        posted = running.http.post("/api/runs/demo/orders", json=ORDER, headers={"origin": good})
        assert (posted.status_code, posted.headers["access-control-allow-origin"]) == (200, good)
        assert posted.headers["vary"] == "origin"
        missing = running.http.get("/api/runs/nowhere", headers={"origin": good})
        assert missing.headers["access-control-allow-origin"] == good
        for bad in (f"{good}.evil.example", "http://board.example", f"{good}:444"):
            problem(
                running.http.post("/api/runs/demo/orders", json=ORDER, headers={"origin": bad}), 403, "foreign_origin"
            )
            got = running.http.get("/api/status", headers={"origin": bad})
            assert "access-control-allow-origin" not in got.headers
            assert got.headers["vary"] == "origin"


# -- what every answer carries -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/api/status", "/api/runs/nowhere", "/nothing", "/livez", "/api/docs"])
def test_every_answer_is_strict(home: Live, path: str) -> None:
    headers = home.http.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == ("no-cache" if path == "/api/docs" else "no-store")
    assert "strict-transport-security" not in headers
    assert "server" not in headers


def test_a_stream_is_as_strict(home: Live) -> None:
    headers = home.http.head("/api/runs/demo/events").headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"


def test_with_tls_browsers_stay_with_it_and_so_does_the_cookie(tmp_path: Path) -> None:
    made = create_authority(tmp_path / "ca", ["localhost"])
    tls = {"cert": str(made.server.cert), "key": str(made.server.key)}
    context = client_context(Path(made.authority.cert))
    folder = tmp_path / "data"
    with live(folder, verify=context, tls=tls, access={"tokens": "required"}) as running:
        assert running.url.startswith("https://")
        url = f"https://localhost:{running.port}"
        token = Authority.open(folder).new_token(Role.VIEWER)
        with httpx.Client(base_url=url, verify=context, trust_env=False) as browser:
            answer = browser.post("/api/login", json={"token": token}, headers={"origin": url})
            assert answer.headers["strict-transport-security"].startswith("max-age=")
            cookie = answer.headers["set-cookie"]
            assert cookie.startswith(f"__Host-quoracy-{running.port}=")
            assert "; Secure" in cookie
            assert browser.get("/api/status").status_code == 200


# -- cookies -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Live, Authority]]:
    folder = tmp_path_factory.mktemp("guarded")
    with live(folder, access={"tokens": "required"}) as running:
        running.coordinator.create("demo")
        yield running, Authority.open(folder)


def test_a_browser_logs_in_looks_orders_and_logs_out(guarded: tuple[Live, Authority]) -> None:
    running, authority = guarded
    token = authority.new_token(Role.OPERATOR, name="ada")
    own = {"origin": running.url}
    with httpx.Client(base_url=running.url, trust_env=False) as browser:
        problem(browser.get("/api/status"), 401, "bad_token")
        answer = browser.post("/api/login", json={"token": token}, headers=own)
        assert answer.json() == {"role": "operator", "run": "*", "name": "ada"}
        cookie = answer.headers["set-cookie"]
        for part in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"):
            assert part in cookie
        assert "Secure" not in cookie, "there is no TLS here"
        assert browser.get("/api/status").status_code == 200
        assert browser.post("/api/runs/demo/orders", json=ORDER, headers=own).status_code == 200
        assert browser.post("/api/logout", headers=own).status_code == 204
        problem(browser.get("/api/status"), 401, "bad_token")


def test_a_cookie_alone_changes_nothing(guarded: tuple[Live, Authority]) -> None:
    """A form of a foreign page brings the cookie along, and in old browsers no origin."""
    running, authority = guarded
    token = authority.new_token(Role.OPERATOR)
    cookie = {"cookie": f"other=1; quoracy-{running.port}={token}"}
    http = running.http
    assert http.get("/api/status", headers=cookie).status_code == 200
    problem(http.post("/api/runs/demo/orders", json=ORDER, headers=cookie), 403, "foreign_origin")
    foreign = {**cookie, "origin": "https://evil.example"}
    problem(http.post("/api/runs/demo/orders", json=ORDER, headers=foreign), 403, "foreign_origin")
    cross = {**cookie, "sec-fetch-site": "cross-site"}
    problem(http.post("/api/runs/demo/orders", json=ORDER, headers=cross), 403, "foreign_origin")
    fetched = {**cookie, "sec-fetch-site": "same-origin"}
    assert http.post("/api/runs/demo/orders", json=ORDER, headers=fetched).status_code == 200


def test_nobody_logs_in_with_a_false_token(guarded: tuple[Live, Authority]) -> None:
    http = guarded[0].http
    for token in ("nonsense", "qrt1_admin_x.y", "qrt1_session_1.x"):
        response = http.post("/api/login", json={"token": token})
        problem(response, 401, "bad_token")
        assert "set-cookie" not in response.headers


def test_a_token_in_an_address_is_not_taken(guarded: tuple[Live, Authority]) -> None:
    running, authority = guarded
    token = authority.new_token(Role.ADMIN)
    for name in ("token", "access_token", "authorization"):
        assert running.http.get("/api/status", params={name: token}).status_code == 401


@pytest.mark.parametrize("given", ["Basic YTpi", "Bearer", "qrt1_admin_x.y"])
def test_other_ways_to_say_who_one_is_are_refused(guarded: tuple[Live, Authority], given: str) -> None:
    problem(guarded[0].http.get("/api/status", headers={"authorization": given}), 401, "bad_token")


def test_tokens_do_not_get_into_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with live(tmp_path, access={"tokens": "required"}, log={"level": "debug"}) as running:
        token = Authority.open(tmp_path).new_token(Role.ADMIN)
        running.http.post("/api/login", json={"token": token})
        running.http.get("/api/status", headers={"authorization": f"Bearer {token}"})
        running.http.get("/api/nothing", headers={"authorization": f"Bearer {token}x"})
        raw(running.port, f"GET / HTTP/9.9\r\nauthorization: Bearer {token}\r\n\r\n".encode())
    told = capfd.readouterr()
    assert "serving" in told.err
    assert token[:40] not in told.err + told.out
