"""The view in a real browser: every page of a living cluster, a kill as it is drawn, the slider, and the exported file.

``BARNABAS_SCREENSHOTS=DIR`` keeps what was to be seen.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from cluster import Cluster, barnabas, running, until

CONFIG = ("zookeeper.session.timeout.ms=10000", "group.initial.rebalance.delay.ms=0")
PAGES = {
    "topics": "Topics",
    "topics?topic=flights": "flights",
    "messages?topic=flights&partition=0": "Messages",
    "groups": "Groups",
    "groups?group=readers": "readers",
    "transactions": "Transactions",
    "controller": "Controller",
    "znodes?path=/brokers/ids": "Znodes",
    "configurations?changed=1": "Configuration of this broker",
    "metrics": "Metrics",
}
"""Each with its title."""


def programs() -> tuple[str, str] | None:
    """Chromium and its driver, both of the distribution."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    found = programs()
    if found is None and os.environ.get("CI") == "true":
        packages = ["chromium", "chromium-driver"]
        for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", *packages]):
            subprocess.run(command, check=True, capture_output=True)
        found = programs()
        assert found is not None, "apt installed Chromium, and it is not on PATH"
    if found is None:
        pytest.skip("there is no Chromium with its driver (apt-get install chromium chromium-driver)")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = found[0]
    profile = tmp_path_factory.mktemp("browser")
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", f"user-data-dir={profile}"):
        options.add_argument(f"--{argument}")
    options.add_argument("--window-size=1280,860")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(found[1]))
    driver.set_page_load_timeout(120)
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def cluster(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("seen"), 3, *CONFIG) as cluster:
        at = ("-b", cluster.bootstrap)
        for words in (
            ("topic", "create", "flights", "-p", "6", "-r", "3"),
            ("produce", "-t", "flights", "-p", "0", "-K", "="),
            ("group", "reset", "readers", "-t", "flights", "--to-earliest", "--execute"),
        ):
            lines = "".join(f'N{n:05}={{"carrier": "UA", "flight": {n}, "delay": {n % 90 - 10}}}\n' for n in range(500))
            done = barnabas(*words, *at, text=lines)
            assert done.returncode == 0, done.stderr
        yield cluster


def picture(browser: Any, name: str) -> None:
    if directory := os.environ.get("BARNABAS_SCREENSHOTS"):
        browser.save_screenshot(str(Path(directory) / f"{name}.png"))


def said(browser: Any, selector: str = "main") -> str:
    text: str = browser.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)
    return text


def count(browser: Any, selector: str) -> int:
    found: int = browser.execute_script("return document.querySelectorAll(arguments[0]).length", selector)
    return found


def quiet(browser: Any) -> None:
    """The pages complained of nothing."""
    wrong = [each["message"] for each in browser.get_log("browser") if each["level"] == "SEVERE"]
    assert not wrong


def open_cluster(browser: Any, address: str) -> None:
    browser.get(f"{address}#/cluster")
    until(lambda: count(browser, "[data-partition]") == 6, "the picture of the cluster", 120)


def test_every_page_is_drawn_from_a_living_cluster(browser: Any, cluster: Cluster) -> None:
    described = barnabas("group", "describe", "readers", "-b", cluster.bootstrap, "--format", "json")
    coordinator = cluster.broker(json.loads(described.stdout)["coordinator"])
    open_cluster(browser, f"http://{coordinator['admin']}/view/")
    for page, title in PAGES.items():
        browser.execute_script("location.hash = arguments[0]", f"#/{page}")

        def drawn(title: str = title) -> bool:
            return said(browser, "main h1") == title and count(browser, "main :is(table, .chart)") > 0

        until(drawn, page, 120)
        assert not count(browser, "main p.error"), said(browser)
        picture(browser, title.split()[0].lower())
    browser.execute_script("location.hash = '#/messages?topic=flights&partition=0&key=N00007'")
    until(lambda: '"flight": 7' in said(browser), "the record of that key", 120)
    quiet(browser)


def test_a_kill_is_drawn_and_the_slider_goes_back_before_it(browser: Any, cluster: Cluster, tmp_path: Path) -> None:
    address = str(cluster.state["view"])
    open_cluster(browser, address)
    seen_at = next(each for each in cluster.state["brokers"] if address.startswith(f"http://{each['admin']}/"))
    victim = next(each["id"] for each in cluster.state["brokers"] if each is not seen_at)
    browser.execute_script(
        """
        const [victim] = arguments;
        window.drawnMs = null;
        window.watching = setInterval(() => {
          const broker = document.querySelector(`.broker.down[data-broker="${victim}"]`);
          const led = document.querySelectorAll(".replica.leader:not(.down)").length;
          if (broker && led === 6) { window.drawnMs = Date.now(); clearInterval(window.watching); }
        }, 20);
        """,
        victim,
    )
    cluster.kill(victim)
    drawn_ms = until(lambda: browser.execute_script("return window.drawnMs"), "the election in the picture", 120)
    with urlopen(f"http://{seen_at['admin']}/history", timeout=60) as answer:
        history = json.load(answer)
    elected_ms = max(
        ms for ms, name, value in history["changes"] if name.startswith("partition/flights-") and value["leader"] >= 0
    )
    late_s = (drawn_ms - elected_ms) / 1000
    print(f"the picture had the election {late_s:.2f} s behind the broker that shows it")
    assert late_s < 15, "a machine may stall, but the picture comes by itself"
    picture(browser, "cluster")
    for _ in range(300):
        browser.execute_script("document.getElementById('back').click()")
        if not count(browser, ".broker.down"):
            break
    assert not count(browser, ".broker.down"), "the slider goes back before the kill"
    assert said(browser, "#live") == "live"
    browser.execute_script("document.getElementById('live').click()")
    assert count(browser, ".broker.down") == 1

    with urlopen(f"http://{seen_at['admin']}/export", timeout=60) as answer:
        exported = tmp_path / "history.html"
        exported.write_bytes(answer.read())
    browser.get(exported.as_uri())
    until(lambda: count(browser, "[data-partition]") == 6, "the picture in the file", 120)
    assert count(browser, ".broker.down") == 1
    assert said(browser, "#link").startswith("recorded by broker")
    quiet(browser)


def test_a_telephone_shows_it_without_scrolling_sideways(browser: Any, cluster: Cluster) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    )
    open_cluster(browser, cluster.state["view"])
    for page in ("cluster", "topics", "controller"):
        browser.execute_script("location.hash = arguments[0]", f"#/{page}")
        until(lambda page=page: said(browser, "nav [aria-current]") == page and said(browser, "main h1"), page, 120)
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    picture(browser, "phone")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
