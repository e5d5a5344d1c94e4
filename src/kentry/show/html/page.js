"use strict";
/* The page works without this: it opens what a link points to, sorts, walks icicles, saves the JSON. */
(() => {
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let one = target; one; one = one.parentElement)
      if (one.tagName === "DETAILS") one.open = true;
    if (target && target.tagName === "DETAILS") {
      target.scrollIntoView();
      target.querySelector("summary").focus();
    }
  };
  addEventListener("hashchange", reveal);
  reveal();
  // A link to where the page already is fires no event.
  addEventListener("click", (event) => {
    const link = event.target.closest("a");
    const to = link && (link.getAttribute("href") || "");
    if (to && to === location.hash) reveal();
  });

  for (const button of document.querySelectorAll("button.save")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const text = document.getElementById(button.dataset.json).textContent;
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      link.download = "kentry.json";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }

  for (const table of document.querySelectorAll("table.sorts")) {
    const [body] = table.tBodies, heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, at) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      // The first column has names; in the others an empty cell is less than any number.
      const key = (row) => row.cells[at].textContent.trim();
      const number = (row) => parseFloat(key(row).replace(/^[<>]/, "") || -1);
      const compare = at ? (one, other) => number(one) - number(other)
                         : (one, other) => key(one).localeCompare(key(other), "en");
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const falling = at ? before !== "descending" : before === "ascending";
        for (const one of heads) one.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        const sign = falling ? -1 : 1;
        body.append(...[...body.rows].sort((one, other) => sign * compare(one, other)));
      });
    });
  }

  for (const chart of document.querySelectorAll("svg.icicle")) {
    const frames = [...chart.querySelectorAll("svg.frame")].map((node) => ({
      node,
      x: parseFloat(node.getAttribute("x")),
      y: parseFloat(node.getAttribute("y")),
      wide: parseFloat(node.getAttribute("width")),
    }));
    const text = chart.closest("figure").querySelector("figcaption");
    const words = [...text.childNodes];
    let chosen = null;
    const zoom = (x, wide) => {
      for (const one of frames) {
        one.node.setAttribute("x", ((one.x - x) * 100) / wide + "%");
        one.node.setAttribute("width", (one.wide * 100) / wide + "%");
      }
    };
    const choose = (one) => {
      if (!one) return;
      if (chosen) chosen.node.classList.remove("chosen");
      chosen = one;
      chosen.node.classList.add("chosen");
      text.textContent = one.node.querySelector("title").textContent;
    };
    const widen = (one) => zoom(one.x, one.wide);
    const reset = () => {
      zoom(0, 100);
      if (chosen) chosen.node.classList.remove("chosen");
      chosen = null;
      text.replaceChildren(...words);
    };
    // Frames are in rows, each from left to right.
    const beside = (step) => {
      const row = frames.filter((one) => one.y === chosen.y);
      return row[row.indexOf(chosen) + step];
    };
    const above = () =>
      frames.find((one) => one.y < chosen.y && one.y >= chosen.y - 20 &&
        one.x <= chosen.x + 1e-6 && one.x + one.wide >= chosen.x + chosen.wide - 1e-6);
    const below = () =>
      frames.find((one) => one.y > chosen.y && one.y <= chosen.y + 20 &&
        one.x + one.wide > chosen.x + 1e-6 && one.x < chosen.x + chosen.wide - 1e-6);
    const keys = {
      ArrowRight: () => choose(beside(1)),
      ArrowLeft: () => choose(beside(-1)),
      ArrowUp: () => choose(above()),
      ArrowDown: () => choose(below()),
      Enter: () => widen(chosen),
      Escape: reset,
    };
    chart.addEventListener("keydown", (event) => {
      if (!(event.key in keys)) return;
      event.preventDefault();
      if (chosen || event.key === "Escape") keys[event.key]();
      else choose(frames[0]);
    });
    chart.addEventListener("click", (event) => {
      const one = frames.find((frame) => frame.node === event.target.closest("svg.frame"));
      if (one && one !== chosen) {
        choose(one);
        widen(one);
      } else {
        reset();
      }
    });
  }
})();
