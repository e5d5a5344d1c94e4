"use strict";
/* The page works without this: it opens what a link points to, sorts, filters, walks charts, links, saves. */
(() => {
  const all = (what, within = document) => [...within.querySelectorAll(what)];
  const say = (text) => (document.getElementById("said").textContent = text);
  const make = (tag, properties, ...children) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  };

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
      const packed = atob(document.getElementById(button.dataset.json).textContent);
      const bytes = Uint8Array.from(packed, (char) => char.charCodeAt(0));
      const text = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      new Response(text).blob().then((blob) => {
        const href = URL.createObjectURL(new Blob([blob], { type: "application/json" }));
        make("a", { href, download: "kentry.json" }).click();
        setTimeout(() => URL.revokeObjectURL(href), 1000);
      });
    });
  }

  // A function leads to its source in that version of Linux, and to the commits that name it.
  for (const article of all("[data-versions]")) {
    const [old, now = old] = article.dataset.versions.split(" ");
    for (const code of all(".functions tbody code, .paths .head code", article)) {
      const [name] = code.textContent.split(/ <- |\./);
      if (!/^[a-z_]\w*$/i.test(name)) continue;
      const row = code.closest(".functions tr"), tag = row && row.cells[2].textContent === "-" ? old : now;
      const link = make("a", { href: `https://elixir.bootlin.com/linux/${tag}/A/ident/${name}`, title: `source in ${tag}` });
      code.replaceWith(link);
      link.append(code);
      const log = `https://git.kernel.org/pub/scm/linux/kernel/git/stable/linux.git/log/?h=${now}&qt=grep&q=${name}`;
      if (row) link.after(" ", make("a", { href: log, className: "tag", textContent: "commits", title: `commits that name ${name}` }));
    }
  }

  // What scrolls can be reached by keyboard; the rest is no stop.
  const reach = (one) => {
    if (one.scrollWidth > one.clientWidth || one.scrollHeight > one.clientHeight) one.tabIndex = 0;
    else if (one.clientHeight) one.removeAttribute("tabindex");
  };
  const scrolls = new ResizeObserver((entries) => entries.forEach((entry) => reach(entry.target)));
  for (const one of all(".wide")) scrolls.observe(one);
  // What is off the screen has no size to observe.
  addEventListener("toggle", (event) => all(".wide", event.target).forEach(reach), true);

  // Paper has no folds.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = all("details:not([open])");
    for (const one of closed) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of closed) one.open = false;
  });

  for (const table of all("table.sorts")) {
    const [body] = table.tBodies, heads = [...[...table.tHead.rows].at(-1).cells];
    // The notes below a row stay with it.
    const groups = () => {
      const list = [];
      for (const row of body.rows) row.className === "same" && list.length ? list.at(-1).push(row) : list.push([row]);
      return list;
    };
    heads.forEach((head, at) => {
      if (head.tagName !== "TH") return;
      const name = head.textContent;
      const button = make("button", { type: "button" }, ...head.childNodes);
      head.replaceChildren(button);
      // In a column of numbers an empty cell is less than any number; of changes the size counts.
      const key = (row) => row.cells[at].textContent.trim();
      const number = (row) => parseFloat(key(row).replace(/^[<>]/, ""));
      const size = (row) => Math.abs(number(row) || 0);
      const value = head.dataset.by === "size" ? size : (row) => number(row) || (number(row) === 0 ? 0 : -1);
      const words = !at || head.classList.contains("text");
      const compare = words ? (one, other) => key(one).localeCompare(key(other), "en")
                            : (one, other) => value(one) - value(other);
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const falling = words ? before === "ascending" : before !== "descending";
        for (const one of heads) one.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        const sign = falling ? -1 : 1;
        body.append(...groups().sort(([one], [other]) => sign * compare(one, other)).flat());
        say(`sorted by ${name}, ${falling ? "largest or last" : "smallest or first"} first`);
      });
    });
    if (table.classList.contains("filters")) {
      const first = heads.find((head) => head.dataset.by === "size");
      if (first) first.setAttribute("aria-sort", "descending");
      const text = make("input", { type: "search" }), words = new Map();
      for (const row of body.rows) words.set(row, row.textContent.toLowerCase());
      const changed = make("input", { type: "checkbox" });
      // A browser needs 100 ms to lay 200 rows out anew, so rows come back a screen at a time.
      const screen = 40;
      let appearing = 0;
      const appear = (rows) => {
        for (const row of rows.splice(0, screen)) row.hidden = false;
        if (rows.length) appearing = setTimeout(() => appear(rows), 20);
      };
      const filter = () => {
        const wanted = text.value.trim().toLowerCase(), grouped = groups();
        const found = grouped.filter((rows) => !(changed.checked && "same" in rows[0].dataset) &&
          rows.some((row) => words.get(row).includes(wanted)));
        const shown = new Set(found.flat());
        for (const row of grouped.flat()) row.hidden ||= !shown.has(row);
        clearTimeout(appearing);
        appear([...shown].filter((row) => row.hidden));
        say(`${found.length} of ${grouped.length} rows`);
      };
      text.addEventListener("input", filter);
      changed.addEventListener("change", filter);
      const tools = make("div", { className: "tools" }, make("label", {}, "Filter ", text));
      if (table.querySelector("tr[data-same]"))
        tools.append(make("label", {}, changed, " only changed"));
      table.parentElement.before(tools);
    }
  }

  // The reasons of a path's changes: each shows its own rows alone.
  for (const table of all("table.paths")) {
    const rows = all("tbody tr[class]:not(.left, .head)", table);
    const reason = (row) => (row.cells[4].firstChild?.nodeType === 3 ? row.cells[4].firstChild.data.trim() : "");
    const counts = new Map();
    for (const row of rows)
      if (reason(row)) counts.set(reason(row), (counts.get(reason(row)) || 0) + 1);
    const kinds = [...counts].filter(([text]) => !/^moved /.test(text));
    if (!kinds.length) continue;
    const tools = make("div", { className: "tools" });
    kinds.push(["", rows.length]);
    const buttons = kinds.map(([text, count]) => {
      const button = make("button", { type: "button", textContent: `${text || "all"} (${count})` });
      button.setAttribute("aria-pressed", String(!text));
      button.addEventListener("click", () => {
        for (const one of buttons) one.setAttribute("aria-pressed", String(one === button));
        for (const row of table.tBodies[0].rows)
          row.hidden = Boolean(text) && !(row.classList.contains("head") || (rows.includes(row) && reason(row) === text));
        // A head without rows says nothing.
        let below = false;
        for (const row of [...table.tBodies[0].rows].reverse()) {
          if (row.classList.contains("head")) { row.hidden = !below; below = false; }
          else below ||= !row.hidden;
        }
        say(`${text ? count : rows.length} changes shown`);
      });
      return button;
    });
    tools.append("Reasons: ", ...buttons);
    table.parentElement.before(tools);
  }

  const charts = all("svg.icicle").map((chart) => {
    const nodes = all("svg.frame", chart);
    const frames = nodes.map((node) => ({
      node,
      side: node.classList.contains("old") ? "old" : "new",
      name: node.querySelector("title").textContent.split(": ")[0],
      title: node.querySelector("title").textContent,
      x: parseFloat(node.getAttribute("x")),
      y: parseFloat(node.getAttribute("y")),
      wide: parseFloat(node.getAttribute("width")),
    }));
    // Rows count from the axis: the old path's upwards, the new one's downwards.
    for (const side of ["old", "new"]) {
      const own = frames.filter((one) => one.side === side);
      const ys = [...new Set(own.map((one) => one.y))].sort((a, b) => (side === "old" ? b - a : a - b));
      const times = new Map();
      for (const one of own) {
        one.depth = ys.indexOf(one.y);
        one.time = times.get(one.name) || 0;
        times.set(one.name, one.time + 1);
      }
    }
    const plain = frames.map(({ x, wide }) => ({ x, wide }));
    const caption = chart.closest("figure").querySelector("figcaption");
    const words = [...caption.childNodes];
    let chosen = null, merged = false;
    const inside = (one, other) =>
      one.x <= other.x + 1e-6 && one.x + one.wide >= other.x + other.wide - 1e-6;
    const row = (side, depth) => frames.filter((one) => one.side === side && one.depth === depth && one.wide > 0);
    const meets = (one, other) =>
      one.x < other.x + other.wide - 1e-6 && other.x < one.x + one.wide - 1e-6;
    // The outermost calls go through several parts.
    const parent = (one) => {
      const own = row(one.side, one.depth - 1);
      return own.find((other) => inside(other, one)) || own.find((other) => meets(other, one));
    };
    const twin = (one) => frames.find((other) =>
      other.side !== one.side && other.name === one.name && other.time === one.time && other.wide > 0);
    const zoom = (ranges) => {
      for (const one of frames) {
        const { x, wide } = ranges[one.side];
        const left = Math.max(0, ((one.x - x) * 100) / wide);
        const right = Math.min(100, ((one.x + one.wide - x) * 100) / wide);
        one.node.setAttribute("x", `${left}%`);
        one.node.setAttribute("width", `${Math.max(0, right - left)}%`);
      }
    };
    const whole = { x: 0, wide: 100 };
    const choose = (one) => {
      if (!one) return;
      if (chosen) chosen.node.classList.remove("chosen");
      chosen = one;
      chosen.node.classList.add("chosen");
      caption.textContent = one.title;
    };
    // Both paths on one scale; of the other path what has the same name, or its caller has.
    const widen = (one) => {
      const ranges = { old: one, new: one };
      let own = one, other = twin(one);
      while (own && !other) if ((own = parent(own))) other = twin(own);
      const far = one.side === "old" ? "new" : "old";
      if (other) {
        const wide = Math.max(one.wide, other === twin(one) ? other.wide : one.wide);
        ranges[one.side] = { x: one.x, wide };
        ranges[far] = { x: other.x + (own === one ? 0 : one.x - own.x), wide };
      }
      zoom(ranges);
    };
    const reset = () => {
      zoom({ old: whole, new: whole });
      if (chosen) chosen.node.classList.remove("chosen");
      chosen = null;
      caption.replaceChildren(...words);
    };
    // Calls of a function by the same caller become one frame, where the first of them was.
    const merge = () => {
      merged = !merged;
      frames.forEach((one, at) => Object.assign(one, plain[at]));
      if (merged)
        for (const side of ["old", "new"]) {
          const place = (group, x, depth) => {
            const [first] = group, wide = group.reduce((sum, one) => sum + one.wide, 0);
            const below = group.flatMap((one) => row(side, depth + 1).filter((other) => inside(one, other)));
            const names = Map.groupBy(below, (one) => one.name);
            const spans = [...names.values()].map((own) => [own, own.reduce((sum, one) => sum + one.wide, 0)]);
            spans.sort((a, b) => b[1] - a[1]);
            // Frames move only when nothing looks at where they were any more.
            const moves = [];
            let at = x;
            for (const [own, width] of spans) {
              moves.push(...place(own, at, depth + 1));
              at += width;
            }
            for (const one of group) moves.push([one, x, one === first ? wide : 0]);
            return moves;
          };
          const first = row(side, 1).every((one) => inside(parent(one), one)) ? 0 : 1;
          const tops = Map.groupBy(row(side, first), (one) => one.name);
          const moves = [];
          let at = 0;
          for (const own of tops.values()) {
            moves.push(...place(own, at, first));
            at += own.reduce((sum, one) => sum + one.wide, 0);
          }
          for (const [one, x, wide] of moves) Object.assign(one, { x, wide });
        }
      reset();
      say(merged ? "calls of a function are merged" : "calls are in the order of execution");
    };
    const step = (by) => {
      const changed = frames.filter((one) => one.wide > 0 && one.node.matches("[class*=level-]"));
      changed.sort((a, b) => a.x - b.x || a.depth - b.depth);
      if (!changed.length) return;
      const at = changed.indexOf(chosen);
      choose(changed[(at + by + changed.length + (at < 0 && by < 0)) % changed.length]);
    };
    const beside = (by) => {
      const own = row(chosen.side, chosen.depth).sort((a, b) => a.x - b.x);
      return own[own.indexOf(chosen) + by];
    };
    const away = () => row(chosen.side, chosen.depth + 1).find((one) => meets(chosen, one));
    // Across the axis to the other path.
    const across = (from) => {
      const own = row(from.side === "old" ? "new" : "old", 0);
      return own.find((one) => one.x + one.wide > from.x + 1e-6) || own[0];
    };
    const up = () => (chosen.side === "old" ? away() : parent(chosen) || (chosen.depth ? null : across(chosen)));
    const down = () => (chosen.side === "new" ? away() : parent(chosen) || (chosen.depth ? null : across(chosen)));
    const keys = {
      ArrowRight: () => choose(beside(1)),
      ArrowLeft: () => choose(beside(-1)),
      ArrowUp: () => choose(up()),
      ArrowDown: () => choose(down()),
      Enter: () => widen(chosen),
      Escape: reset,
      n: () => step(1),
      p: () => step(-1),
      m: merge,
      "/": () => document.getElementById("search")?.focus(),
    };
    const free = ["Escape", "n", "p", "m", "/"];
    chart.addEventListener("keydown", (event) => {
      if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      if (chosen || free.includes(event.key)) keys[event.key]();
      else choose(row("new", 0)[0] || frames[0]);
    });
    const under = (event) => frames.find((frame) => frame.node === event.target.closest("svg.frame"));
    chart.addEventListener("click", (event) => {
      const one = under(event);
      if (one && one !== chosen) {
        choose(one);
        widen(one);
      } else {
        reset();
      }
    });
    chart.addEventListener("mouseover", (event) => {
      const name = under(event)?.name;
      for (const one of frames) one.node.classList.toggle("lit", one.name === name);
    });
    chart.addEventListener("mouseleave", () => {
      for (const one of frames) one.node.classList.remove("lit");
    });
    const button = make("button", { type: "button", textContent: "Merge the calls of a function" });
    button.addEventListener("click", () => {
      merge();
      button.setAttribute("aria-pressed", String(merged));
    });
    button.setAttribute("aria-pressed", "false");
    chart.closest("figure").append(button);
    return frames;
  });
  if (charts.length) {
    const text = make("input", { type: "search", id: "search" });
    text.addEventListener("input", () => {
      const wanted = text.value.trim().toLowerCase();
      let hits = 0;
      for (const one of charts.flat()) {
        const hit = wanted && one.depth && one.name.toLowerCase().includes(wanted);
        one.node.classList.toggle("hit", Boolean(hit));
        hits += Boolean(hit);
      }
      say(wanted ? `${hits} frames have ${wanted}` : "");
    });
    const first = document.querySelector("svg.icicle");
    const outer = first.closest("details") || first.closest("figure");
    outer.before(make("div", { className: "tools" }, make("label", {}, "Search the charts for a function ", text)));
  }
})();
