// Mends what the theme gets wrong. Its scripts look for the first button that opens the
// menu, and find one in a bar that book.css hides: so the bar is emptied (not removed: a
// script measures it), and the buttons that the reader sees work. They also take the focus from a
// button that was pressed, which loses the place of whoever uses the keyboard. The rest is
// for readers who do not see the page: an aria-label hides the words that stand on a
// button or a summary, a picture's title counts as such a word, what opens a part of the
// contents has no name, the bibliography is a list without items, and the list of source
// pages holds lists that are in no item. All of it is mended as soon as the page is read,
// before a deferred script makes pictures of icons.
document.addEventListener("readystatechange", () => {
  document.querySelector("#pst-header")?.replaceChildren();
  const pressed = ".sidebar-toggle, .search-button, .theme-switch-button";
  for (const button of document.querySelectorAll(pressed)) button.blur = () => {};
  const named = "summary[aria-label], .search-button-field[aria-label]";
  for (const part of document.querySelectorAll(named)) part.removeAttribute("aria-label");
  for (const icon of document.querySelectorAll(".theme-switch")) icon.removeAttribute("title");
  for (const part of document.querySelectorAll("nav li > a + details > summary")) {
    const over = part.parentElement.previousElementSibling;
    part.setAttribute("aria-label", `Pages of: ${over.textContent.trim()}`);
  }
  for (const item of document.querySelectorAll("[role=list] > [role=doc-biblioentry]")) {
    item.setAttribute("role", "listitem");
  }
  for (const list of document.querySelectorAll("article ul > ul")) {
    list.previousElementSibling.append(list);
  }
}, { once: true });
