/* What computes, beside the page. The first message also holds the `graph` and the `packed`
   model. A message is one of
   { run, text, changes }  Translate; the page numbers its runs. The answers: for each word,
     EOS included, { run, step, id, probability }, and at last { run, values }, the shape and
     the data of every node by its name; or { run, refused }, the number of tokens, if there
     are none or more than MOST.
   { run, sum, at }  Tell the sum behind a number of the node `sum`, where `at` is [head,] row
     and column. The answer: { run, sum, at, of }, of sums.js.
   { cancel }  No more answers about this run are wanted. */
const MOST = 60; /* tokens of a sentence */
const KEPT = 4; /* runs, of which sums can be told */

let open_, translator;
const passes = new Map(); /* run -> its pass; the oldest first */
const cancelled = new Set();

/* Let a message come in that may cancel. */
const { port1, port2 } = new MessageChannel();
const pause = () => new Promise((resume) => {
  port1.onmessage = resume;
  port2.postMessage(null);
});

async function translate({ run, text, changes = [] }) {
  const src = translator.encode(text);
  if (src.length === 1 || src.length > MOST) {
    postMessage({ run, refused: src.length });
    return;
  }
  const base = [...passes.values()].findLast(({ edits, src: ids }) =>
    !edits.length && String(ids) === String(src));
  const words = open_.write(src, changes, base);
  for (;;) {
    const { value, done } = words.next();
    if (cancelled.delete(run)) return;
    if (done) {
      tell(run, value);
      return;
    }
    postMessage({ run, ...value });
    await pause();
  }
}

function tell(run, pass) {
  passes.set(run, pass);
  if (passes.size > KEPT) passes.delete(passes.keys().next().value);
  const values = Object.fromEntries(open_.graph.map(({ name }) => [name, pass.value(name)]));
  postMessage({ run, values }, Object.values(values).map(({ data }) => data.buffer));
}

self.onmessage = ({ data }) => {
  if (data.packed) {
    translator = new Translator(data.packed);
    open_ = new OpenModel(data.graph, translator);
  }
  if ("cancel" in data) cancelled.add(data.cancel);
  else if ("sum" in data) {
    const { run, sum, at } = data;
    postMessage({ run, sum, at, of: sumOf(passes.get(run), sum, at) });
  } else translate(data);
};
