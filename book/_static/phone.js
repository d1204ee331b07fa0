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
