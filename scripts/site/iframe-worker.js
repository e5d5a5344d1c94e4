// SPDX-License-Identifier: GPL-2.0-or-later
// A worker in a frame: a page that is opened from a folder may start no Worker, and its frames are
// of its own origin, so both sides can call each other.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.inside = new Promise((resolve) => {
        frame.onload = () => {
          const inside = frame.contentWindow;
          const load = (place) => new Promise((done, failed) => {
            const script = inside.document.createElement("script");
            Object.assign(script, { src: place, onload: done, onerror: failed });
            inside.document.head.append(script);
          });
          inside.postMessage = (data) => this.answer(data);
          inside.importScripts = (...places) =>
            places.reduce((before, place) => before.then(() => load(place)), Promise.resolve());
          load(url).then(() => resolve(inside));
        };
      });
      document.body.append(frame);
    }
    answer(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }
    postMessage(data) {
      this.inside.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
    terminate() {}
  };
}
