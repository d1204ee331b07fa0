/* A recorded training run: a point on the curve of the loss, what the model writes after
   that update, and where its cross-attention looks. */
const FRAME = 200; /* milliseconds between two measurements while it plays */
const RUNS = ["with warm-up", "without warm-up"];
const WITH = 0, WITHOUT = 1;
const SHARES = ["30 %", "60 %", "90 %"], HOW_MANY = ["none", "half", "nearly all"];

const reversed = (word) => [...word].reverse().join("");
const percent = (share) => `${Math.round(100 * share)} %`;
const mean = (numbers) => numbers.reduce((sum, each) => sum + each, 0) / numbers.length;

/* Letters that stand where they should. */
const lettersRight = (written, right) =>
  [...right].filter((letter, i) => written[i] === letter).length;

/* The weights of a measurement, as rows of numbers from 0 to 0.99. */
function mapOf(digits, size) {
  return Array.from({ length: size }, (_, t) => Array.from({ length: size }, (_, s) =>
    Number(digits.slice(2 * (t * size + s), 2 * (t * size + s) + 2)) / 100));
}

function draw(root, { updates, words, runs, others }, kit) {
  const { make, button, pick, slider, paint, weightColour } = kit;
  const asked = words.at(-1), goal = reversed(asked), last = updates.length - 1;
  const state = { at: 0, run: WITH, word: words.length - 1, timer: null, question: 0,
    seen: [last, -1] }; /* how far the reader sees each curve */
  const most = Math.ceil(Math.max(...runs.flatMap(({ loss }) => loss)));

  /* What the questions are about: when the word is right, with warm-up. */
  const { writes: written } = runs[WITH].words[asked];
  const first = written.indexOf(goal);
  const lost = written.findIndex((text, i) => i > first && text !== goal);
  const settled = written.findLastIndex((text) => text !== goal) + 1;

  /* -- The curve, and its point -- */
  const x = (i) => 100 * updates[i] / updates[last];
  const y = (loss) => 100 - 100 * loss / most;
  const paths = runs.map((_, run) => make("path", { class: `c-run-${run}` }));
  const guide = make("path", { class: "c-zero" }), point = make("i");
  const curve = make("div", { class: "c-curve", "aria-hidden": "true" },
    make("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none" },
      make("path", { class: "c-zero", d: "M0 0V100H100" }), guide, paths),
    make("b", {}, most), make("b", {}, "0"), point);

  function pointed(event) {
    const box = curve.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    stop();
    go(Math.round(Math.min(Math.max(share, 0), 1) * last), false);
  }
  curve.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    curve.setPointerCapture(event.pointerId);
    if (event.pointerType === "mouse") pointed(event); /* a finger may want to scroll */
  });
  curve.addEventListener("pointermove", (event) => {
    if (curve.hasPointerCapture(event.pointerId)) pointed(event);
  });
  curve.addEventListener("click", pointed);
  curve.addEventListener("lostpointercapture", () => announce());

  /* -- What it writes, and where it looks -- */
  const tiles = make("div", { class: "c-written", role: "img" });
  const map = make("div", { class: "c-map", role: "img" });
  const facts = make("p", { class: "c-says" });
  const status = make("p", { class: "c-unseen", role: "status" });
  let cells; /* of the map, for the word that is shown */

  function drawWord() {
    const word = words[state.word], size = word.length + 1;
    const names = [...word, "end"], rows = [...reversed(word), "end"];
    cells = rows.map((_, t) => names.map((_, s) =>
      make("i", { class: t + s === word.length - 1 ? "c-framed" : "" })));
    map.style.setProperty("--n", size);
    map.replaceChildren(make("span"), ...names.map((name) => make("span", {}, name)),
      ...rows.flatMap((name, t) => [make("span", {}, name), ...cells[t]]));
  }

  const framed = (weights, length) =>
    mean(weights.slice(0, length).map((row, t) => row[length - 1 - t]));

  function update() {
    const { at, run } = state, word = words[state.word], right = reversed(word);
    state.seen[run] = Math.max(state.seen[run], at);
    const { loss, exact, words: found } = runs[run];
    const text = found[word].writes[at], { length } = word;
    const weights = mapOf(found[word].weights[at], length + 1);
    weights.forEach((row, t) => row.forEach((weight, s) =>
      paint(cells[t][s], weightColour(weight))));
    const places = Math.max(length, text.length);
    tiles.replaceChildren(...Array.from({ length: places }, (_, i) =>
      make("span", { class: i >= text.length ? "c-none"
        : text[i] === right[i] ? "c-right" : "c-other" }, text[i] ?? "")));
    const count = lettersRight(text, right);
    const said = text ? `“${text}”` : "nothing";
    const verdict = text === right ? "right" : text.length > length && count === length
      ? "right, but it does not end" : `${count} of ${length} letters in place`;
    tiles.setAttribute("aria-label", `It writes ${said}: ${verdict}`);
    map.setAttribute("aria-label", "Cross-attention: "
      + `${percent(framed(weights, length))} of it in the framed cells on average`);
    facts.textContent = `After ${updates[at]} updates ${RUNS[run]}: loss `
      + `${loss[at].toFixed(2)}. “${word}” becomes ${said}: ${verdict}. Of all unseen `
      + `sequences, ${percent(exact[at])} are right.`;
    paths.forEach((path, i) => {
      const seen = runs[i].loss.slice(0, state.seen[i] + 1);
      path.setAttribute("d", seen.length ? "M" + seen.map((each, j) => `${x(j)} ${y(each)}`)
        .join("L") : "");
      path.classList.toggle("c-faint", i !== run);
    });
    guide.setAttribute("d", `M${x(at)} 0V100`);
    Object.assign(point.style, { left: `${x(at)}%`, top: `${y(loss[at])}%` });
    point.className = `c-run-${run}`;
    const input = scrubber.querySelector("input"), output = scrubber.querySelector("output");
    input.value = at;
    output.textContent = updates[at];
    input.setAttribute("aria-valuetext", `${updates[at]} updates`);
    answer();
  }

  /* -- The questions: a guess first, then the recording answers -- */
  const asks = make("p", { class: "c-asks", tabindex: -1 });
  const guesses = make("div", { class: "c-row c-inputs c-guess" });
  const answers = make("span", { tabindex: -1 });
  const check = button("Check", () => {
    settle();
    update();
    announce();
    (next.hidden ? answers : next).focus(); /* the button is gone */
  });
  const next = button("Next question", () => {
    state.question += 1;
    ask();
    asks.focus(); /* the button is gone */
  });
  const lastWord = words.length - 1;

  /* `shown` is what the recording must show before the guess is answered. */
  const shares = [first, last].map((at) => framed(mapOf(runs[WITH].words[asked].weights[at],
    asked.length + 1), asked.length));
  const ends = runs.map(({ exact }) => exact[last]);
  const [seeds, without] = others.map((all) => all.map(percent).join(" and "));
  const QUESTIONS = [{
    text: `“${asked}” should become “${goal}”. After how many updates with warm-up does `
      + "the model first write it right?",
    options: [1 / 3, 1, 2].map((part) => String(updates[Math.round(part * first)])),
    right: 1,
    shown: { run: WITH, word: lastWord, at: first },
    far() {
      const { at, run, word } = state;
      if (run !== WITH || word !== lastWord) {
        return `The question is about “${asked}”, with warm-up.`;
      }
      if (at === 0) return "Press Play, or drag the point along the curve.";
      return written[at] === goal ? "Here it is right. Is it the first time?"
        : `Here it writes “${written[at]}”. Not yet, or no longer?`;
    },
    answer: `It is right after ${updates[first]}, but wrong again after ${updates[lost]}: an `
      + `update that helps other words can spoil this one. From ${updates[settled]} on it `
      + "stays right.",
  }, {
    text: `Here “${goal}” is right for the first time. How much of its attention lies on `
      + "the framed cells, on average? Guess from the map.",
    begin: () => Object.assign(state, { run: WITH, word: lastWord, at: first }),
    options: SHARES,
    right: SHARES.findIndex((text) => Math.abs(parseInt(text) / 100 - shares[0]) < 0.15),
    far: () => "Press Check.",
    answer: `${percent(shares[0])} is enough: the right letter only has to score highest. The `
      + `loss rewards certainty, so after ${updates[last]} updates it is `
      + `${percent(shares[1])}.`,
  }, {
    text: "The same weights and batches, but no warm-up: the rate is at its peak from the "
      + `first update on. After ${updates[last]} updates, how many of the unseen sequences `
      + "are right?",
    options: HOW_MANY,
    right: ends[WITHOUT] < 0.25 ? 0 : ends[WITHOUT] < 0.75 ? 1 : 2,
    shown: { run: WITHOUT, word: lastWord, at: last },
    far: () => "Press Play to see the run without warm-up.",
    answer: `${percent(ends[WITHOUT])}, against ${percent(ends[WITH])} with warm-up. Other `
      + `seeds: ${without}, against ${seeds}. The first steps are too large for `
      + "random weights (chapter 11).",
  }];
  const current = () => QUESTIONS[state.question];

  function ask() {
    const { text, begin, options } = current();
    stop();
    begin?.();
    asks.replaceChildren(...kit.question(state.question + 1, QUESTIONS.length, text));
    guesses.replaceChildren(pick("Your guess", options, -1, (i) => {
      current().guess = i;
      answer();
      announce();
    }), check, next);
    choose({});
  }

  /* Compare the guess with the recording. From now on it cannot be changed. */
  function settle() {
    const question = current(), { guess, right, options } = question;
    question.told = (guess === right ? "✓ " : `You guessed ${options[guess]}. `)
      + question.answer;
    guesses.querySelectorAll("input").forEach((input) => { input.disabled = true; });
  }

  function answer() {
    const { shown, guess, told, far } = current();
    const isShown = shown && Object.entries(shown).every(([key, value]) =>
      state[key] === value);
    if (isShown && guess !== undefined && !told) {
      settle();
      answer();
      return;
    }
    answers.textContent = told ?? (guess === undefined
      ? `Choose your guess, then press ${shown ? "Play" : "Check"}.` : far());
    answers.className = told ? "c-reached" : "";
    check.hidden = shown || told || guess === undefined;
    next.hidden = !told || state.question === QUESTIONS.length - 1;
    play.setAttribute("aria-disabled", waits());
    play.classList.toggle("c-first", Boolean(shown) && guess !== undefined && !told);
  }

  /* The recording waits for the guess that it will answer. */
  const waits = () => Boolean(current().shown) && current().guess === undefined;

  /* -- Moving -- */
  function announce() {
    status.textContent = `${facts.textContent} ${map.getAttribute("aria-label")}. `
      + answers.textContent;
  }

  function go(at, isTold = true) {
    state.at = Math.min(Math.max(at, 0), last);
    update();
    if (isTold) announce();
  }

  function stop() {
    clearInterval(state.timer);
    state.timer = null;
    play.textContent = "Play";
  }

  /* Play up to what answers the question, and after that to the end. */
  const play = button("Play", () => {
    const { shown, told } = current(), end = shown && !told ? shown.at : last;
    if (state.timer) {
      stop();
      announce();
      return;
    }
    if (waits()) {
      announce();
      return;
    }
    if (shown && !told) choose({ run: shown.run, word: shown.word,
      at: state.run === shown.run ? state.at : 0 });
    go(state.at < end ? state.at : 0, false);
    status.textContent = "The training plays.";
    play.textContent = "Pause";
    state.timer = setInterval(() => {
      const ends = state.at + 1 >= end;
      if (ends) stop();
      go(state.at + 1, ends);
    }, FRAME);
  });
  const scrubber = slider("Updates", { min: 0, max: last, step: 1, value: 0 },
    (at) => { stop(); go(at, false); });
  scrubber.querySelector("input").addEventListener("change", () => announce());
  scrubber.querySelector("output").setAttribute("aria-hidden", true); /* not per pixel */

  function choose(changes) {
    Object.assign(state, changes);
    [[runPick, state.run], [wordPick, state.word]].forEach(([group, i]) => {
      group.querySelectorAll("input")[i].checked = true;
    });
    drawWord();
    update();
  }
  const runPick = pick("Training", RUNS.map((name, i) => make("span", {},
    make("i", { class: `c-run-${i}` }), name)), WITH, (run) => {
    choose({ run });
    announce();
  });
  const wordPick = pick("Word", words.map((word) => make("span", {}, word)), state.word,
    (word) => {
      choose({ word });
      announce();
    });

  root.append(asks, guesses, make("div", { class: "c-answers" }, answers),
    make("div", { class: "c-learn" },
      make("div", {},
        make("p", { class: "c-hint" }, "Loss on unseen sequences"), curve,
        make("div", { class: "c-row c-inputs c-race-steps" }, play, scrubber),
        make("p", { class: "c-hint" }, "It writes"), tiles,
        make("p", { class: "c-legend" }, [["right", "right letter"], ["other", "wrong letter"],
          ["none", "nothing"]].map(([kind, text]) =>
          make("span", {}, make("i", { class: `c-${kind}` }), text)))),
      make("div", {},
        make("p", { class: "c-hint" }, "Rows: the letter to write. Columns: where the model "
          + "looks"), map,
        make("p", { class: "c-legend" }, [["framed", "the letter to write"],
          ["dark", "all the attention"]].map(([kind, text]) => {
          const mark = make("i", { class: `c-${kind}` });
          if (kind === "dark") paint(mark, weightColour(1));
          return make("span", {}, mark, text);
        })))),
    make("div", { class: "c-row c-inputs" }, runPick, wordPick),
    facts, status);
  ask();
}
