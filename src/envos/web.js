"use strict";
// What both pages are made with: elements whose texts become text nodes, never markup.
function h(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.flat(9).filter((item) => item !== null && item !== undefined && item !== false));
  return node;
}
const chip = (kind, text) => h("span", { class: `chip ${kind}` }, text);
const table = (columns, rows) => h("table", {},
  h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, name)))),
  h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell))))));
