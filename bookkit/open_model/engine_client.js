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
    const { graph, config, packed } = this.data;
    this.worker.postMessage({ graph, config, packed });
  }

  ask(question, onToken = () => {}) {
    if (!this.worker) this.start();
    const run = ++this.number;
    this.worker.postMessage({ cancel: run - 1 });
    return new Promise((answered, failed) => {
      this.worker.onerror = () =>
        failed(new Error("This page may not compute beside itself: no Worker."));
      let count = 0;
      this.worker.onmessage = ({ data }) => {
        if (data.run !== run) return;
        if ("token" in data) onToken(data.token, count++ === 0);
        else if ("values" in data) answered(data.values);
        else failed(new Error(data.refused));
      };
      this.worker.postMessage({ run, ...question });
    });
  }
}
