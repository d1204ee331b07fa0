// A term of the glossary shows a card: its definition, and the chapter that explains it. It
// opens when the mouse rests on the term, when the term gets the focus, and at the first
// tap. It closes with Escape, and when mouse, focus or finger go elsewhere. A screen reader
// reads the definition as the term's description. Without this script, a term is a link to
// the glossary.
const OPEN_AFTER = 200, CLOSE_AFTER = 300; // milliseconds
const TERMS = "a:has(> .std-term)";

function showCards() {
  const root = document.documentElement.dataset.content_root;
  const page = (name) => root + name + DOCUMENTATION_OPTIONS.LINK_SUFFIX;
  const card = document.createElement("span");
  card.className = "term-card";
  card.popover = "manual";
  card.setAttribute("role", "group");
  let opened = null, tapped = null, timer;

  const idOf = (link) => link.hash.slice(1);
  const isKnown = (link) => Object.hasOwn(GLOSSARY.terms, idOf(link));
  function termAt(part) {
    const link = part.closest?.(TERMS);
    return link && isKnown(link) ? link : null;
  }
  const holds = (part) => opened?.contains(part) || card.contains(part);
  function later(act, wait) {
    clearTimeout(timer);
    timer = setTimeout(act, wait);
  }

  function fill(id) {
    const [word, definition, home] = GLOSSARY.terms[id];
    const isHere = home === DOCUMENTATION_OPTIONS.pagename;
    const chapter = isHere ? "<span></span>" : `<a href="${page(home)}"></a>`;
    // With keys and mouse, the term itself leads to the glossary.
    card.innerHTML = `<b></b><span>${definition}</span><span class="term-links">${chapter}
      <a href="${page(GLOSSARY.glossary)}#${id}" tabindex="-1">Glossary</a></span>`;
    card.setAttribute("aria-label", word);
    card.firstChild.textContent = word;
    card.querySelector(".term-links").firstChild.textContent =
      isHere ? "Explained in this chapter" : GLOSSARY.titles[home];
  }

  // Below the term, or above it where there is more room.
  function place(link) {
    const lines = [...link.getClientRects()], first = lines[0], last = lines.at(-1);
    const { offsetWidth: width, offsetHeight: height } = card;
    const below = last.bottom + height + 14 < innerHeight || first.top < innerHeight / 2;
    const top = below ? last.bottom + 6 : first.top - height - 6;
    const right = document.documentElement.clientWidth - width - 8;
    card.style.top = `${scrollY + top}px`;
    card.style.left = `${scrollX + Math.max(8, Math.min((below ? last : first).left, right))}px`;
  }

  function open(link) {
    clearTimeout(timer);
    if (opened === link) return;
    close();
    fill(idOf(link));
    link.after(card); // so that the next stop of the keyboard is in the card
    card.showPopover();
    place(link);
    opened = link;
  }

  function close() {
    clearTimeout(timer);
    if (opened && card.isConnected) card.hidePopover();
    opened = null;
  }

  for (const link of document.querySelectorAll(TERMS)) {
    if (!isKnown(link)) continue;
    const id = `about-${idOf(link)}`;
    if (!document.getElementById(id)) {
      const words = document.createElement("span");
      words.id = id;
      words.hidden = true;
      words.innerHTML = GLOSSARY.terms[idOf(link)][1];
      document.body.append(words);
    }
    link.setAttribute("aria-describedby", id);
  }

  document.addEventListener("pointerover", ({ target, pointerType }) => {
    if (pointerType === "touch") return;
    const link = termAt(target);
    if (link) later(() => open(link), OPEN_AFTER);
    else if (holds(target)) clearTimeout(timer);
    else if (!holds(document.activeElement)) later(close, CLOSE_AFTER);
  });
  document.addEventListener("pointerdown", ({ target, pointerType }) => {
    const link = termAt(target);
    tapped = pointerType === "touch" && link !== opened ? link : null;
    if (!holds(target)) close();
  });
  document.addEventListener("click", (event) => {
    const link = termAt(event.target);
    if (!link) return;
    if (link === tapped) {
      event.preventDefault();
      open(link);
    } else close();
    tapped = null;
  });
  document.addEventListener("focusin", ({ target }) => {
    const link = termAt(target);
    if (link?.matches(":focus-visible")) open(link);
    else if (!holds(target)) close();
  });
  document.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape" || !opened) return;
    if (card.contains(document.activeElement)) opened.focus();
    close();
  });
}

if ("popover" in HTMLElement.prototype) showCards();
