// The dozen icons that the pages use, drawn for this book. The theme loads a script of this
// name, which would bring thousands: this file takes its place among the static files.
// Each lies in a box of 16 by 16, in lines of the text's colour; + begins what is filled.
const ICONS = {
  "angle-left": "M10.5 3l-5 5 5 5",
  "angle-right": "M5.5 3l5 5-5 5",
  "arrow-up": "M8 14V2.5M3 7.5l5-5 5 5",
  bars: "M2 3.5h12M2 8h12M2 12.5h12",
  "chevron-down": "M3 5.5l5 5 5-5",
  "circle-half-stroke": "M8 2a6 6 0 0 0 0 12+M8 2a6 6 0 0 1 0 12z",
  download: "M8 1.5V10M4.5 6.5L8 10l3.5-3.5M2.5 14h11",
  file: "M3.5 1.5h6l3 3v10h-9zM9.5 1.5v3h3",
  "file-pdf": "M3.5 1.5h6l3 3v10h-9zM9.5 1.5v3h3M6 8h4M6 11h4",
  list: "M2 3.5h1M2 8h1M2 12.5h1M6 3.5h8M6 8h8M6 12.5h8",
  "magnifying-glass": "M7 2.5a4.5 4.5 0 0 0 0 9 4.5 4.5 0 0 0 0-9zM10.2 10.2L14 14",
  moon: "M13.5 9.5a6 6 0 0 1-7-7 6 6 0 1 0 7 7z",
  outdent: "M2 3.5h12M8 8h6M2 12.5h12M5 6L3 8l2 2",
  sun: "M8 5a3 3 0 0 0 0 6 3 3 0 0 0 0-6zM8 1v1M8 14v1M1 8h1M14 8h1M3 3l.7.7M12.3 12.3l.7.7M3 13l.7-.7M12.3 3.7L13 3",
};

for (const place of document.querySelectorAll("i[class*='fa-'], span[class*='fa-']")) {
  const name = [...place.classList].map((part) => part.slice(3)).find((part) => part in ICONS);
  if (!name) continue;
  const [lines, filled] = ICONS[name].split("+");
  place.insertAdjacentHTML("afterend",
    '<svg viewBox="0 0 16 16" aria-hidden="true" fill="none" stroke="currentColor" '
    + `stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"><path d="${lines}"/>`
    + `${filled ? `<path fill="currentColor" d="${filled}"/>` : ""}</svg>`);
  const drawn = place.nextSibling;
  drawn.setAttribute("class", `icon ${place.className}`);
  Object.assign(drawn.dataset, place.dataset); // the theme shows one of three by its mode
  place.remove();
}
