/* The small pictures of listings: the value under the pointer, and a click enlarges one.
   There the arrow keys choose a number, and buttons another head or sentence. */
if (!window.walkPictures) {
  window.walkPictures = true;
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const meaning = { B: "sentence", H: "head" };
  const picture = (target) => target.closest?.(".walk svg[data-n]");

  function make(tag, text = "", attributes = {}) {
    const isSvg = ["svg", "path", "rect", "text"].includes(tag);
    const space = isSvg ? document.querySelector(".walk svg").namespaceURI
      : document.body.namespaceURI;
    const made = document.createElementNS(space, tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== "") made.textContent = text;
    return made;
  }

  /* What a picture shows: its name, its axes, and its numbers. Of a large tensor the page
     has only the last sentence. */
  function read(svg) {
    const cell = svg.closest("li");
    const shape = svg.dataset.shape.split(",").map(Number);
    const letters = cell.querySelector(".w-letters")?.textContent.slice(1, -1).split(", ") ?? [];
    const { n, max } = svg.dataset;
    const numbers = [];
    for (let i = 0; i < n.length; i += 2) {
      const code = 64 * digits.indexOf(n[i]) + digits.indexOf(n[i + 1]);
      numbers.push([NaN, -Infinity, Infinity][code] ?? (code - 2047) / 2000 * max);
    }
    const size = shape.reduce((a, b) => a * b, 1);
    return {
      name: cell.querySelector("b").textContent, shape, numbers, missing: size - numbers.length,
      axes: shape.map((length, i) => /^[a-z_]+$/i.test(letters[i]) ? letters[i] : `axis ${i}`),
      isMask: Boolean(svg.querySelector(".w-true, .w-false")),
      places: Math.max(0, Math.floor(3 - Math.log10(max))),
    };
  }
  const rowsAndColumns = ({ shape }) => [shape.length > 1 ? shape.at(-2) : 1, shape.at(-1)];
  function valueAt(tensor, index) {
    const flat = index.reduce((sum, i, axis) => sum * tensor.shape[axis] + i, 0);
    return tensor.numbers[flat - tensor.missing]; /* not there: of another sentence */
  }
  function inWords(tensor, index) {
    const x = valueAt(tensor, index);
    const value = tensor.isMask ? (x ? "True" : "False") : Number.isNaN(x) ? "nan"
      : Number.isFinite(x) ? x.toFixed(tensor.places).replace(/^-(0(\.0+)?$)?/, (all, zero) => zero ?? "\u2212")
      : x < 0 ? "\u2212\u221e" : "\u221e";
    return `${tensor.name}[${index.join(", ")}] = ${value}`;
  }
  const lastIndex = ({ shape }) => shape.map((size) => size - 1);
  function indexAt(leading, { shape }, row, column) {
    return shape.length > 1 ? [...leading.slice(0, -2), row, column] : [column];
  }

  /* The colours that Python gives: shares to 1, or signed up to the largest. */
  function colours(tensor, values) {
    const finite = values.filter(Number.isFinite);
    const largest = Math.max(...finite.map(Math.abs)) || 1;
    const areShares = Math.min(0, ...finite) === 0 && Math.max(...finite) <= 1;
    return values.map((x) => {
      if (tensor.isMask) return x ? "true" : "false";
      if (Number.isNaN(x)) return "nan";
      if (x === -Infinity) return "hidden";
      if (areShares) return `s${Math.round(5 * Math.min(x, 1))}`;
      const level = Math.round(4 * Math.min(x / largest, 1));
      return level > 0 ? `p${level}` : level < 0 ? `n${-level}` : "zero";
    });
  }

  function enlarge(svg, [row, column] = [0, 0]) {
    tip.hidden = true;
    const tensor = read(svg);
    const [rows, columns] = rowsAndColumns(tensor);
    const index = lastIndex(tensor);
    const dialog = make("dialog", "", { class: "w-large", "aria-label": tensor.name });
    const head = make("div", "", { class: "w-bar" });
    const close = make("button", "Close", { type: "button", value: "close" });
    const shape = `${tensor.axes.length > 1 ? `rows: ${tensor.axes.at(-2)} (${rows}), ` : ""}`
      + `columns: ${tensor.axes.at(-1)} (${columns})`;
    head.append(make("b", tensor.name), make("span", shape), close);
    const large = make("svg", "", {
      role: "img", tabindex: 0, "aria-label": `${tensor.name}, ${shape}`,
      viewBox: `-30 -20 ${20 * columns + 31} ${20 * rows + 21}`,
      style: `max-width: ${40 * columns + 62}px`,
    });
    const output = make("output");
    const choices = tensor.shape.slice(0, -2).map((size, axis) => {
      const what = meaning[tensor.axes[axis]] ?? tensor.axes[axis];
      const group = make("div", what, { role: "group", "aria-label": what });
      for (let i = 0; i < size; i++) {
        const first = tensor.shape.map((_, other) => other < axis ? index[other] : 0);
        first[axis] = i;
        if (valueAt(tensor, first) === undefined) continue;
        const button = make("button", i, { type: "button", value: "choose" });
        button.addEventListener("click", () => { index[axis] = i; draw(); });
        group.append(button);
      }
      if (group.children.length < 2) group.append(make("span", ` ${size - 1}`));
      return group;
    });
    function draw() {
      const cells = [];
      for (let y = 0; y < rows; y++) {
        for (let x = 0; x < columns; x++) cells.push(valueAt(tensor, indexAt(index, tensor, y, x)));
      }
      const labels = (count, at) => Array.from({ length: count }, (_, i) =>
        count > 12 && i % 5 ? "" : make("text", i, at(20 * i + 14)));
      large.replaceChildren(
        ...labels(rows, (y) => ({ x: -6, y, "text-anchor": "end" })),
        ...labels(columns, (x) => ({ x: x - 4, y: -6, "text-anchor": "middle" })),
        ...colours(tensor, cells).map((code, i) => {
          const [x, y] = [20 * (i % columns), 20 * Math.floor(i / columns)];
          const d = { hidden: `M${x + 4} ${y + 14}l10-10`, nan: `M${x + 4} ${y + 4}l10 10m0-10l-10 10` };
          return make("path", "", { class: `w-${code}`, d: d[code] ?? `M${x} ${y}h18v18h-18z` });
        }),
        make("rect", "", { class: "w-cursor", x: 20 * column - 1, y: 20 * row - 1, width: 20, height: 20 }),
      );
      choices.forEach((group, axis) => group.querySelectorAll("button").forEach((button) => {
        button.ariaPressed = String(Number(button.textContent) === index[axis]);
      }));
      output.textContent = inWords(tensor, indexAt(index, tensor, row, column));
    }
    function move(y, x) {
      row = Math.max(0, Math.min(y, rows - 1));
      column = Math.max(0, Math.min(x, columns - 1));
      draw();
    }
    large.addEventListener("pointermove", (event) => move(...cellAt(large, event, 20)));
    large.addEventListener("pointerdown", (event) => move(...cellAt(large, event, 20)));
    dialog.addEventListener("keydown", (event) => {
      const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (event.key !== "Tab" && event.key !== "Escape") event.stopPropagation();
      if (!by || event.target !== large) return;
      event.preventDefault();
      move(row + by[0], column + by[1]);
    });
    close.addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("close", () => dialog.remove());
    dialog.append(head, ...choices, large, output);
    for (const part of dialog.querySelectorAll("button, [tabindex]")) part.dataset.lmSuppressShortcuts = "true";
    svg.closest(".walk").append(dialog);
    dialog.showModal();
    move(row, column);
    large.focus();
  }

  function cellAt(svg, event, size) {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return [Math.floor(point.y / size), Math.floor(point.x / size)];
  }

  const tip = make("div", "", { class: "w-tip", hidden: "" });
  document.addEventListener("pointermove", (event) => {
    const svg = picture(event.target), walk = svg?.closest(".walk");
    tip.hidden = !svg || event.pointerType === "touch";
    if (tip.hidden) return;
    const tensor = read(svg), [rows, columns] = rowsAndColumns(tensor);
    const [row, column] = cellAt(svg, event, 7).map((i, axis) =>
      Math.max(0, Math.min(i, [rows, columns][axis] - 1)));
    tip.textContent = inWords(tensor, indexAt(lastIndex(tensor), tensor, row, column));
    walk.append(tip);
    const box = walk.getBoundingClientRect();
    tip.style.left = `${Math.max(0, Math.min(event.clientX - box.left + 12, box.width - tip.offsetWidth))}px`;
    tip.style.top = `${event.clientY - box.top + 18}px`;
  });
  document.addEventListener("click", (event) => {
    const svg = picture(event.target);
    if (svg) enlarge(svg, cellAt(svg, event, 7));
  });
  window.addEventListener("keydown", (event) => {
    if (!["Enter", " "].includes(event.key) || !event.target.matches?.(".walk svg[data-n]")) return;
    event.preventDefault();
    event.stopPropagation();
    enlarge(event.target);
  }, true);
}
