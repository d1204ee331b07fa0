/* The model, in a thread of its own. The newest question is the one that is answered. */
class Engine {
  constructor(data) {
    this.data = data;
    this.number = 0;
  }

  start() {
    const address = URL.createObjectURL(
      new Blob([this.data.worker], { type: "text/javascript" }));
    this.worker = new Worker(address);
    const { graph, packed } = this.data;
    return { graph, packed };
  }

  ask(question, onToken = () => {}) {
    const first = this.worker ? {} : this.start(); /* the model is sent once */
    const run = ++this.number;
    if (run > 1) this.worker.postMessage({ cancel: run - 1 });
    return new Promise((answered, failed) => {
      this.worker.onerror = () =>
        failed(new Error("This page may not compute beside itself: no Worker."));
      this.worker.onmessage = ({ data }) => {
        if (data.run !== run) return;
        if ("id" in data) onToken(data);
        else if ("values" in data) answered(new Run(data.values, data.written));
        else failed(new Error(data.refused === 1
          ? "There is nothing to translate yet: type an English sentence."
          : `That is ${data.refused} tokens, too many to show. Try a shorter sentence.`));
      };
      this.worker.postMessage({ run, ...first, ...question });
    });
  }
}
