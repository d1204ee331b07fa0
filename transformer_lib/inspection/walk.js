/* The arrow keys, Home and End move through a listing. "Step through" turns it into
   bare code with a panel beside it, which shows what exists after the current line. All
   state is in the page, so that any number of listings share these listeners, however
   often the script runs. */
for (const part of document.querySelectorAll(".w-step, .w-panel")) part.hidden = false;
if (!window.walkListens) {
  window.walkListens = true;
  const steps = {
    ArrowDown: 1, ArrowRight: 1, End: Infinity,
    ArrowUp: -1, ArrowLeft: -1, Home: -Infinity,
  };
  const isStepping = (walk) => walk.matches(".w-stepping");
  const rowsOf = (walk) => /* stepping passes over what the run passed over */
    [...walk.querySelectorAll(isStepping(walk) ? ".w-row:not(.w-pale)" : ".w-row")];
  const current = (walk) => rowsOf(walk).find((row) => row.matches("[aria-current]"));
  const lineOf = (row) =>
    `line ${row.querySelector(".w-spoken").textContent.match(/\d+/)}`;
  const valuesOf = (row) => [...row.querySelectorAll(
    ".w-made > li:not(.w-few, .w-raised), .w-few > span")];
  const nameOf = (cell) => cell.querySelector("b").textContent;

  /* The latest value of every name, and the row that it comes from. */
  function latest(rows) {
    const values = new Map();
    for (const row of rows) {
      for (const cell of valuesOf(row)) {
        const name = nameOf(cell);
        for (const [other, { row: from }] of values) { /* parts of what it was before */
          const isPart = other.startsWith(`${name}.`) || other.startsWith(`${name}[`);
          if (isPart && from !== row) values.delete(other);
        }
        const whole = values.get(name.split("[")[0]);
        if (whole) whole.until = row;
        values.set(name, { cell, row });
      }
    }
    return values;
  }

  /* The outermost loop around a line, as the first of its rows, and the names that its
     lines further down made in the passes before the last. */
  function around(rows, place) {
    const indent = (row) => Number(row.firstChild.style.getPropertyValue("--indent"));
    const isInside = (row, head) => indent(row) > indent(head);
    const loop = rows.slice(0, place + 1).findIndex((head, i) =>
      head.querySelector(".w-flow")?.textContent.endsWith(" passes")
      && rows.slice(i + 1, place + 1).every((row) => isInside(row, head)));
    const further = loop < 0 ? [] : rows.slice(place + 1);
    const end = further.findIndex((row) => !isInside(row, rows[loop]));
    const made = further.slice(0, end < 0 ? undefined : end).flatMap(valuesOf);
    return { loop, again: made.map(nameOf) };
  }

  function inWords(cell) {
    if (!cell.matches("li")) return cell.textContent;
    const texts = [...cell.children].map((part) => part.textContent.trim());
    const words = texts.filter(Boolean); /* a picture has none */
    if (cell.children.length > 2) words[1] = `shape ${words[1]}`;
    return words.concat(cell.querySelector("b + *") ? [] : "made").join(", ");
  }

  function show(walk, row) {
    const rows = rowsOf(walk);
    const place = rows.indexOf(row);
    const panel = (name) => walk.querySelector(`.w-panel ${name}`);
    const source = (from) =>
      from === rows[0] ? "argument" : from === row ? "this line" : lineOf(from);
    const { loop, again } = around(rows, place);
    const items = [...latest(rows.slice(0, place + 1))].map(([name, value]) => {
      const item = document.createElement("li");
      const isOld = again.includes(name) && rows.indexOf(value.row) < loop;
      item.classList.toggle("w-new", value.row === row);
      item.append(...value.cell.cloneNode(true).childNodes);
      item.dataset.source = isOld ? "before the loop"
        : value.until ? `until ${source(value.until)}` : source(value.row);
      return item;
    });
    const flow = [...row.querySelectorAll(".w-flow, .w-raised")].map((part) =>
      part.textContent.replace("; the last:", ", shown is the last"));
    const head = place ? `After ${lineOf(row)}` : "The call begins";
    const when = [head, ...flow].join(", ");
    const made = valuesOf(row).map(inWords).join("; ") || "nothing new";
    panel(".w-count").textContent = `step ${place + 1} of ${rows.length}`;
    panel(".w-why").replaceChildren(
      ...(row.querySelector(".w-note")?.cloneNode(true).childNodes ?? []));
    panel(".w-when").textContent = when;
    panel(".w-exists").replaceChildren(...items);
    const newest = panel(".w-new");
    if (newest) panel(".w-exists").scrollTop = newest.offsetTop;
    panel("output").textContent = `${when}: ${made}`;
  }

  function mark(row) {
    const walk = row.closest(".walk");
    if (!rowsOf(walk).includes(row)) return;
    for (const other of row.parentElement.children) {
      other.tabIndex = other === row ? 0 : -1;
      other.removeAttribute("aria-current");
    }
    row.setAttribute("aria-current", "step");
    if (isStepping(walk)) show(walk, row);
  }

  function go(walk, by) {
    const rows = rowsOf(walk);
    const wanted = rows.indexOf(current(walk)) + by;
    const row = rows[Math.max(0, Math.min(wanted, rows.length - 1))];
    if (document.activeElement.matches(".w-row")) row.focus({ preventScroll: true });
    mark(row);
    for (const part of [walk.querySelector(".w-panel"), row]) {
      part.scrollIntoView({ block: "nearest" });
    }
  }

  function toggle(walk) {
    const button = walk.querySelector(".w-step");
    if (!document.activeElement.matches(".w-row")) button.focus();
    button.textContent = isStepping(walk) ? "Step through" : "Full listing";
    walk.classList.toggle("w-stepping");
    go(walk, 0);
  }

  document.addEventListener("focusin", (event) => {
    const row = event.target.closest(".w-row");
    if (row) mark(row);
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest(".walk button");
    if (button?.value) go(button.closest(".walk"), Number(button.value));
    else if (button) toggle(button.closest(".walk"));
  });

  window.addEventListener("keydown", (event) => {
    const { key, target } = event;
    const walk = target.closest?.(".walk");
    const modified = event.ctrlKey || event.altKey || event.metaKey || event.shiftKey;
    if (!walk || modified) return;
    if (key === "Escape" && isStepping(walk)) {
      toggle(walk);
    } else if (key in steps && target.matches(".w-row, .w-stepping button")) {
      const before = current(walk);
      go(walk, steps[key]);
      if (current(walk) === before && !isStepping(walk)) return; /* the page scrolls */
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }, true);
}
