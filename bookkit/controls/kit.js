/* What the controls share. It stands in a function of its own, so that nothing of it
   reaches the rest of the page. */
const TAKES_KEYS = new Set(["input", "select", "button", "summary"]);

/* Make an element: kit.make("td", { class: "c-cell" }, "0.25"). Text stays text; a
   value that is a function listens to the event of that name. What takes keys keeps them
   from JupyterLab, which reads this attribute on the very element that has the focus. */
function make(tag, attributes = {}, ...children) {
  const svg = "svg g path line rect circle text title".split(" ").includes(tag);
  const space = svg ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml";
  const element = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  if (TAKES_KEYS.has(tag) || "tabindex" in attributes) {
    element.setAttribute("data-lm-suppress-shortcuts", "true");
  }
  element.append(...children.flat());
  return element;
}

/* A slider with its name before it and its value after it. */
function slider(label, { min, max, step, value, show = String }, changed) {
  const input = make("input", { type: "range", min, max, step, value });
  const output = make("output");
  const update = () => {
    output.textContent = show(input.valueAsNumber);
    input.setAttribute("aria-valuetext", output.textContent);
  };
  input.addEventListener("input", () => { update(); changed(input.valueAsNumber); });
  update();
  return make("label", { class: "c-slider" }, make("span", {}, label), input, output);
}

/* A list to choose from; `choices` are texts, `changed` gets the number of one. */
function choice(label, choices, chosen, changed) {
  const options = choices.map((text, i) =>
    make("option", { value: i, selected: i === chosen }, text));
  const select = make("select", { change: () => changed(select.selectedIndex) }, options);
  return make("label", { class: "c-choice" }, make("span", {}, label), select);
}

/* A box to tick. */
function tick(label, checked, changed) {
  const input = make("input", { type: "checkbox", checked });
  input.addEventListener("change", () => changed(input.checked));
  return make("label", { class: "c-tick" }, input, make("span", {}, label));
}

/* A line to type in. */
function line(label, value, changed) {
  const input = make("input", { type: "text", value, spellcheck: "false",
    autocomplete: "off", input: () => changed(input.value) });
  return make("label", { class: "c-line" }, make("span", {}, label), input);
}

function button(label, pressed) {
  return make("button", { type: "button", click: pressed }, label);
}

/* What a control asks, headed in the same way everywhere. */
function question(number, all, text) {
  return [make("strong", {}, `Question ${number} of ${all}.`), ` ${text}`];
}

/* One of several, by mouse or by arrow keys: `chosen` is the number of one, and `picked`
   gets one. `pointed` gets the one under the pointer, and when it leaves the picked one
   again. Each child is a label around its content, a text or an element. */
function pick(label, contents, chosen, picked, pointed = () => {}) {
  const name = `pick${Math.random().toString(36).replace(/[\d.]/g, "")}`; /* of no other group */
  const button = (i) => make("input", { type: "radio", name, checked: i === chosen,
    change: () => { chosen = i; picked(i); } });
  const option = (content, i) => make("label", { pointerenter: () => pointed(i),
    pointerleave: () => pointed(chosen) }, button(i), content);
  return make("div", { class: "c-pick", role: "radiogroup", "aria-label": label },
    contents.map(option));
}

/* The legend of tokens that a tokenizer made. */
const MARKS = "“▁” begins a word, and “</s>” ends the sentence.";

/* A colour between the given ones, for a value from 0 to 1. */
function between(colours, value) {
  const place = Math.min(Math.max(value, 0), 1) * (colours.length - 1);
  const low = Math.min(Math.floor(place), colours.length - 2);
  const mix = colours[low].map((a, i) => Math.round(
    a + (place - low) * (colours[low + 1][i] - a)));
  return mix;
}

/* The colours of the book's figures: matplotlib's Blues, and its RdBu_r. */
const BLUES = [[247, 251, 255], [222, 235, 247], [198, 219, 239], [158, 202, 225],
  [107, 174, 214], [66, 146, 198], [33, 113, 181], [8, 81, 156], [8, 48, 107]];
const RED_BLUE = [[5, 48, 97], [33, 102, 172], [67, 147, 195], [146, 197, 222],
  [209, 229, 240], [247, 247, 247], [253, 219, 199], [244, 165, 130], [214, 96, 77],
  [178, 24, 43], [103, 0, 31]];
const weightColour = (weight) => between(BLUES, weight); /* 0 to 1 */
const signedColour = (value, most) => between(RED_BLUE, 0.5 + value / (2 * most));

