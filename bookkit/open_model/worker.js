/* What computes, beside the page. The first message also holds the `graph` and the `packed`
   model. { run, text, changes } asks for a translation; the page numbers its runs. The answers are
   { run, step, id, probability } for each word, EOS included, and then { run, values, written },
   the tensor of every node by its name and the ids of the words; or { run, refused }, the number
   of tokens, if the sentence is empty or has more than MOST. { cancel } wants nothing more of
   that run and of earlier ones. */
const MOST = 60; /* tokens of a sentence: more fit no screen */

let translator, open_, cancelled = 0;
let plain = {}; /* the last sentence, and its pass without changes */

/* Let a message come in, which may cancel. */
const { port1, port2 } = new MessageChannel(), waiting = [];
port1.onmessage = () => waiting.shift()();
const pause = () => new Promise((resume) => {
  waiting.push(resume);
  port2.postMessage(null);
});

/* Write word by word, and return the pass, or nothing if it was cancelled. */
async function write(run, words, told = () => {}) {
  for (;;) {
    const { value, done } = words.next();
    if (done) return value;
    told(value);
    await pause();
    if (run <= cancelled) return undefined;
  }
}

async function translate(run, text, changes) {
  const src = translator.encode(text);
  if (src.length === 1 || src.length > MOST) {
    postMessage({ run, refused: src.length });
    return;
  }
  const told = (word) => postMessage({ run, ...word });
  if (plain.text !== text) {
    const pass = await write(run, open_.write(src), changes.length ? undefined : told);
    if (!pass) return;
    plain = { text, pass };
  }
  const pass = changes.length
    ? await write(run, open_.write(src, changes, plain.pass), told) : plain.pass;
  if (!pass) return;
  const values = Object.fromEntries(open_.graph.map(({ name }) => [name, pass.value(name)]));
  postMessage({ run, values, written: pass.written },
    Object.values(values).map(({ data }) => data.buffer));
}

self.onmessage = ({ data: { graph, packed, run, text, changes = [], cancel = 0 } }) => {
  if (packed) {
    translator = new Translator(packed);
    open_ = new OpenModel(graph, translator);
  }
  cancelled = Math.max(cancelled, cancel);
  if (run) translate(run, text, changes);
};
