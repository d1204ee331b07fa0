// What a link or a search leads to is in sight, also where it lies in a closed fold.
function openFoldsAround(place) {
  let opened = false;
  for (let part = place; part; part = part.parentElement) {
    const fold = part.matches("details") ? part : part.querySelector(":scope > details.fold");
    if (fold && !fold.open) opened = fold.open = true;
  }
  return opened;
}

function openFoldsOfAddress() {
  const place = document.getElementById(location.hash.slice(1)); // Sphinx's names are plain
  if (place && openFoldsAround(place)) place.scrollIntoView();
}

// A word that was searched for, where all its places are in folds.
function openFoldsOfSearch() {
  const places = Object.groupBy(
    document.querySelectorAll("article .highlighted"), (place) => place.textContent.toLowerCase());
  for (const same of Object.values(places)) {
    if (!same.some((place) => place.checkVisibility())) same.forEach(openFoldsAround);
  }
}

document.addEventListener("DOMContentLoaded", openFoldsOfAddress);
window.addEventListener("hashchange", openFoldsOfAddress);
// A link to where the address leads already changes no address.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href*='#']");
  if (link && link.href === location.href) openFoldsOfAddress();
});
// Sphinx marks the words 10 ms after the page is read.
window.addEventListener("load", () => setTimeout(openFoldsOfSearch, 20));
