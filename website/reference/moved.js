// A link to the reference under a name that has changed leads to what has the name now.
const MOVED = {
  "bookkit.inspection": "bookkit.listing",
  "bookkit.laboratory": "pages.laboratory",
  "bookkit.open_model": "pages.look_inside",
  "bookkit.excerpts": "pages.javascript.excerpts",
  "bookkit.head_figures": "pages.heads.head_figures",
  "bookkit.workers": "pages.processes.workers",
  "bookkit.widgets.softmax": "pages.attention.softmax",
  "bookkit.widgets.merges": "pages.text.merges",
  "bookkit.widgets.positions": "pages.positions.positions",
  "bookkit.widgets.window": "pages.fewer_pairs.window",
  "bookkit.widgets.leak": "pages.masks.leak",
  "bookkit.widgets.masks": "pages.masks.masks",
  "bookkit.widgets.heads": "pages.inside.heads",
  "bookkit.widgets.switches": "pages.inside.switches",
  "bookkit.widgets.panel": "pages.laboratory.panel",
  "bookkit.widgets": "bookkit.controls",
};

addEventListener("DOMContentLoaded", () => {
  const name = location.hash.replace(/^#(module-)?/, "");
  const old = Object.keys(MOVED).find((each) => name === each || name.startsWith(`${each}.`));
  if (old) location.replace(location.hash.replace(old, MOVED[old]));
});
