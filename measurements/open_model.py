"""How long a reader of the open model waits, in Chromium.

    make book
    python measurements/open_model.py

Opens the built page from a local server, in a new tab each time. The first screen is
there when the control has drawn itself. The longest task is that of the page's own
thread, in processor time, so that other programs disturb it less. Words are timed from
the message that asks the worker to the message that brings the word: in the page's own
first question, to a worker that has yet to start and to unpack the model, and then in a
long sentence. Cancelling is timed from its message to the last word that still comes.
Medians over the rounds, and the slowest.
"""

import argparse
import functools
import http.server
import json
import statistics
import sys
import threading
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
from website.builder.chromium import launch  # noqa: E402

PAGE = "book/open_model.html"
WORDS = 20
LONG = (
    "sometimes the dog has bought old apples without these tired cats "
    "if a big student finds the big ball today"
)
WATCH = """
  window.asked = [];
  window.Worker = class extends Worker {
    constructor(...inputs) {
      super(...inputs);
      this.addEventListener("message", ({ data }) => {
        const own = asked.find(({ run }) => run === data.run);
        if ("id" in data) own.words.push(performance.now() - own.began);
        else own.ended = performance.now() - own.began;
      });
    }
    postMessage(question, ...others) {
      const { run, cancel } = question, began = performance.now();
      if (run) asked.push({ run, began, words: [] });
      const own = asked.find((each) => each.run === cancel);
      if (own) own.cancelled = began - own.began;
      super.postMessage(question, ...others);
    }
  };
  new MutationObserver((_, observer) => {
    if (!document.querySelector(".control.c-live")) return;
    requestAnimationFrame(() => { window.drawn = performance.now(); });
    observer.disconnect();
  }).observe(document, { subtree: true, childList: true, attributes: true });
"""


def measure(browser: Browser, address: str) -> dict[str, float]:
    """Open the page once, and let it translate three times.

    Returns:
        Milliseconds of each thing that is measured.
    """
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.add_init_script(WATCH)
    browser.start_tracing(page=page, categories=["toplevel"])
    page.goto(address)
    page.wait_for_function("window.drawn && asked[0]?.ended")

    def ask(text: str) -> dict:
        count = page.evaluate("asked.length")
        page.evaluate("(text) => { location.hash = new URLSearchParams(text); }", text)
        page.wait_for_function(
            "(n) => asked.length > n && asked.at(-1).ended", arg=count
        )
        return page.evaluate("asked.at(-1)")

    cold, warm = page.evaluate("asked[0]"), ask({"s": LONG})
    assert len(warm["words"]) >= WORDS, f"{len(warm['words'])} words: too few"
    head = '[{"kind":"head","node":"decoder.1.cross_attention","head":1}]'
    changed = ask({"s": LONG, "what": head})
    stopped = page.evaluate(
        """async ([first, second]) => {
          const count = asked.length;
          const until = (is) => new Promise((done) => {
            const look = () => (is() ? done() : setTimeout(look));
            look();
          });
          location.hash = new URLSearchParams({ s: first });
          await until(() => asked[count]?.words.length > 2);
          location.hash = new URLSearchParams({ s: second });
          await until(() => asked[count + 1]?.ended);
          return asked[count];
        }""",
        [f"today {LONG}", "she opens the old door today"],
    )
    found = {
        "first screen": page.evaluate("drawn"),
        "longest task": longest_task(browser.stop_tracing()),
        "first word, cold": cold["words"][0],
        "first word": warm["words"][0],
        f"{WORDS} words": warm["words"][WORDS - 1],
        "all tensors of these": warm["ended"],
        "a head off, all tensors": changed["ended"],
        "last word after cancelling": max(
            0, stopped["words"][-1] - stopped["cancelled"]
        ),
    }
    page.close()
    return found


def longest_task(trace: bytes) -> float:
    """Find the longest task of the page's own thread, in milliseconds."""
    events = json.loads(trace)["traceEvents"]
    main = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    return max(
        event.get("tdur", 0) / 1000
        for event in events
        if event["name"].endswith("RunTask") and (event["pid"], event["tid"]) in main
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    folder = ROOT / "_build/html"
    if not (folder / PAGE).exists():
        sys.exit(f"{folder / PAGE} is missing: make book writes it.")
    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/{PAGE}"
        with sync_playwright() as playwright:
            browser = launch(playwright)
            print(f"Chromium {browser.version}, {rounds} rounds\n")
            found = [measure(browser, address) for _ in range(rounds)]
            browser.close()
        server.shutdown()
    print("| what | median ms | slowest ms |\n|---|---|---|")
    for name in found[0]:
        times = [each[name] for each in found]
        print(f"| {name} | {statistics.median(times):.0f} | {max(times):.0f} |")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


if __name__ == "__main__":
    main()
