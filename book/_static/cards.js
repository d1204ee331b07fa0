// A term of the glossary shows a card: its definition, and the chapter that explains it. It
// opens when the mouse rests on the term, when the term gets the focus, and at the first
// tap. It closes with Escape, and when mouse, focus or finger go elsewhere. Without this
// script, a term is a link to the glossary.
function showCards() {
  const root = document.documentElement.dataset.content_root;
  const page = (name) => root + name + DOCUMENTATION_OPTIONS.LINK_SUFFIX;
  const card = document.createElement("span");
  card.className = "term-card";
  card.popover = "manual";
  card.role = "group";
  let opened = null, timer;

  function fill(id) {
    const [word, definition, home] = GLOSSARY.terms[id];
    const here = home === DOCUMENTATION_OPTIONS.pagename;
    const chapter = here ? "<span></span>" : `<a href="${page(home)}"></a>`;
    // The term itself leads to the glossary by key; by touch, the card does.
    card.innerHTML = `<b></b><span>${definition}</span><span class="term-links">${chapter}
      <a href="${page(GLOSSARY.glossary)}#${id}" tabindex="-1">Glossary</a></span>`;
    card.setAttribute("aria-label", word);
    card.firstChild.textContent = word;
    card.querySelector(".term-links").firstChild.textContent =
      here ? "Explained in this chapter" : GLOSSARY.titles[home];
  }

  // Below the term, or above it if there is more room.
  function place(link) {
    const lines = link.getClientRects(), first = lines[0], last = lines[lines.length - 1];
    const { offsetWidth: width, offsetHeight: height } = card, gap = 6;
    const wide = document.documentElement.clientWidth;
    const below = last.bottom + gap + height <= innerHeight || first.top < innerHeight / 2;
    const top = below ? last.bottom + gap : first.top - gap - height;
    const left = below ? last.left : first.left;
    card.style.top = `${scrollY + top}px`;
    card.style.left = `${scrollX + Math.max(8, Math.min(left, wide - width - 8))}px`;
  }

  function open(link) {
    clearTimeout(timer);
    if (opened === link) return;
    close();
    fill(link.hash.slice(1));
    link.after(card); // so that the next stop of the keyboard is in the card
    card.showPopover();
    place(link);
    opened = link;
  }

  function close() {
    clearTimeout(timer);
    if (opened) card.hidePopover();
    opened = null;
  }

  const later = (act, wait) => {
    clearTimeout(timer);
    timer = setTimeout(act, wait);
  };
  const holds = (part) => part && (opened?.contains(part) || card.contains(part));

  const described = new Set();
  for (const link of document.querySelectorAll("a:has(> .std-term)")) {
    const id = link.hash.slice(1);
    if (!Object.hasOwn(GLOSSARY.terms, id)) continue;
    if (!described.has(id)) {
      described.add(id);
      const words = document.createElement("span");
      words.id = `says-${id}`;
      words.hidden = true;
      words.innerHTML = GLOSSARY.terms[id][1];
      document.body.append(words);
    }
    link.setAttribute("aria-describedby", `says-${id}`);
    let touched = false;
    link.addEventListener("pointerdown", (event) => {
      touched = event.pointerType === "touch" && opened !== link;
    });
    link.addEventListener("click", (event) => {
      if (!touched) return close();
      touched = false;
      event.preventDefault();
      open(link);
    });
    link.addEventListener("pointerenter", (event) => {
      if (event.pointerType !== "touch") later(() => open(link), 200);
    });
    link.addEventListener("pointerleave", (event) => {
      if (event.pointerType !== "touch") later(close, 300);
    });
    link.addEventListener("focus", () => {
      if (link.matches(":focus-visible")) open(link);
    });
  }
  card.addEventListener("pointerenter", () => clearTimeout(timer));
  card.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch" && !holds(document.activeElement)) later(close, 300);
  });
  document.addEventListener("focusout", ({ relatedTarget: next }) => {
    if (next && !holds(next)) close();
  });
  document.addEventListener("pointerdown", ({ target }) => holds(target) || close());
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !opened) return;
    const back = card.contains(document.activeElement) ? opened : null;
    close();
    back?.focus();
    close(); // which the focus has opened
  });
}

if ("popover" in HTMLElement.prototype) showCards();
