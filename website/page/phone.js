// On a narrow page long lines of code go on in the next line, further in than they began, as
// in the listings. Each line becomes an element, since only that can hang by its indentation.
const isNarrow = matchMedia("(max-width: 600px)"); // as in book.css

function hangLines() {
  if (!isNarrow.matches) return;
  for (const pre of document.querySelectorAll("article div.highlight pre:not(.hangs)")) {
    pre.classList.add("hangs");
    const lines = pre.innerHTML.split(/(?<=\n)/); // Pygments lets no element run over an end
    pre.replaceChildren(...lines.map((html) => {
      const line = document.createElement("span");
      line.className = "hanging";
      line.innerHTML = html;
      line.style.setProperty("--indent", line.textContent.match(/^ */)[0].length);
      return line;
    }));
  }
}

document.addEventListener("DOMContentLoaded", hangLines);
isNarrow.addEventListener("change", hangLines);

// The button that leads to the top would cover what a control says: it goes meanwhile.
document.addEventListener("DOMContentLoaded", () => {
  const seen = new Set();
  const observer = new IntersectionObserver((changes) => {
    for (const { target, isIntersecting } of changes) seen[isIntersecting ? "add" : "delete"](target);
    document.body.classList.toggle("at-control", seen.size > 0);
  });
  for (const control of document.querySelectorAll(".control")) observer.observe(control);
});
