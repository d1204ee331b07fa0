// Remembers, in this browser alone, which chapters were read to the end and where the reader
// stopped. A browser may refuse to remember anything: then the pages work without it.
const PROGRESS = "the-transformer-line-by-line";

function recall() {
  let known;
  try { known = JSON.parse(localStorage.getItem(PROGRESS)); } catch { /* as if new */ }
  return { read: Array.isArray(known?.read) ? known.read : [], last: known?.last };
}

function remember(known) {
  try { localStorage.setItem(PROGRESS, JSON.stringify(known)); } catch { /* then not */ }
}

const nameOfPage = (link) => new URL(link.href).pathname.match(/(\w+)\.html$/)?.[1];

function markRead() {
  const { read } = recall();
  for (const link of document.querySelectorAll(".bd-docs-nav a, #the-chapters a")) {
    const isRead = read.includes(nameOfPage(link));
    link.classList.toggle("read", isRead);
    link.querySelector(".read-word")?.remove();
    if (isRead) link.insertAdjacentHTML("beforeend", '<span class="read-word visually-hidden"> (read)</span>');
  }
}

// On the front page: called while it is read, so that nothing moves later.
function offerToContinue(links) {
  const { page, title, place = "" } = recall().last ?? {};
  if (!/^\w+$/.test(page) || typeof title !== "string" || !/^[\w-]*$/.test(place)) return;
  const link = document.createElement("a");
  link.href = `${page}.html${place && "#"}${place}`;
  link.textContent = `Continue: ${title}`;
  link.className = "continue";
  links.prepend(link);
}

function followReader() {
  const page = nameOfPage(location);
  const wordsOf = (heading) => {
    const copy = heading.cloneNode(true);
    copy.querySelector(".headerlink")?.remove();
    return copy.textContent.trim().replace(/\s+/g, " ");
  };
  const end = document.querySelector(".prev-next-footer");
  const next = document.querySelector(".right-next");
  const isAtEnd = () => end && end.getBoundingClientRect().top < innerHeight;

  function stopHere() {
    const above = [...document.querySelectorAll("article section[id] > h2")]
      .filter((heading) => heading.getBoundingClientRect().top < innerHeight / 2).at(-1);
    const here = { page, title: wordsOf(document.querySelector("article h1")), place: above?.parentElement.id };
    const after = next && { page: nameOfPage(next), title: wordsOf(next.querySelector(".prev-next-title")) };
    remember({ ...recall(), last: isAtEnd() ? after ?? here : here });
  }

  new IntersectionObserver((seen) => {
    const { read, ...rest } = recall();
    if (!seen.some((part) => part.isIntersecting) || read.includes(page)) return;
    remember({ ...rest, read: [...read, page] });
    markRead();
  }).observe(end);
  addEventListener("pagehide", stopHere);
  document.addEventListener("visibilitychange", () => document.hidden && stopHere());
}

document.addEventListener("DOMContentLoaded", () => {
  markRead();
  if (document.querySelector(".place[data-chapter]")) followReader();
  const forget = document.querySelector(".front-memory button");
  forget?.addEventListener("click", () => {
    try { localStorage.removeItem(PROGRESS); } catch { /* there is nothing */ }
    document.querySelector(".continue")?.remove();
    markRead();
    forget.nextElementSibling.textContent = "Forgotten.";
  });
});
