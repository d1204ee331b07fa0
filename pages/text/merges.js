/* A text as bytes, and then the known pairs, joined one after another. */
const MOST = 60; /* characters of a text */
const SLICE = 1000; /* merges that are read before the page may breathe */
const GUESSES = ["1", "2", "3", "4", "5 or more"];

/* The bytes of a token as text; what is not a whole character, in hexadecimal. */
function readable(token) {
  const bytes = Uint8Array.from([...token], (character) => BYTES.indexOf(character));
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)
      .replaceAll(" ", "▁");
  } catch {
    return [...bytes].map((byte) => byte.toString(16).toUpperCase().padStart(2, "0"))
      .join(" ");
  }
}

/* All states of a text: its words as lists of pieces, and the pair that is joined next. */
function states(tokenizer, text) {
  const clean = tokenizer.clean(text);
  let words = clean ? (" " + clean).match(WORDS).map((word) =>
    Array.from(new TextEncoder().encode(word), (byte) => BYTES[byte])) : [];
  const found = [];
  for (;;) {
    const pairs = words.flatMap((pieces) => pieces.slice(1).map((right, i) =>
      [pieces[i], right])).filter((pair) => tokenizer.ranks.has(pair.join(" ")));
    const rank = Math.min(...pairs.map((pair) => tokenizer.ranks.get(pair.join(" "))));
    const pair = pairs.find((each) => tokenizer.ranks.get(each.join(" ")) === rank);
    found.push({ words, pair, rank });
    if (!pair) return found;
    /* The tokenizer's own loop, which knows this pair alone. */
    const own = { ranks: new Map([[pair.join(" "), 0]]) };
    words = words.map((pieces) => tokenizer.merge.call(own, pieces));
  }
}

function draw(root, { texts, first, merges }, { make, line, slider, button, pick }) {
  const pairs = merges.split("\n");
  const tokenizer = Object.create(Tokenizer.prototype); /* with only what cutting needs */
  const ids = new Map(first.map((name, id) => [name, id])), ranks = new Map();
  Object.assign(tokenizer, { ids, ranks });
  const state = { text: texts[0], step: 0, guess: undefined };
  let steps;
  const board = make("div", { class: "c-merges" });
  const says = make("output", { class: "c-says" });
  const refusal = make("p", { class: "c-wrong", role: "alert" });
  const sliding = make("div"), guessing = make("div", { class: "c-guess" });
  const tell = (...lines) =>
    says.replaceChildren(...lines.map((text) => make("span", {}, text)));

  function box(piece) {
    return make("span", { class: "c-token" },
      make("bdi", {}, readable(piece)), make("small", {}, tokenizer.ids.get(piece)));
  }

  function drawWord(pieces, pair) {
    const boxes = [];
    for (let i = 0; i < pieces.length; i++) {
      if (pair && pieces[i] === pair[0] && pieces[i + 1] === pair[1]) {
        boxes.push(make("span", { class: "c-pair" }, box(pieces[i]),
          box(pieces[++i])));
      } else boxes.push(box(pieces[i]));
    }
    return make("div", { class: "c-tokens" }, boxes);
  }

  const quoted = (pair) => pair.map((piece) => `“${readable(piece)}”`).join(" and ");
  const counted = (count, name) => `${count} ${name}${count === 1 ? "" : "s"}`;

  function show(isTold = true) {
    const { words, pair, rank } = steps[state.step], all = steps.length - 1;
    board.replaceChildren(...words.map((pieces) => drawWord(pieces, pair)));
    const count = words.flat().length, before = steps[state.step - 1];
    next.setAttribute("aria-disabled", !pair);
    if (!isTold) return;
    const lines = [before ? `Merge ${state.step} of ${all} joined ${quoted(before.pair)}, `
      + `pair number ${before.rank + 1} of ${pairs.length}.` : "Bytes, before any merge."];
    if (pair) {
      lines.push(`${counted(count, "piece")}. Next: ${quoted(pair)}, pair number ${rank + 1}.`);
    } else {
      const ids = words.flat().map((piece) => tokenizer.ids.get(piece));
      lines.push(`No known pair is left: ${counted(count, "token")}, `
        + `${ids.length === 1 ? "id" : "ids"} ${ids.join(", ")}.`);
      if (state.guess !== undefined) {
        const isRight = state.guess === Math.min(count, GUESSES.length) - 1;
        lines.push(`Your guess was ${GUESSES[state.guess]}: ${isRight ? "right" : "not quite"}.`);
      }
    }
    tell(...lines);
  }

  function goTo(step) {
    if (!steps) return;
    state.step = Math.min(Math.max(step, 0), steps.length - 1);
    const input = sliding.querySelector("input");
    if (input && input.valueAsNumber !== state.step) {
      input.value = state.step;
      input.dispatchEvent(new Event("input"));
    } else show();
  }

  /* Read the merges, a slice at a time. A merged pair is a token, and has the next id. */
  function learn() {
    for (const pair of pairs.slice(ranks.size, ranks.size + SLICE)) {
      ranks.set(pair, ranks.size);
      const name = pair.replace(" ", "");
      if (!ids.has(name)) ids.set(name, ids.size);
    }
    if (ranks.size < pairs.length) setTimeout(learn);
    else take(typed.querySelector("input").value);
  }

  /* Take a text, if it is not too long. */
  function take(text) {
    if (ranks.size < pairs.length) return;
    const length = [...text].length;
    refusal.textContent = length > MOST ? `That is ${length} characters, and here is room `
      + `for ${MOST}. Below is the text before. Shorten yours a little.`
      : tokenizer.clean(text) ? "" : "Type a word or two. Below is the text before.";
    if (refusal.textContent) return;
    Object.assign(state, { text, step: 0, guess: undefined });
    steps = states(tokenizer, text);
    sliding.replaceChildren(steps.length > 1 ? slider("Merges",
      { min: 0, max: steps.length - 1, step: 1, value: 0,
        show: (value) => `${value} of ${steps.length - 1}` },
      (value) => {
        state.step = value;
        show();
      }) : "");
    guessing.replaceChildren(pick("Your guess: tokens", GUESSES, -1, (i) => {
      state.guess = i;
      tell(`Your guess: ${GUESSES[i]}. Now merge.`);
    }));
    show(false);
    tell("Each box is a piece, and below it is its id. The framed pair is joined next.");
  }

  const typed = line("Your text", texts[0], take);
  const next = button("Next merge", () => goTo(state.step + 1));
  root.append(
    make("p", { class: "c-asks" }, "This text starts as single bytes. How many tokens will be "
      + "left when no pair can be joined any more? Guess, then merge."),
    make("div", { class: "c-row c-inputs" }, typed), refusal,
    make("div", { class: "c-row c-inputs" }, "Or try:", texts.map((text) =>
      button(text, () => {
        typed.querySelector("input").value = text;
        take(text);
      }))),
    make("div", { class: "c-row c-inputs" }, make("span", {}, "Your guess"), guessing),
    make("div", { class: "c-row c-inputs" }, next, button("All merges", () =>
      goTo(steps.length - 1)), button("Back to bytes", () => goTo(0)), sliding),
    board, says);
  learn();
}
