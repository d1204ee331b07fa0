/* A state of the page as an address: #s=the+cat&step=3&node=logits&head=1&cell=2.5&what=[…]&tour=4.
   Whoever writes it may write nonsense: what cannot be read is left out. */
const TEXT = 400; /* characters of a sentence in an address, at most */

const whole = (text, most) => (/^\d{1,4}$/.test(text ?? "") && Number(text) <= most
  ? Number(text) : undefined);

/* The changes of a what-if, each checked by itself. */
function readChanges(text, { nodes, layers, heads, words }) {
  let list;
  try {
    list = JSON.parse(text);
  } catch {
    return [];
  }
  const count = (value, most) => Number.isInteger(value) && value >= 0 && value < most;
  const fits = {
    token: ({ step, id }) => count(step, 1000) && count(id, words) && { step, id },
    look: ({ layer, step, source }) => count(layer, layers) && count(step, 1000)
      && count(source, 1000) && { layer, step, source },
    head: ({ node, head }) => nodes.includes(`${node}.weights`) && count(head, heads)
      && { node, head },
    positions: ({ side }) => ["src", "tgt"].includes(side) && { side },
    mask: () => ({}),
  };
  return (Array.isArray(list) ? list.slice(0, 30) : []).flatMap((change) => {
    const kind = change?.kind;
    const own = Object.hasOwn(fits, kind) && fits[kind](change);
    return own ? [{ kind, ...own }] : [];
  });
}

function readAddress(hash, model) {
  const found = new URLSearchParams(hash.replace(/^#/, ""));
  if (!["s", "node", "step", "tour", "what"].some((name) => found.has(name))) return null;
  const cell = /^(\d{1,3})\.(\d{1,4})$/.exec(found.get("cell") ?? "");
  const node = found.get("node");
  return {
    text: found.has("s") ? found.get("s").slice(0, TEXT) : undefined,
    node: model.nodes.includes(node) ? node
      : model.nodes.find((name) => node && name.startsWith(`${node}.`)),
    step: whole(found.get("step"), 1000),
    head: whole(found.get("head"), model.heads - 1),
    cell: cell ? [Number(cell[1]), Number(cell[2])] : undefined,
    changes: readChanges(found.get("what") ?? "[]", model),
    tour: model.tour.indexOf(found.get("tour")) >= 0 ? found.get("tour") : undefined,
  };
}

function writeAddress({ text, node, step, head, cell, changes, tour }) {
  const said = new URLSearchParams();
  if (text !== undefined) said.set("s", text);
  said.set("step", step);
  said.set("node", node);
  if (head !== undefined) said.set("head", head);
  if (cell) said.set("cell", cell.join("."));
  if (changes.length) said.set("what", JSON.stringify(changes));
  if (tour) said.set("tour", tour);
  return `#${said}`;
}
