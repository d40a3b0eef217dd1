"""The view in a real browser: every page of a living cluster, a kill as it is drawn, the slider, and the exported file.

``BARNABAS_SCREENSHOTS=DIR`` keeps what was to be seen.
"""

from __future__ import annotations

import json
import os
import re
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
DRAWN_S_MAX = 1
KILLS = 4
CONTRAST_MIN = 4.5
"""Of text (WCAG 2.2, level AA)."""


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


def seen_by_the_coordinator(cluster: Cluster) -> str:
    """The view's address at the broker that knows the group."""
    described = barnabas("group", "describe", "readers", "-b", cluster.bootstrap, "--format", "json")
    assert described.returncode == 0, described.stderr
    return f"http://{cluster.broker(json.loads(described.stdout)['coordinator'])['admin']}/view/"


def go_through_every_page(browser: Any, address: str) -> None:
    open_cluster(browser, address)
    for page, title in PAGES.items():
        browser.execute_script("location.hash = arguments[0]", f"#/{page}")

        def drawn(title: str = title) -> bool:
            return said(browser, "main h1") == title and count(browser, "main :is(table, .chart)") > 0

        until(drawn, page, 120)
        assert not count(browser, "main p.error"), said(browser)
        picture(browser, title.split()[0].lower())


def test_every_page_is_drawn_from_a_living_cluster(browser: Any, cluster: Cluster) -> None:
    go_through_every_page(browser, seen_by_the_coordinator(cluster))
    browser.execute_script("location.hash = '#/messages?topic=flights&partition=0&key=N00007'")
    until(lambda: '"flight": 7' in said(browser), "the record of that key", 120)
    quiet(browser)


def drawn_behind_the_election(browser: Any, cluster: Cluster) -> float:
    """Kills a broker; how many seconds after the broker that shows it knew of the last new leader the picture had all
    of them."""
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
    return float(drawn_ms - elected_ms) / 1000


def until_drawn_within_a_second(browser: Any, cluster: Cluster) -> None:
    """A machine may stall for seconds, and then it is the machine that is measured: one of several kills counts."""
    late: list[float] = []
    while not late or late[-1] >= DRAWN_S_MAX:
        assert len(late) < KILLS, f"the picture had the elections {late} s behind the broker that shows it"
        if late:
            cluster.up()
            until(lambda: whole(browser, cluster), "the picture of a whole cluster", 120)
        late.append(drawn_behind_the_election(browser, cluster))
    print(f"the picture had the election {late[-1]:.2f} s behind the broker that shows it")


def whole(browser: Any, cluster: Cluster) -> bool:
    """The broker that came back is in every ISR, as the picture has it."""
    open_cluster(browser, cluster.state["view"])
    return count(browser, ".replica:is(.leader, .in-sync):not(.down)") == 18


def test_a_kill_is_drawn_every_page_lives_on_and_the_slider_goes_back_before_it(
    browser: Any, cluster: Cluster, tmp_path: Path
) -> None:
    until_drawn_within_a_second(browser, cluster)
    address = str(cluster.state["view"])
    seen_at = next(each for each in cluster.state["brokers"] if address.startswith(f"http://{each['admin']}/"))
    picture(browser, "cluster")
    go_through_every_page(browser, seen_by_the_coordinator(cluster))
    open_cluster(browser, address)
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


@pytest.fixture
def telephone(browser: Any) -> Iterator[None]:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": True}
    )
    yield
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.usefixtures("telephone")
def test_a_telephone_shows_it_without_scrolling_sideways(browser: Any, cluster: Cluster) -> None:
    open_cluster(browser, cluster.state["view"])
    for page in ("cluster", "topics", "controller"):
        browser.execute_script("location.hash = arguments[0]", f"#/{page}")
        until(lambda page=page: said(browser, "nav [aria-current]") == page and said(browser, "main h1"), page, 120)
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    picture(browser, "phone")


@pytest.mark.usefixtures("telephone")
def test_a_telephone_shows_a_kill_within_a_second(browser: Any, cluster: Cluster) -> None:
    cluster.up()
    until(lambda: whole(browser, cluster), "the picture of a whole cluster", 120)
    until_drawn_within_a_second(browser, cluster)
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    quiet(browser)


