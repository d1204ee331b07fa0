/* The arrow keys, Home and End move through a listing. Any number of listings share
   these two listeners, however often the script runs. */
if (!window.walkListens) {
  window.walkListens = true;
  const steps = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };

  document.addEventListener("focusin", (event) => {
    const row = event.target.closest(".w-row");
    if (!row) return;
    for (const other of row.parentElement.children) {
      other.tabIndex = other === row ? 0 : -1;
      other.removeAttribute("aria-current");
    }
    row.setAttribute("aria-current", "step");
  });

  window.addEventListener("keydown", (event) => {
    const row = event.target;
    const modified = event.ctrlKey || event.altKey || event.metaKey || event.shiftKey;
    if (modified || !(event.key in steps) || !row.matches?.(".w-row")) return;
    const rows = [...row.parentElement.children];
    const wanted = rows.indexOf(row) + steps[event.key];
    const next = rows[Math.max(0, Math.min(wanted, rows.length - 1))];
    if (next === row) return; /* at the end the key scrolls the page as ever */
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
    event.preventDefault();
    event.stopPropagation();
  }, true);
}
