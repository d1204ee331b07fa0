"""How long a reader of the open model waits, in Chromium.

    make book
    python benchmarks/open_model.py

Opens the built page from a local server, in a new browser each time. The first screen is
there when the control has drawn itself. A long task is one of the page's own thread that
takes 50 ms or more. Words are timed from the message that asks the worker to the message
that brings the word: first with a worker that has yet to start and to unpack the model,
then with one that is warm. Cancelling is timed from its message to the last word that
still comes. Medians over the rounds, and the slowest.
"""

import argparse
import functools
import http.server
import statistics
import sys
import threading
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from transformer_lib.data.grammar import sentence_pairs

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "scripts"))

from chromium import launch  # noqa: E402

PAGE = "book/open_model.html"
WORDS = 20
COLD = "she opens the old door today"
LONG = max(sentence_pairs(300, 0, clauses=2), key=lambda pair: len(pair[1].split()))[0]
WATCH = """
  window.asked = []; window.long = [];
  new PerformanceObserver((list) => long.push(...list.getEntries().map((task) =>
    task.duration))).observe({ type: "longtask", buffered: true });
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