def test_the_keyboard_alone_goes_everywhere(browser: Any, cluster: Cluster) -> None:
    from selenium.webdriver import ActionChains, Keys

    def press(key: str) -> None:
        ActionChains(browser).send_keys(key).perform()

    def focused(attribute: str) -> str:
        found: str | None = browser.execute_script(
            "return document.activeElement.getAttribute(arguments[0])", attribute
        )
        return found or ""

    open_cluster(browser, cluster.state["view"])
    pages = [each.removeprefix("#/") for each in browser.execute_script(
        "return [...document.querySelectorAll('nav a')].map(each => each.getAttribute('href'))"
    )]  # fmt: skip
    assert len(pages) == 9
    for number, page in enumerate(pages, 1):
        press(str(number))
        until(lambda page=page: said(browser, "nav [aria-current]") == page and said(browser, "main h1"), page, 120)
    press("1")
    until(lambda: count(browser, "[data-partition]") == 6, "the picture of the cluster", 120)
    press("/")
    assert focused("id") == "search"
    press("2")
    assert said(browser, "nav [aria-current]") == "cluster", "who types into a field goes nowhere"
    browser.execute_script("document.activeElement.value = ''; document.activeElement.blur()")
    press(",")
    until(lambda: browser.execute_script("return live.getAttribute('aria-pressed')") == "false", "the change before")
    press("l")
    until(lambda: browser.execute_script("return live.getAttribute('aria-pressed')") == "true", "what happens now")

    # And with the tabulator alone, to whatever can be followed, typed into or pressed; one sees where one is.
    press("4")
    until(lambda: said(browser, "main h1") == "Groups" and count(browser, "main table") > 0, "groups", 120)
    wanted = browser.execute_script(
        "return [...document.querySelectorAll('a[href], input, button, select')]"
        ".filter(each => each.checkVisibility()).length"
    )
    browser.execute_script("document.activeElement.blur(); window.reached = new Set()")
    for _ in range(wanted + 5):
        press(Keys.TAB)
        outlined = browser.execute_script(
            "const at = document.activeElement;"
            "if (at === document.body || at.id === 'main') return true;"
            "reached.add(at); return getComputedStyle(at).outlineStyle !== 'none'"
        )
        assert outlined, "it is seen where the focus is"
    assert browser.execute_script("return reached.size") == wanted
    quiet(browser)


CONTRASTS = """
const rgb = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
const channel = (value) => value <= 10 ? value / 3294 : ((value / 255 + 0.055) / 1.055) ** 2.4;
const light = ([red, green, blue]) => 0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue);
const below = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const [red, green, blue, opaque] = rgb(getComputedStyle(at).backgroundColor);
    if (opaque === undefined || opaque > 0) return [red, green, blue];
  }
  return rgb(getComputedStyle(document.documentElement).colorScheme === "dark" ? "18 23 30" : "255 255 255");
};
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const found = {};
while (texts.nextNode()) {
  const element = texts.currentNode.parentElement;
  if (!texts.currentNode.data.trim() || !element.checkVisibility() || element.closest(".down")) continue;
  const [one, other] = [light(rgb(getComputedStyle(element).color)), light(below(element))].sort((a, b) => b - a);
  const name = `${element.tagName.toLowerCase()}.${element.className}`;
  found[name] = Math.min(found[name] ?? 21, (one + 0.05) / (other + 0.05));
}
return found;
"""
"""By element and class of a text how much it stands out from what is below it, at least. What is down is dimmed."""


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_every_text_can_be_read_in_the_dark_and_in_the_light(browser: Any, cluster: Cluster, scheme: str) -> None:
    wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
    open_cluster(browser, seen_by_the_coordinator(cluster))
    dark = light_of(browser) < 0.5
    assert dark == (scheme == "dark")
    for page, title in {"cluster": "Cluster", **PAGES}.items():
        browser.execute_script("location.hash = arguments[0]", f"#/{page}")
        until(
            lambda title=title: said(browser, "main h1") == title and count(browser, "main :is(table, .chart)") > 0,
            page,
            120,
        )
        contrasts = browser.execute_script(CONTRASTS)
        assert len(contrasts) > 5, "texts of the head and of the page"
        faint = {name: round(each, 2) for name, each in contrasts.items() if each < CONTRAST_MIN}
        assert not faint, f"{page}, {scheme}"
    browser.execute_script("location.hash = '#/cluster'")
    until(lambda: count(browser, "[data-partition]") == 6, "the picture of the cluster", 120)
    picture(browser, f"cluster-{scheme}")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    quiet(browser)


def light_of(browser: Any) -> float:
    """Of the page's paper, from 0 to 1."""
    colour: str = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3 / 255
