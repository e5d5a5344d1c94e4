// SPDX-License-Identifier: GPL-2.0-or-later
// Reads a profile with speedscope's own importer and prints what it read, as JSON.
// Usage: node speedscope.cjs FOLDER-OF-THE-PACKAGE FILE
//
// The package contains only the built page, so that page's script is run up to where it draws.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [folder, file] = process.argv.slice(2);
const release = path.join(folder, "dist", "release");
const script = fs.readdirSync(release).find((name) => /^speedscope-.*\.js$/.test(name));
const source = fs.readFileSync(path.join(release, script), "utf8");

const importer = /loadFileFromBase64:\((\w+),(\w+)\)=>\{this\.loadProfile\(\(\)=>(\w+)\(\1,\2\)\)/.exec(source);
const drawing = source.lastIndexOf("console.log(`speedscope v");
if (!importer || drawing < 0) throw new Error("this speedscope is built in another way");

const element = () => ({ style: {}, appendChild() {}, setAttribute() {}, addEventListener() {} });
const world = {
  console: { ...console, log() {}, time() {}, timeEnd() {} },
  document: { ...element(), createElement: element, head: element(), body: element() },
  navigator: { userAgent: "", platform: "" },
  location: { hash: "", protocol: "file:", href: "file:///" },
  localStorage: { getItem: () => null, setItem() {} },
  matchMedia: () => ({ matches: false, addListener() {}, addEventListener() {} }),
  addEventListener() {},
  alert: (text) => { throw new Error(text); },
  ...{ setTimeout, clearTimeout, atob, btoa, TextDecoder, TextEncoder, URL, Response, Blob },
  ...{ DecompressionStream, WebAssembly, performance },
};
world.window = world.self = world.globalThis = world;
vm.runInNewContext(`${source.slice(0, drawing)}window.importer=${importer[3]}})();`, world);

world.importer(path.basename(file), fs.readFileSync(file).toString("base64")).then((group) => {
  if (!group) throw new Error("speedscope does not recognise the format");
  const profiles = group.profiles.map((profile) => {
    const calls = [];
    const running = [];
    profile.forEachCall(
      (node, at) => {
        running.push(calls.length);
        calls.push([running.length - 1, node.frame.name, at, null]);
      },
      (node, at) => { calls[running.pop()][3] = at; },
    );
    return { name: profile.getName(), total: profile.getTotalNonIdleWeight(), calls };
  });
  console.log(JSON.stringify(profiles));
});
