// Mends what the theme gets wrong for readers who do not see the page: an aria-label
// hides the words that stand on a button or a summary, and a picture's title counts as
// such a word.
document.addEventListener("DOMContentLoaded", () => {
  const named = "summary[aria-label], .search-button-field[aria-label]";
  for (const part of document.querySelectorAll(named)) part.removeAttribute("aria-label");
  for (const icon of document.querySelectorAll(".theme-switch")) {
    icon.removeAttribute("title");
    icon.querySelector("title")?.remove();
  }
});
