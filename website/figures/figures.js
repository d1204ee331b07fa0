// A figure opens large: a click or a tap on it, or its button, which keys reach. Escape, a
// click or the button in the corner closes it.
document.addEventListener("DOMContentLoaded", () => {
  const dialog = document.createElement("dialog");
  dialog.className = "large";
  dialog.setAttribute("aria-label", "Figure, large");
  dialog.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.replaceChildren());

  const open = (figure) => {
    const copy = figure.cloneNode(true);
    copy.querySelector(":scope > button")?.remove();
    const drawn = copy.querySelector("svg, img");
    // Names on a page are told apart, those of a copy too.
    for (const part of [copy, ...copy.querySelectorAll("*")]) {
      for (const { name, value } of [...part.attributes]) {
        if (name === "id") part.id = `large-${value}`;
        else if (value.includes("url(#")) part.setAttribute(name, value.replaceAll("url(#", "url(#large-"));
        else if (name === "href" && value.startsWith("#")) part.setAttribute(name, `#large-${value.slice(1)}`);
      }
    }
    // It fits the window. Where its words would be small, a click on it makes them large
    // enough to be read, and then it scrolls; another click makes it fit again.
    const box = figure.querySelector("svg, img").getBoundingClientRect();
    const natural = drawn.viewBox?.baseVal.width ?? box.width;
    const fits = Math.min((innerWidth - 32) / box.width, (innerHeight - 32) / box.height) * box.width;
    drawn.style.minWidth = "0";
    drawn.style.width = `${fits}px`;
    if (fits < 1.4 * natural) {
      drawn.style.cursor = "zoom-in";
      drawn.addEventListener("click", (event) => {
        event.stopPropagation();
        const [x, y] = [event.offsetX, event.offsetY];
        const grows = drawn.style.cursor === "zoom-in", factor = 1.6 * natural / fits;
        drawn.style.cursor = grows ? "zoom-out" : "zoom-in";
        drawn.style.width = `${grows ? factor * fits : fits}px`;
        if (grows) dialog.scrollTo(x * factor - innerWidth / 2, y * factor - innerHeight / 2);
      });
    }
    const close = document.createElement("form");
    close.method = "dialog";
    close.innerHTML = "<button>Close</button>";
    dialog.replaceChildren(copy, close);
    if (!dialog.isConnected) document.body.append(dialog);
    dialog.showModal();
    dialog.scrollTo(0, 0);
  };

  for (const image of document.querySelectorAll("article figure img")) {
    const around = document.createElement("div");
    around.className = "picture";
    image.replaceWith(around);
    around.append(image);
  }
  for (const figure of document.querySelectorAll("article .picture")) {
    figure.addEventListener("click", () => {
      if (getSelection().isCollapsed) open(figure);
    });
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-label", "Enlarge figure");
    button.title = "Enlarge";
    button.innerHTML = '<svg viewBox="0 0 16 16" aria-hidden="true"><path d="M9.5 2H14v4.5M14 2 9 7M6.5 14H2V9.5M2 14l5-5"/></svg><span>Enlarge</span>';
    button.addEventListener("click", (event) => {
      event.stopPropagation();
      open(figure);
    });
    figure.append(button);
  }
});
