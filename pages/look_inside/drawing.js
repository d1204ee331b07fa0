/* The drawing of the model, and the track of all its steps. */
const LETTERS = 10; /* of a word fit in a box */
const BARS = 12; /* scores have a bar */
const PALE = 100; /* of 255 */

/* `map` is the SVG; `picked` gets the name of a box. */
function drawing({ weightColour, signedColour }, map, picked) {
  const links = [...map.querySelectorAll("a")];
  const names = links.map((link) => link.dataset.box);
  const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
  roving(map, () => links);
  map.onclick = (event) => {
    const link = event.target.closest("a");
    if (!link) return;
    event.preventDefault();
    picked(link.dataset.box);
  };

  const boxOf = (node) => names.filter((box) => node === box || node.startsWith(`${box}.`))
    .reduce((a, b) => (b.length > a.length ? b : a), "");

  /* All cells, each a pixel; heads side by side. Rows that are not yet written are pale. */
  function cellsOf(run, name, written) {
    const { heads, rows, columns } = run.slice(name);
    const most = run.tensor(name).data.reduce((a, b) => Math.max(a, Math.abs(b)), 0) || 1;
    const colour = heads > 1 ? weightColour : (value) => signedColour(value, most);
    [canvas.width, canvas.height] = [heads * (columns + 1) - 1, rows];
    const image = pen.createImageData(canvas.width, rows);
    for (let h = 0; h < heads; h++) {
      const { at } = run.slice(name, h);
      for (let r = 0; r < rows; r++) {
        for (let c = 0; c < columns; c++) {
          image.data.set([...colour(at(r, c)), r < written ? 255 : PALE],
            4 * (r * canvas.width + h * (columns + 1) + c));
        }
      }
    }
    pen.putImageData(image, 0, 0);
  }

  /* The highest scores of a row, as bars. */
  function barsOf(row) {
    [canvas.width, canvas.height] = [8 * BARS, 24];
    const best = topk(row, BARS), most = Math.max(1, row[best[0]]);
    pen.fillStyle = `rgb(${weightColour(0.75).join(",")})`;
    best.forEach((id, i) => {
      const high = 24 * Math.max(0.05, row[id] / most);
      pen.fillRect(8 * i, 24 - high, 6, high);
    });
  }

  const short = (word) => (word.length > LETTERS ? `${word.slice(0, LETTERS - 1)}…` : word);

  /* Paint what a run has computed, as far as a step of the decoder. */
  function paint(run, step, says) {
    for (const link of links) {
      const image = link.querySelector("image"), { of } = image?.dataset ?? {};
      if (!image) link.querySelector(".o-now").textContent = short(says[link.dataset.box]);
      else if (run.has(of)) {
        if (of === "logits") barsOf(run.row(of, step));
        else cellsOf(run, of, of[0] === "d" || of[0] === "t" ? step + 1 : Infinity);
        image.setAttribute("href", canvas.toDataURL());
      }
    }
  }

  /* Mark the box of a node; while the steps play, what comes after it is still empty. */
  function mark(node, isPlaying) {
    const current = names.indexOf(boxOf(node));
    rove(links, current);
    links.forEach((link, i) => {
      if (i === current) link.setAttribute("aria-current", "step");
      else link.removeAttribute("aria-current");
      link.classList.toggle("o-empty", isPlaying && i > current);
    });
  }

  /* Mark the boxes of these nodes. */
  function contrast(nodes) {
    const boxes = new Set(nodes.map(({ name }) => boxOf(name)));
    links.forEach((link) => link.classList.toggle("o-differs", boxes.has(link.dataset.box)));
  }

  /* Every node in the colour of its box. */
  const colours = (nodes) => nodes.map((node) => links[names.indexOf(boxOf(node))]
    .querySelector("rect").style.getPropertyValue("--line"));

  return { names, boxOf, paint, mark, contrast, colours };
}
