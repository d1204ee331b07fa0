/* The model, in a thread of its own. The newest question is the one that is answered. */
const ALONE = "This page may not compute beside itself: no Worker.";

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
    return new Promise((answered, failed) => {
      this.refuse = (why) => failed(new Error(why));
      if (!this.worker || this.isBroken) {
        this.refuse(ALONE);
        return;
      }
      if (run > 1) this.worker.postMessage({ cancel: run - 1 });
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
