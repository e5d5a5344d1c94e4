"use strict";
/* Compares two kernels that are chosen; what it says are instructions of the commonest paths. */
(async () => {
  const article = document.querySelector('[data-kind="compare"]');
  const packed = atob(article.querySelector('script[type="application/gzip"]').textContent);
  const bytes = Uint8Array.from(packed, (char) => char.charCodeAt(0));
  const text = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const { lines, kernels, functions, paths } = await new Response(text).json();
  const make = (tag, properties, ...children) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  };
  const signed = (value) => (value > 0 ? `+${value}` : `${value}`);
  const choose = (label) => {
    const select = make("select", {});
    lines.forEach((name, at) => {
      const group = make("optgroup", { label: name });
      kernels.forEach((kernel, index) => {
        if (kernel.line === at) group.append(make("option", { value: index, textContent: kernel.name }));
      });
      select.append(group);
    });
    return [select, make("label", {}, `${label} `, select)];
  };
  const [old, oldLabel] = choose("Old");
  const [now, nowLabel] = choose("New");
  const answer = make("div", { id: "answer" });
  answer.setAttribute("aria-live", "polite");
  article.querySelector(".lead").after(make("div", { className: "tools" }, oldLabel, nowLabel), answer);

  const counts = (path) => {
    const own = new Map(), list = path === null ? [] : paths[path];
    for (let at = 0; at < list.length; at += 2) own.set(functions[list[at]], list[at + 1]);
    return own;
  };
  // A count that depends on the context is in parentheses: between two such a difference may be none.
  const row = (name, before, after, varies = false) => {
    const number = (value) => make("td", { textContent: value ?? "-" });
    const delta = (after ?? 0) - (before ?? 0);
    const className = varies ? "" : delta > 0 ? "worse" : delta < 0 ? "better" : "";
    const change = make("td", { className, textContent: varies && delta ? `(${signed(delta)})` : signed(delta) });
    return [make("th", { scope: "row", className: "text" }, name), number(before), number(after), change];
  };
  const table = (caption, first, rows) => {
    const heads = [first, "old", "new", "delta"].map((textContent) => make("th", { scope: "col", textContent }));
    const parts = [make("caption", { textContent: caption }), make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows)];
    return make("div", { className: "wide" }, make("table", {}, ...parts));
  };
  const show = () => {
    const [a, b] = [kernels[old.value], kernels[now.value]];
    const names = Object.keys(a.cases).filter((name) => name in b.cases);
    answer.replaceChildren();
    answer.append(make("p", { textContent: `${named(a)}, and ${named(b)}` }));
    if (!names.length) answer.append(make("p", { textContent: "The two have no case in common." }));
    else answer.append(table("Instructions of a call", "case", names.map((name) => make("tr", {}, ...row(name, a.cases[name][0], b.cases[name][0], a.cases[name][2] || b.cases[name][2])))));
    if (names.some((name) => (a.cases[name][2] || b.cases[name][2]) && a.cases[name][0] !== b.cases[name][0]))
      answer.append(make("p", { className: "note", textContent: "A change in parentheses is of a count that depends on the context, such as the time: it may be none. kentry diff compares context by context, and so does the history." }));
    for (const name of names) {
      const [[before, from], [after, to]] = [a.cases[name], b.cases[name]];
      if (before === after && from === to) continue;
      const [left, right] = [counts(from), counts(to)];
      const changed = [...new Set([...left.keys(), ...right.keys()])]
        .map((one) => [one, left.get(one), right.get(one)])
        .filter(([, less, more]) => less !== more)
        .sort((x, y) => Math.abs((y[2] ?? 0) - (y[1] ?? 0)) - Math.abs((x[2] ?? 0) - (x[1] ?? 0)));
      const rows = changed.map(([one, ...own]) => make("tr", {}, ...row(make("code", { textContent: one }), ...own)));
      const sum = (own) => [...own.values()].reduce((total, value) => total + value, 0);
      const note = sum(left) === before && sum(right) === after ? []
        : [make("p", { className: "note", textContent: "The count depends on the context; the functions are those of the commonest path." })];
      const caption = "Functions that changed, instructions of each";
      const fold = make("details", {}, make("summary", { textContent: `${name} ${signed(after - before)}` }), ...note, table(caption, "function", rows));
      answer.append(fold);
    }
    for (const [which, own, other] of [["old", a, b], ["new", b, a]]) {
      const alone = Object.keys(own.cases).filter((name) => !(name in other.cases));
      if (alone.length) answer.append(make("p", { className: "note", textContent: `Only the ${which} one has ${alone.join(", ")}.` }));
    }
    history.replaceState(null, "", `#${new URLSearchParams({ old: named(a), new: named(b) })}`);
  };
  // A kernel has its place anew with each page.
  const named = (kernel) => `${lines[kernel.line]}: ${kernel.name}`;
  const places = new Map(kernels.map((kernel, at) => [named(kernel), at]));
  const asked = () => {
    const address = new URLSearchParams(location.hash.slice(1));
    const known = (end) => places.get(address.get(end)) ?? null;
    // Without two that are named: the last two of the first line.
    const first = kernels.map((kernel, at) => (kernel.line === kernels[0].line ? at : -1)).filter((at) => at >= 0);
    old.value = known("old") ?? first.at(-2) ?? first[0];
    now.value = known("new") ?? first.at(-1);
    show();
  };
  for (const one of [old, now]) one.addEventListener("change", show);
  addEventListener("hashchange", asked);
  asked();
})();
