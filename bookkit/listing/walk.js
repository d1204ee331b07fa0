/* The arrow keys, Home and End move through a listing. "Step through" turns it into
   bare code with a panel beside it, which shows what exists after the current line.
   "Step into" lays the lines of a call over those of its caller. All state is in the
   page, so that any number of listings share these listeners, however often the script
   runs. */
for (const part of document.querySelectorAll(".w-step, .w-panel")) part.hidden = false;
/* JupyterLab takes the arrow keys away from whatever does not say this of itself. */
for (const part of document.querySelectorAll(".walk :is([tabindex], a, button, summary)")) {
  part.dataset.lmSuppressShortcuts = "true";
}
if (!window.walkListens) {
  window.walkListens = true;
  const steps = {
    ArrowDown: 1, ArrowRight: 1, End: Infinity,
    ArrowUp: -1, ArrowLeft: -1, Home: -Infinity,
  };
  const framesOf = (walk) => [...walk.querySelectorAll(".w-frame")];
  const isStepping = (walk) => walk.matches(".w-stepping");
  const rowsOf = (walk) => { /* stepping passes over what did not run, and over folds */
    const hidden = isStepping(walk) ? ".w-pale, .w-fold .w-lines *"
      : ".w-fold:not([open]) .w-lines *";
    const rows = [...(framesOf(walk).at(-1) ?? walk).querySelectorAll(".w-row")];
    return rows.filter((row) => !row.matches(hidden));
  };
  const current = (walk) => rowsOf(walk).find((row) => row.matches("[aria-current]"));
  const partOf = (row) => row.closest(".w-part");
  const lineOf = (row) => /* "Lines 12 to 19. " */
    row.querySelector(".w-spoken").textContent.toLowerCase().split(".")[0];
  const numberOf = (row) =>
    row.querySelector(".w-line:not([data-number=''])").dataset.number;
  const callsOf = (row) => [...row.querySelectorAll(":scope > template")];
  const nextCall = (row) => callsOf(row)[Number(row.dataset.turn ?? 0)];
  const titleOf = (name) => /* "Encoder.forward" */
    name.replace(/^([a-z_0-9]+\.)+(?=[A-Z]|[^.]+$)/, "");
  const nameIn = (walk, row) => partOf(row).dataset.name
    ?? partOf(row).dataset.walk ?? walk.dataset.walk;
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

  /* The note of a line, which begins with its lines if there are several. Lines of a call
     have no notes of their own: those of its listing are on this page, or the build has
     said where. */
  function whyOf(row) {
    const note = (line) => line?.closest(".w-group").querySelector(":scope > .w-note");
    const { name, home, chapter } = partOf(row).dataset;
    const number = numberOf(row);
    const listing = [...document.querySelectorAll("[data-walk]")].find(
      (part) => part.dataset.walk === name);
    const lines = listing?.querySelectorAll(".w-part:not(.w-frame) .w-row, :scope > .w-group .w-row");
    const found = note(row) ?? note([...lines ?? []].find((line) => numberOf(line) === number));
    if (found) {
      const numbers = [...found.parentElement.querySelectorAll(".w-row")].map(numberOf);
      const lines = document.createElement("b");
      lines.textContent = `Lines ${numbers[0]} ${numbers[2] ? "to" : "and"} ${numbers.at(-1)}. `;
      return [...numbers[1] ? [lines] : [], ...found.cloneNode(true).childNodes];
    }
    if (!home) return [];
    const link = document.createElement("a");
    link.href = `${home}&line=${number}`;
    link.textContent = `The notes on this function: ${chapter}`;
    return [link];
  }

  /* Where each call of the stack is entered, and the line: what a link needs. A line is
     its number; the second of this number, in another file, is "12.1". */
  function keyOf(walk, row) {
    const same = rowsOf(walk).filter((other) => numberOf(other) === numberOf(row));
    const nth = same.indexOf(row);
    return numberOf(row) + (nth > 0 ? `.${nth}` : "");
  }
  function addressOf(walk, row) {
    const name = walk.dataset.walk;
    const same = [...document.querySelectorAll(".walk")].filter(
      (other) => other.dataset.walk === name);
    const nth = same.indexOf(walk);
    const stack = framesOf(walk).map((frame) => frame.dataset.at).join();
    return `#walk=${name}${nth > 0 ? `:${nth + 1}` : ""}${stack && `&stack=${stack}`}`
      + `&line=${keyOf(walk, row)}`;
  }

  function openAddress() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    if (!wanted.has("walk")) return;
    const [name, nth = 1] = wanted.get("walk").split(":");
    const listings = [...document.querySelectorAll(".walk")];
    const shows = (other) => other.dataset.walk === name;
    const own = listings.filter(shows); /* or it is one of several functions */
    const also = (other) => [...other.querySelectorAll("[data-walk]")].some(shows);
    const walk = own.length ? own[nth - 1] : listings.find(also);
    if (!walk) return;
    for (let part = walk; part; part = part.parentElement) {
      if (part.matches("details")) part.open = true;
    }
    if (!isStepping(walk)) toggle(walk);
    leave(walk, 0);
    const find = (key) => rowsOf(walk).find((row) => keyOf(walk, row) === key);
    for (const at of wanted.get("stack")?.split(",") ?? []) {
      const [key, turn] = at.split("/");
      const row = find(key);
      if (!callsOf(row ?? walk)[turn]) break;
      mark(row);
      row.dataset.turn = turn;
      enter(walk);
    }
    const row = find(wanted.get("line"));
    if (row) mark(row);
    walk.scrollIntoView();
    go(walk, 0);
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
      for (const picture of item.querySelectorAll("svg[data-n]")) { /* see picture.js */
        picture.removeAttribute("aria-hidden");
        picture.setAttribute("role", "button");
        picture.setAttribute("tabindex", "0");
        picture.setAttribute("aria-label", `Enlarge ${name}`);
        picture.dataset.lmSuppressShortcuts = "true";
      }
      item.dataset.source = isOld ? "before the loop"
        : value.until ? `until ${source(value.until)}` : source(value.row);
      return item;
    });
    const flow = [...row.querySelectorAll(".w-flow, .w-raised, .w-folded")].map((part) =>
      part.textContent.replace("; the last:", ", shown is the last"));
    const head = place ? `After ${lineOf(row)}` : "The call begins";
    const frames = framesOf(walk), name = titleOf(nameIn(walk, row));
    const when = [head, ...flow].join(", ");
    const made = valuesOf(row).map(inWords).join("; ") || "nothing new";
    panel(".w-count").textContent = `step ${step + 1} of ${steps.length}`;
    panel("[value='-1']").ariaDisabled = step === 0 && !frames.length;
    panel("[value='1']").ariaDisabled = step === steps.length - 1 && !frames.length;
    panel(".w-link").href = addressOf(walk, row);
    panel(".w-why").replaceChildren(...whyOf(row));
    if (panel(".w-calls")) {
      const calls = callsOf(row), into = panel("[value=i]");
      const isLost = document.activeElement.matches(".w-calls [data-turn]");
      for (const more of walk.querySelectorAll(".w-calls [data-turn]")) more.remove();
      into.ariaDisabled = !calls.length;
      into.textContent = "Step into";
      calls.forEach((call, turn) => {
        const button = turn ? into.cloneNode() : into;
        button.textContent = `Step into ${titleOf(call.dataset.name)}`;
        if (!turn) return;
        button.dataset.turn = turn;
        panel("[value=o]").before(button);
      });
      if (isLost) into.focus({ preventScroll: true });
      panel("[value=o]").ariaDisabled = !frames.length;
      const callers = frames.map((frame) => titleOf(nameIn(walk, frame.caller)));
      const buttons = callers.map((caller, level) => {
        const button = document.createElement("button");
        Object.assign(button, { type: "button", value: "up", textContent: caller });
        Object.assign(button.dataset, { level, lmSuppressShortcuts: "true" });
        return button;
      });
      const here = document.createElement("b"), file = document.createElement("span");
      here.textContent = name;
      here.ariaCurrent = "true";
      file.textContent = partOf(row).dataset.file ?? "";
      const stack = walk.querySelector(".w-stack");
      stack.replaceChildren(...buttons, here, file);
      stack.scrollLeft = here.offsetLeft - stack.clientWidth + here.offsetWidth + 16;
    }
    panel(".w-when").textContent = when;
    panel(".w-exists").replaceChildren(...items);
    const newest = panel(".w-new");
    if (newest) panel(".w-exists").scrollTop = newest.offsetTop;
    const isElsewhere = walk.dataset.said && walk.dataset.said !== name;
    walk.dataset.said = name;
    panel("output").textContent = `${isElsewhere ? `${name}. ` : ""}${when}: ${made}`;
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
    const isOut = Math.abs(by) === 1 && !(wanted in rows);
    if (isOut && framesOf(walk).length) return leave(walk);
    const row = rows[Math.max(0, Math.min(wanted, rows.length - 1))];
    if (document.activeElement.matches(".w-row")) row.focus({ preventScroll: true });
    mark(row);
    bringIntoSight(walk, row);
  }

  function bringIntoSight(walk, row) {
    for (const part of [walk.querySelector(".w-panel"), row]) {
      part.scrollIntoView({ block: "nearest" });
    }
  }

  /* Step into the call of the current line; of several, the key enters the one after the
     last that was left. The lines of its caller stay in the page, out of sight. */
  function enter(walk) {
    const row = current(walk), call = row && nextCall(row);
    if (!call) return;
    const onRow = document.activeElement.matches(".w-row");
    const frame = document.createElement("div");
    frame.className = "w-part w-frame";
    Object.assign(frame.dataset, call.dataset);
    frame.dataset.at = `${keyOf(walk, row)}/${callsOf(row).indexOf(call)}`;
    frame.caller = row;
    const listed = [...walk.querySelectorAll(".w-part[data-walk]:not(.w-frame)")].find(
      (part) => !call.content.hasChildNodes() && part.dataset.walk === call.dataset.name);
    frame.append(...(listed ?? call.content).cloneNode(true).childNodes);
    for (const row of frame.querySelectorAll("[data-turn]")) delete row.dataset.turn;
    for (const part of frame.querySelectorAll("[tabindex], summary")) {
      part.dataset.lmSuppressShortcuts = "true";
    }
    walk.querySelector(".w-rows").append(frame);
    arrive(walk, rowsOf(walk)[0], onRow);
  }

  function leave(walk, level = framesOf(walk).length - 1) {
    const frames = framesOf(walk).slice(Math.max(level, 0)), row = frames[0]?.caller;
    if (!row) return;
    const onRow = document.activeElement.matches(".w-row");
    const onStack = document.activeElement.closest(".w-stack");
    const turn = Number(frames[0].dataset.at.split("/")[1]);
    row.dataset.turn = (turn + 1) % callsOf(row).length;
    for (const frame of frames) frame.remove();
    arrive(walk, row, onRow);
    if (onStack) walk.querySelector("[value=i]").focus({ preventScroll: true });
  }

  function arrive(walk, row, onRow) {
    fit(walk);
    if (onRow) row.focus({ preventScroll: true }); /* which marks it */
    else mark(row);
    bringIntoSight(walk, row);
  }

  /* The panel has the height that its tallest step needs, so that Next stays under the
     mouse. */
  function fit(walk) {
    const panel = walk.querySelector(".w-panel");
    const said = walk.dataset.said ?? "";
    panel.style.minHeight = "";
    const heights = rowsOf(walk).map((row) => (show(walk, row), panel.offsetHeight));
    panel.style.minHeight = `${Math.max(...heights)}px`;
    walk.dataset.said = said;
  }

  /* Whoever opens the panel is taken into it, and back to the button when it closes. */
  function toggle(walk) {
    const opens = !isStepping(walk);
    if (!opens) leave(walk, 0);
    const [button, next] = [".w-step", ".w-panel [value='1']"].map(
      (name) => walk.querySelector(name));
    const isOnRow = document.activeElement.matches(".w-row");
    button.textContent = opens ? "Full listing" : "Step through";
    walk.classList.toggle("w-stepping");
    if (opens) fit(walk);
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
    const walk = button?.closest(".walk");
    if (!button || button.closest("dialog")) return;
    if (button.value === "i") {
      const row = current(walk);
      if (row) row.dataset.turn = button.dataset.turn ?? 0;
      enter(walk);
    } else if (button.value === "o") leave(walk);
    else if (button.value === "up") leave(walk, Number(button.dataset.level));
    else if (button.value) go(walk, Number(button.value));
    else toggle(walk);
  });

  window.addEventListener("hashchange", openAddress);
  if (document.readyState === "complete") openAddress();
  else window.addEventListener("load", openAddress);

  window.addEventListener("keydown", (event) => {
    const { key, target } = event;
    const walk = target.closest?.(".walk");
    const modified = event.ctrlKey || event.altKey || event.metaKey || event.shiftKey;
    if (!walk || modified || target.closest("dialog")) return;
    if (key === "Escape" && isStepping(walk)) {
      toggle(walk);
    } else if (key in steps && target.matches(".w-row, .w-stepping button")) {
      const before = current(walk);
      go(walk, steps[key]);
      if (current(walk) === before && !isStepping(walk)) return; /* the page scrolls */
    } else if (/^[io]$/.test(key) && target.matches(".w-stepping :is(.w-row, button)")) {
      if (key === "i") enter(walk);
      else leave(walk);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }, true);
}
