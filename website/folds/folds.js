// What a link or a search leads to is in sight, also where it lies in a closed fold.
function openFoldsAround(place) {
  let opened = false;
  for (let part = place; part; part = part.parentElement) {
    if (part.matches(".covered")) opened = part.dispatchEvent(new Event("beforematch"));
    const fold = part.matches("details") ? part : part.querySelector(":scope > details.fold");
    if (fold && !fold.open) opened = fold.open = true;
  }
  return opened;
}

function openFoldsOfAddress() {
  const place = document.getElementById(location.hash.slice(1)); // Sphinx's names are plain
  if (place && openFoldsAround(place)) place.scrollIntoView();
}

document.addEventListener("DOMContentLoaded", openFoldsOfAddress);
window.addEventListener("hashchange", openFoldsOfAddress);
// A link to where the address leads already changes no address.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href*='#']");
  if (link && link.href === location.href) openFoldsOfAddress();
});
