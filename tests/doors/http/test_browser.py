"""The page for people, in a real browser: nothing from elsewhere, no errors, and streams that mend themselves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, sync_playwright
from tests.doors.http.live import Live, live
from tests.sdk.live import wait_for

from quoracy.doors.auth import Authority, Role

pytestmark = pytest.mark.soak("browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
)  # fmt: skip
ALL_FILLED = "[...document.querySelectorAll('.inside')].every(box => box.childElementCount > 2)"
"""Asked again from here: a page that waits by itself evaluates a string, which its own policy forbids."""


class Seen:
    """What the page complained about, and what it asked for."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.asked: list[str] = []


@contextmanager
def browser_page(url: str) -> Iterator[tuple[Page, Seen]]:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    assert found is not None, "these tests need chromium: .ci/tools browser"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        try:
            page = browser.new_page()
            page.set_default_timeout(30_000)
            seen = Seen()
            page.on("console", lambda said: seen.complaints.append(said.text) if said.type == "error" else None)
            page.on("pageerror", lambda error: seen.complaints.append(str(error)))
            page.on("request", lambda request: seen.asked.append(request.url))
            page.goto(f"{url}/api/docs")
            page.wait_for_selector("body[data-ready=yes]")
            yield page, seen
        finally:
            browser.close()


def test_the_page_shows_every_route_and_tries_them(home: Live) -> None:
    paths = home.http.get("/api/openapi.json").json()["paths"]
    with browser_page(home.url) as (page, seen):
        assert page.locator("details").count() == sum(len(there) for there in paths.values())
        page.click("#route-show summary")
        page.fill("#route-show input[name=run]", "demo")
        page.click("#route-show button")
        page.wait_for_selector("#route-show pre:has-text('200 in')")
        assert '"run": "demo"' in page.inner_text("#route-show .try + pre")
        page.fill("#route-show input[name=run]", "a/b & <i>c</i>")
        page.click("#route-show button")
        page.wait_for_selector("#route-show pre:has-text('unknown_run')")
        assert page.locator("#route-show pre i").count() == 0, "what comes in is shown as text"
        page.evaluate("document.querySelectorAll('details').forEach(box => { box.open = true; })")
        wait_for(lambda: page.evaluate(ALL_FILLED), "every box has something in it")
        assert "event position | event entry | event gap" in page.inner_text("#route-events")
        assert seen.complaints == ["Failed to load resource: the server responded with a status of 404 (Not Found)"]
        assert [url for url in seen.asked if not url.startswith(home.url)] == []


def test_an_event_source_follows_a_run(home: Live) -> None:
    home.coordinator.create("watched")
    with browser_page(home.url) as (page, seen):
        page.click("#route-events summary")
        page.fill("#route-events input[name=run]", "watched")
        page.click("#route-events button")
        page.wait_for_selector("#route-events pre:has-text('position 1')")
        home.http.post("/api/runs/watched/orders", json={"command": "pause"})
        page.wait_for_selector("#route-events pre:has-text('entry 2')")
        assert seen.complaints == []


def test_a_browser_logs_in_and_a_page_of_its_own_may_order(tmp_path: Path) -> None:
    with live(tmp_path, access={"tokens": "required"}) as running:
        running.coordinator.create("demo")
        token = Authority.open(tmp_path).new_token(Role.OPERATOR, name="ada")
        with browser_page(running.url) as (page, _):
            page.fill("#token", token)
            page.click("#login button[type=submit]")
            page.wait_for_selector("#who:has-text('operator of all runs')")
            assert page.evaluate("document.cookie") == "", "scripts do not see it"
            assert page.evaluate("fetch('/api/status').then(answer => answer.status)") == 200
            ordered = """fetch('/api/runs/demo/orders', {method: 'POST', headers: {'content-type': 'application/json'},
                body: '{"command": "pause"}'}).then(answer => answer.status)"""
            assert page.evaluate(ordered) == 200
            page.click("#logout")
            page.wait_for_selector("#who:has-text('logged out')")
            assert page.evaluate("fetch('/api/status').then(answer => answer.status)") == 401
            assert token[:40] not in page.content()


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_page_of_another_server_learns_and_changes_nothing(tmp_path: Path, home: Live, method: str) -> None:
    with live(tmp_path) as other:
        body = ', body: \'{"command": "pause"}\'' if method == "POST" else ""
        path = "/api/runs/demo/orders" if method == "POST" else "/api/status"
        before = home.http.get("/api/runs/demo").json()["entry"]
        with browser_page(other.url) as (page, _):
            page.route("**/api/docs", lambda route: route.fulfill(body="<title>bare</title>", content_type="text/html"))
            page.goto(f"{other.url}/api/docs")
            asked = f"fetch('{home.url}{path}', {{method: '{method}'{body}}}).then(() => 'read', () => 'kept out')"
            assert page.evaluate(asked) == "kept out"
        assert home.http.get("/api/runs/demo").json()["entry"] == before
