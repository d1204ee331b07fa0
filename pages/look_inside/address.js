/* A state of the page as an address: #s=she+sleeps&node=memory&token=1&step=3&head=0&cell=5.
   An address may hold nonsense: what cannot be read is left out. */
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

const PARTS = ["s", "node", "token", "step", "head", "cell", "what", "tour"];

/* What an address says, or null if it speaks of something else. */
function readAddress(hash, model) {
  const said = new URLSearchParams(hash.replace(/^#/, ""));
  if (!PARTS.some((part) => said.has(part))) return null;
  const name = said.get("node"), tour = model.tour.indexOf(said.get("tour"));
  return {
    text: said.has("s") ? said.get("s").slice(0, TEXT) : undefined,
    node: name ? model.nodes.find((node) => node === name || node.startsWith(`${name}.`))
      : undefined,
    row: whole(said.get("token"), 1000), step: whole(said.get("step"), 1000),
    head: whole(said.get("head"), model.heads - 1), column: whole(said.get("cell"), 9999),
    changes: said.has("what") ? readChanges(said.get("what"), model) : undefined,
    tour: tour < 0 ? undefined : tour,
  };
}

function writeAddress({ text, node, row, step, head, column, changes, tour }) {
  const parts = { s: text, node, token: row, step, head, cell: column, tour,
    what: changes.length ? JSON.stringify(changes) : undefined };
  const said = Object.entries(parts).filter(([, value]) => value !== undefined);
  return `#${new URLSearchParams(said)}`;
}
