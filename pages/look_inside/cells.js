/* A slice of a tensor as coloured cells, and the lines between tokens. */
const LINE = 64; /* cells in a line: a longer row of a tensor takes several */
const ROOM = 38; /* pixels that a number of 12 px needs */

const MANY = 16; /* tokens: so many get narrower rows, and lines one row at a time */

const isHidden = (value) => !Number.isFinite(value);

/* A number as a reader wants it: a minus, two digits, and no "−0.00". */
function short(value, digits = 2) {
  if (isHidden(value)) return "−∞";
  const text = value.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

/* With a digit more, for numbers that a reader may add up. */
const exact = (value) => short(value, 3);

/* Cells on a canvas: `rows` and `columns` are names, or `columns` a count. `value` and
   `colour` get (row, column), `moved` gets a cell that the reader chose. One cell has
   the cursor; arrow keys move it. */
function cells({ make }, { label, rows, columns, value, colour, moved, numbers = false,
  ticks = true, high = 22, room = ROOM }) {
  const names = Array.isArray(columns) ? columns : null;
  const count = names ? names.length : columns;
  const lines = Math.ceil(count / LINE), across = Math.min(count, LINE);
  high = rows.length > MANY ? Math.max(18, 8 * lines)
    : names || numbers ? 26 : Math.max(high, 8 * lines);
  const canvas = make("canvas"), cursor = make("i", { class: "o-cursor" });
  const veil = make("i", { class: "o-veil" });
  const board = make("div", { class: "o-board", tabindex: 0, role: "application",
    "aria-roledescription": "grid of numbers", "aria-label": label,
    keydown: pressed, click: clicked, pointermove: named }, canvas, veil, cursor);
  board.style.height = `${rows.length * high}px`;
  if (names || numbers) board.style.maxWidth = `${across * 76}px`;
  const heads = make("div", { class: names ? "o-heads" : "o-ticks", "aria-hidden": "true" },
    names ? names.map((name) => make("span", {}, make("bdi", {}, name)))
      : Array.from({ length: ticks ? across : 0 }, (_, i) => i)
        .filter((i) => i % (across > 16 ? 16 : 4) === 0).map((i) => {
          const tick = make("span", {}, String(i));
          tick.style.left = `${100 * i / across}%`;
          return tick;
        }));
  heads.style.maxWidth = board.style.maxWidth;
  const side = make("div", { class: "o-side", "aria-hidden": "true" },
    rows.map((name) => make("span", {}, make("bdi", {}, name))));
  side.style.gridAutoRows = `${high}px`;
  const element = make("div", { class: "o-cells" },
    make("span", { class: "o-axis", "aria-hidden": "true" }, names || !ticks ? "" : "feature"),
    heads, side, board);
  let at = [0, 0], wide = 0, last = rows.length;

  function paintCells() {
    const width = board.clientWidth, ratio = window.devicePixelRatio || 1;
    if (!width || width === wide) return;
    wide = width;
    const [w, h] = [width / across, high / lines];
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(rows.length * high * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    Object.assign(pen, { font: "12px system-ui, sans-serif", textAlign: "center",
      textBaseline: "middle" });
    const gap = w > 6 ? 1 : 0;
    for (let r = 0; r < rows.length; r++) {
      for (let c = 0; c < count; c++) {
        const [x, y] = [(c % LINE) * w, r * high + Math.floor(c / LINE) * h];
        const own = colour(r, c), end = c + 1 === count || (c + 1) % LINE === 0;
        pen.fillStyle = `rgb(${own.join(",")})`;
        pen.fillRect(x, y + (c < LINE ? 1 : 0), w - (end ? 0 : gap), h - (c < LINE ? 1 : 0));
        if (w < room) continue;
        pen.fillStyle = textOn(own);
        pen.fillText(short(value(r, c)), x + w / 2, y + h / 2 + 1);
      }
    }
    heads.classList.toggle("o-narrow", w < 54);
    place();
  }

  function place() {
    const [w, h] = [board.clientWidth / across, high / lines];
    const [r, c] = at;
    Object.assign(cursor.style, { left: `${(c % LINE) * w}px`, width: `${w}px`,
      top: `${r * high + Math.floor(c / LINE) * h}px`, height: `${h}px` });
    veil.style.top = `${last * high}px`;
    [...side.children].forEach((name, i) => {
      name.classList.toggle("o-on", i === r);
      name.classList.toggle("o-later", i >= last);
    });
    if (names) [...heads.children].forEach((name, i) => name.classList.toggle("o-on", i === c));
  }

  /* The cell under the pointer. */
  function under(event) {
    const frame = board.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    const r = Math.min(Math.floor(y / high), rows.length - 1);
    const line = Math.min(Math.floor((y - r * high) / (high / lines)), lines - 1);
    const c = line * LINE + Math.min(Math.floor(x / frame.width * across), across - 1);
    return [Math.max(r, 0), Math.min(Math.max(c, 0), count - 1)];
  }

  function clicked(event) {
    moved(...under(event));
  }

  function named(event) {
    const [r, c] = under(event);
    board.title = `${rows[r]}, ${names ? names[c] : c}: ${short(value(r, c))}`;
  }

  function pressed(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const [r, c] = at;
    const to = { ArrowLeft: [r, c - 1], ArrowRight: [r, c + 1], ArrowUp: [r - 1, c],
      ArrowDown: [r + 1, c], Home: [r, 0], End: [r, count - 1] }[event.key];
    if (!to) return;
    event.preventDefault();
    if (to[0] in rows && to[1] >= 0 && to[1] < count) moved(...to);
  }

  const watch = new ResizeObserver(paintCells);
  watch.observe(board);
  /* Move the cursor; rows from `until` on are veiled, since they come later. */
  function select(r, c, until = rows.length) {
    [at, last] = [[r, c], until];
    place();
  }

  return { element, select, close: () => watch.disconnect() };
}

/* The columns that hold the largest share of a row, the greatest first. */
function largest(row, share) {
  const order = row.map((_, i) => i).sort((a, b) => row[b] - row[a]);
  const total = row.reduce((sum, weight) => sum + weight, 0);
  const kept = [];
  for (let sum = 0; kept.length < order.length && sum < share * total - 1e-9;) {
    sum += row[order[kept.length]];
    kept.push(order[kept.length]);
  }
  return kept;
}

/* Queries on the left, keys on the right, and a line for each large weight. */
function looks({ make }, { queries, keys, weights, share, chose }) {
  const isLong = queries.length > MANY;
  const high = isLong ? 20 : 26, wide = 320, name = 104;
  const height = high * Math.max(queries.length, keys.length);
  const middle = (i) => high * i + high / 2;
  const svg = make("svg", { class: isLong ? "o-looks o-long" : "o-looks",
    viewBox: `0 0 ${wide} ${height}`, "aria-hidden": "true" });
  const left = queries.map((text, t) => make("text", { x: name - 8, y: middle(t) + 4,
    "text-anchor": "end", click: () => chose(t) }, text));
  const right = keys.map((text, s) => make("text", { x: wide - name + 8, y: middle(s) + 4 },
    text));
  const half = wide / 2, [from, to] = [name, wide - name];
  const curve = (t, s) => `M${from} ${middle(t)}C${half} ${middle(t)} ${half} ${middle(s)} `
    + `${to} ${middle(s)}`;
  const all = weights.flatMap((row, t) => largest(row, share).map((s) => ({ t, s,
    line: make("path", { "stroke-width": 1 + 6 * row[s], d: curve(t, s) }) })));
  svg.append(make("g", {}, all.map(({ line }) => line)), ...left, ...right);
  return { element: svg, select(row) {
    all.forEach(({ t, line }) => line.classList.toggle("o-on", t === row));
    left.forEach((text, t) => text.classList.toggle("o-on", t === row));
    const seen = all.filter(({ t }) => t === row).map(({ s }) => s);
    right.forEach((text, s) => {
      text.classList.toggle("o-on", seen.includes(s));
      text.textContent = seen.includes(s)
        ? `${keys[s]} ${Math.round(100 * weights[row][s])} %` : keys[s];
    });
  } };
}
