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
  // Their tooltips stay on a screen that is touched; a browser's own do not.
  const names = { ".primary-toggle": "Chapters", ".secondary-toggle": "On this page" };
  for (const [buttons, name] of Object.entries(names)) {
    for (const button of document.querySelectorAll(buttons)) {
      button.title = name;
      button.setAttribute("aria-label", name);
    }
  }
  for (const button of document.querySelectorAll("button[data-bs-toggle=tooltip]")) {
    delete button.dataset.bsToggle;
  }
  nameTheme();
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

// The button for the theme says which one it is.
function nameTheme() {
  const names = { auto: "as the system has it", light: "light", dark: "dark" };
  const { mode } = document.documentElement.dataset;
  for (const button of document.querySelectorAll(".theme-switch-button")) {
    button.title = `Theme: ${names[mode] ?? mode}`;
    button.setAttribute("aria-label", button.title);
  }
}
new MutationObserver(nameTheme).observe(document.documentElement, { attributeFilter: ["data-mode"] });

// The contents show the page that is open, wherever they were left.
addEventListener("load", () => {
  const contents = document.querySelector(".bd-sidebar-primary");
  const here = [...contents?.querySelectorAll("nav .current > a") ?? []].at(-1);
  if (!here?.offsetParent) return;
  const [link, room] = [here, contents].map((part) => part.getBoundingClientRect());
  const isSeen = link.top > room.top && link.bottom < Math.min(room.bottom, innerHeight);
  if (!isSeen) contents.scrollTop += link.top - room.top - room.height / 3;
});
