// "On this page" marks the section that is read. The theme marks only headings that it
// sees passing the top of the window, so it misses those that a reader jumps over.
document.addEventListener("DOMContentLoaded", () => {
  const list = document.querySelector("#pst-page-toc-nav");
  const links = [...list?.querySelectorAll("a[href^='#']") ?? []];
  const entries = [...list?.querySelectorAll(".toc-entry") ?? []];
  const topOf = (link) => document.getElementById(link.hash.slice(1)).getBoundingClientRect().top;
  const mark = () => {
    // Near the end of the page the last sections come no higher, so the line comes down.
    const left = document.documentElement.scrollHeight - innerHeight - scrollY;
    const line = innerHeight * (1 - 0.7 * Math.min(left / innerHeight, 1));
    const read = links.filter((link) => topOf(link) < line).at(-1);
    for (const link of links) {
      link.classList.toggle("active", link === read);
      if (link === read) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    for (const entry of entries) entry.classList.toggle("active", entry.contains(read ?? null));
  };
  if (!links.length) return;
  addEventListener("scroll", () => {
    requestAnimationFrame(mark);
    setTimeout(mark, 100); // the theme marks its own a frame later
  }, { passive: true });
});
