/* The arrow keys, Home and End move through a listing. "Step through" turns it into
   bare code with a panel beside it, which shows what exists after the current line. All
   state is in the page, so that any number of listings share these listeners, however
   often the script runs. */
for (const part of document.querySelectorAll(".w-step, .w-panel")) part.hidden = false;
/* JupyterLab takes the arrow keys away from whatever does not say this of itself. */
for (const part of document.querySelectorAll(".walk :is([tabindex], button, summary)")) {
  part.dataset.lmSuppressShortcuts = "true";
}
if (!window.walkListens) {
  window.walkListens = true;
  const steps = {
    ArrowDown: 1, ArrowRight: 1, End: Infinity,
    ArrowUp: -1, ArrowLeft: -1, Home: -Infinity,
  };
  const isStepping = (walk) => walk.matches(".w-stepping");
  const rowsOf = (walk) => { /* stepping passes over what did not run, and over folds */
    const hidden = isStepping(walk) ? ".w-pale, .w-fold .w-lines *"
      : ".w-fold:not([open]) .w-lines *";
    const rows = [...walk.querySelectorAll(".w-row")];
    return rows.filter((row) => !row.matches(hidden));
  };
  const current = (walk) => rowsOf(walk).find((row) => row.matches("[aria-current]"));
  const partOf = (row) => row.closest(".w-part");
  const lineOf = (row) => /* "Lines 12 to 19. " */
    row.querySelector(".w-spoken").textContent.toLowerCase().split(".")[0];
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
    const steps = rowsOf(walk);
    const step = steps.indexOf(row);
    const rows = steps.filter((other) => partOf(other) === partOf(row));
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
    const flow = [...row.querySelectorAll(".w-flow, .w-raised, .w-folded")].map((part) =>
      part.textContent.replace("; the last:", ", shown is the last"));
    const head = place ? `After ${lineOf(row)}` : "The call begins";
    const when = [head, ...flow].join(", ");
    const made = valuesOf(row).map(inWords).join("; ") || "nothing new";
    panel(".w-count").textContent = `step ${step + 1} of ${steps.length}`;
    panel("[value='-1']").ariaDisabled = step === 0;
    panel("[value='1']").ariaDisabled = step === steps.length - 1;
    panel(".w-why").replaceChildren(
      ...(row.closest(".w-group").querySelector(":scope > .w-note")?.cloneNode(true).childNodes ?? []));
    panel(".w-when").textContent = when;
    panel(".w-exists").replaceChildren(...items);
    const newest = panel(".w-new");
    if (newest) panel(".w-exists").scrollTop = newest.offsetTop;
    panel("output").textContent = `${when}: ${made}`;
  }

  function mark(row) {
    const walk = row.closest(".walk");
    if (!rowsOf(walk).includes(row)) return;
    let isLater = false;
    for (const other of walk.querySelectorAll(".w-row")) {
      if (other.matches("li")) other.tabIndex = other === row ? 0 : -1;
      other.removeAttribute("aria-current");
      other.classList.toggle("w-later", isLater);
      isLater ||= other === row;
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

  /* Whoever opens the panel is taken into it, and back to the button when it closes. It
     gets the height that its tallest step needs, so that Next stays under the mouse. */
  function toggle(walk) {
    const opens = !isStepping(walk);
    const [button, panel, next] = [".w-step", ".w-panel", ".w-panel [value='1']"].map(
      (name) => walk.querySelector(name));
    const isOnRow = document.activeElement.matches(".w-row");
    button.textContent = opens ? "Full listing" : "Step through";
    walk.classList.toggle("w-stepping");
    if (opens) {
      panel.style.minHeight = "";
      const heights = rowsOf(walk).map((row) => (show(walk, row), panel.offsetHeight));
      panel.style.minHeight = `${Math.max(...heights)}px`;
    }
    if (opens) next.focus({ preventScroll: true });
    else if (!isOnRow) button.focus({ preventScroll: true });
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
