"use strict";
(() => {
  const sites = [...document.querySelectorAll(".site")];
  const button = document.getElementById("layout");
  let current = -1;
  const go = (index) => {
    if (!sites.length) return;
    if (current >= 0) sites[current].classList.remove("current");
    current = Math.max(0, Math.min(index, sites.length - 1));
    sites[current].classList.add("current");
    sites[current].scrollIntoView({ block: "center" });
    sites[current].focus({ preventScroll: true });
  };
  // The rows of a hunk side by side: what was removed beside what was added.
  const beside = (hunk) => {
    const table = document.createElement("table");
    table.className = "code two";
    let removed = [], added = [];
    const cells = (row, side, kind) => {
      const line = row ? row.lastElementChild.cloneNode(true) : document.createElement("td");
      const number = row ? row.children[side].cloneNode(true) : document.createElement("td");
      number.className = "number";
      line.className = "line " + (row ? kind : "none");
      return [number, line];
    };
    const flush = () => {
      for (let i = 0; i < Math.max(removed.length, added.length); i++) {
        table.insertRow().append(...cells(removed[i], 0, "removed"), ...cells(added[i], 1, "added"));
      }
      removed = [];
      added = [];
    };
    for (const row of hunk.querySelectorAll(".one tr")) {
      if (row.className === "removed") removed.push(row);
      else if (row.className === "added") added.push(row);
      else {
        flush();
        table.insertRow().append(...cells(row, 0, "context"), ...cells(row, 1, "context"));
      }
    }
    flush();
    hunk.append(table);
  };
  const lay = (split) => {
    if (split && !document.querySelector(".two")) document.querySelectorAll(".hunk").forEach(beside);
    document.body.classList.toggle("split", split);
    document.body.classList.toggle("unified", !split);
    button.textContent = split ? "unified" : "side by side";
  };
  button.addEventListener("click", () => lay(document.body.classList.contains("unified")));
  const opened = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (target.tagName === "DETAILS") target.open = true;
    const index = sites.indexOf(target);
    if (index >= 0) go(index);
  };
  window.addEventListener("hashchange", opened);
  opened();
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "j") go(current + 1);
    else if (event.key === "k") go(current < 0 ? 0 : current - 1);
    else if (event.key === "u") lay(document.body.classList.contains("unified"));
    else if (event.key === "g") { window.scrollTo(0, 0); if (current >= 0) sites[current].classList.remove("current"); current = -1; }
  });
})();
