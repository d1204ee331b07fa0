/* What computes, beside the page. The first message also holds the `graph` and the `packed`
   model. { run, text, changes } asks for a translation and cancels earlier ones; the page numbers
   its runs. The answers are { run, step, id } for each word, EOS included, and then
   { run, values, written }, the tensor of every node by its name and the ids of the words; or
   { run, refused }, the number of tokens, if the sentence is empty or has more than MOST. */
const MOST = 60; /* tokens of a sentence: more fit no screen */

let translator, open_, newest = 0;
let plain = {}; /* the last sentence, and its pass without changes */

/* Let a message come in, which may be a newer question. */
const { port1, port2 } = new MessageChannel(), waiting = [];
port1.onmessage = () => waiting.shift()();
const pause = () => new Promise((resume) => {
  waiting.push(resume);
  port2.postMessage(null);
});

/* Write a pass, and say whether it is complete: it may be cancelled after any word. */
async function write(pass, run, told = () => {}) {
  for (const word of pass.write()) {
    told(word);
    await pause();
    if (run < newest) return false;
  }
  return true;
}

async function translate(run, text, changes) {
  const src = translator.encode(text);
  if (src.length === 1 || src.length > MOST) {
    postMessage({ run, refused: src.length });
    return;
  }
  const told = (word) => postMessage({ run, ...word });
  if (plain.text !== text) {
    const pass = new Pass(open_, src);
    if (!await write(pass, run, changes.length ? undefined : told)) return;
    plain = { text, pass };
  }
  const pass = changes.length ? new Pass(open_, src, changes, plain.pass) : plain.pass;
  if (changes.length && !await write(pass, run, told)) return;
  const values = Object.fromEntries(open_.graph.map(({ name }) => [name, pass.value(name)]));
  postMessage({ run, values, written: pass.written },
    Object.values(values).map(({ data }) => data.buffer));
}

self.onmessage = ({ data: { graph, packed, run, text, changes = [] } }) => {
  if (packed) {
    translator = new Translator(packed);
    open_ = new OpenModel(graph, translator);
  }
  if (!run) return;
  newest = run;
  translate(run, text, changes).catch((error) => setTimeout(() => { throw error; }));
};
