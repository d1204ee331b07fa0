// What answers a prediction is covered until a reader asks for it. Without a script, on
// paper, and where a search or a link leads to it, it is in sight.
document.addEventListener("DOMContentLoaded", () => {
  for (let number = 0, parts; ; number++) {
    parts = document.querySelectorAll(`.predicted.prediction-${number}`);
    if (!parts.length) break;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "uncover";
    const cover = (covered) => {
      button.textContent = covered ? "Show the answer" : "Cover the answer";
      button.setAttribute("aria-expanded", !covered);
      for (const part of parts) {
        part.classList.toggle("covered", covered);
        part.hidden = covered ? "until-found" : false;
      }
    };
    button.addEventListener("click", () => cover(button.ariaExpanded === "true"));
    for (const part of parts) part.addEventListener("beforematch", () => cover(false));
    cover(true);
    parts[0].before(button);
  }
});
