/* The model, in a thread of its own. The newest question is the one that is answered. */
const ALONE = "This browser does not let the page compute: it has no web worker. "
  + "Try another browser.";
const PATIENCE = 30000; /* milliseconds for an answer */

class Engine {
  constructor(data) {
    this.number = 0;
    this.refuse = () => {};
    try {
      this.start(data); /* it unpacks the weights while the page is drawn */
    } catch { /* the first question is refused */ }
  }

  start({ worker, graph, packed }) {
    this.worker = new Worker(URL.createObjectURL(
      new Blob([worker], { type: "text/javascript" })));
    this.worker.onerror = ({ message }) => {
      this.isBroken = !message;
      this.refuse(message ? "This could not be computed. Reload the page to go on." : ALONE);
    };
    this.worker.postMessage({ graph, packed });
  }

  ask(question, onToken = () => {}) {
    const run = ++this.number;
    clearTimeout(this.waiting);
    return new Promise((answered, failed) => {
      this.refuse = (why) => failed(new Error(why));
      this.waiting = setTimeout(() => this.refuse(
        "There is no answer yet. Reload the page, or try another browser."), PATIENCE);
      if (!this.worker || this.isBroken) {
        this.refuse(ALONE);
        return;
      }
      this.worker.onmessage = ({ data }) => {
        if (data.run !== run) return;
        if ("id" in data) onToken(data);
        else if ("values" in data) answered(new Run(data.values, data.written));
        else this.refuse(data.refused === 1
          ? "There is nothing to translate yet: type an English sentence."
          : `That is ${data.refused} tokens, too many to show. Try a shorter sentence.`);
      };
      this.worker.postMessage({ run, ...question });
    });
  }
}
