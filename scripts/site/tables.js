// SPDX-License-Identifier: GPL-2.0-or-later
// A table that scrolls is reached by keyboard.
addEventListener("load", () => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) table.tabIndex = 0;
});