/* The same colour on a dark page: what is bright becomes dark, and a blue stays a blue.
   It is what CSS does to a canvas by "invert(0.86) hue-rotate(180deg)". */
function darkened(colour) {
  const [red, green, blue] = colour.map((part) => 255 * 0.86 - 0.72 * part);
  return [[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]].map(
    ([r, g, b]) => Math.round(Math.min(Math.max(r * red + g * green + b * blue, 0), 255)));
}

/* Black or white, whichever reads better on a colour. */
function textOn(colour) {
  const light = colour.map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  const luminance = 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2];
  return luminance > 0.179 ? "#000" : "#fff";
}

/* Paint an element for both themes; the style takes the colours of one. A colour is one
   of the light theme, or a pair that the book declares: "#rrggbb", light and dark. */
function paint(element, colour) {
  const both = typeof colour[0] === "string"
    ? colour.map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)))
    : [colour, darkened(colour)];
  for (const [theme, own] of [["light", both[0]], ["dark", both[1]]]) {
    element.style.setProperty(`--${theme}`, `rgb(${own.join(", ")})`);
    element.style.setProperty(`--on-${theme}`, textOn(own));
  }
  element.classList.add("c-painted");
  return element;
}

/* A table of numbers, coloured; rows ask, columns are asked. `show` and `colour` get
   (value, row, column); focus and hover call `looked(row, column)`, if given. */
function grid(caption, rows, columns, values, { show, colour }) {
  const head = make("tr", {}, make("td"),
    columns.map((name) => make("th", { scope: "col" }, name)));
  const body = values.map((cells, r) => make("tr", {},
    make("th", { scope: "row" }, rows[r]),
    cells.map((value, c) => paint(make("td", { class: "c-cell" }, show(value, r, c)),
      colour(value, r, c)))));
  return make("div", { class: "c-scroll", tabindex: 0, role: "region",
    "aria-label": caption }, make("table", {}, make("caption", {}, caption), head, body));
}

const WEIGHTS = "_static/made/translator.js";

/* Where the weights of the captions' model may lie: above the pages, or among the files
   that Jupyter serves. */
function places() {
  const jupyter = document.getElementById("jupyter-config-data");
  const base = jupyter && JSON.parse(jupyter.textContent).baseUrl;
  const folders = jupyter ? [`${base}files/_build/html/`, `${base}files/html/`]
    : [document.documentElement.dataset.content_root ?? "../"];
  return folders.map((folder) => new URL(folder + WEIGHTS, document.baseURI).href);
}

/* A script, since a page that was opened as a file may load nothing else. */
function loadScript(address) {
  return new Promise((loaded) => {
    const script = make("script", { src: address, error: () => loaded(),
      load: () => loaded(script.translator) });
    document.head.append(script);
  });
}

async function loadWeights() {
  for (const address of places()) {
    const packed = await loadScript(address);
    if (packed) return packed;
  }
  throw new Error(`The weights are not here: ${places().join(" and ")} cannot be read. `
    + "“make book” makes the file, and “make lab” finds it.");
}

/* Which words of two texts belong to their longest common part, in order. */
function common(before, after) {
  const length = Array.from({ length: before.length + 1 }, () =>
    new Array(after.length + 1).fill(0));
  for (let i = before.length - 1; i >= 0; i--) {
    for (let j = after.length - 1; j >= 0; j--) {
      length[i][j] = before[i] === after[j] ? 1 + length[i + 1][j + 1]
        : Math.max(length[i + 1][j], length[i][j + 1]);
    }
  }
  const kept = [new Set(), new Set()];
  for (let i = 0, j = 0; i < before.length && j < after.length;) {
    if (before[i] === after[j]) {
      kept[0].add(i++);
      kept[1].add(j++);
    } else if (length[i + 1][j] >= length[i][j + 1]) i++;
    else j++;
  }
  return kept;
}

const kit = { make, slider, choice, tick, line, button, question, pick, grid, paint, weightColour,
  signedColour };

/* Draw the control that this script stands in. `draw` gets the place to draw in, the
   data, the kit, and what stood there before. */
function start(draw) {
  const section = document.currentScript.closest(".control");
  const body = section.querySelector(".c-body");
  const data = JSON.parse(section.querySelector("script").textContent);
  const first = [...body.children];
  body.replaceChildren();
  section.classList.add("c-live");
  draw(body, data, kit, first);
}
