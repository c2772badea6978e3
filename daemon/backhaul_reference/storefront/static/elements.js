// Building the page's nodes. Text stays text: nothing here ever parses HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(2).filter(Boolean));
  return node;
}

export function h(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** What is read aloud and not shown. */
export function aside(text) {
  return h("span", { class: "hidden" }, text);
}

export function heading(text) {
  return h("h1", { tabindex: "-1" }, text);
}

export function announce(text) {
  const announcer = document.getElementById("announcer");
  announcer.textContent = "";
  // A live region is read only when it changes after it was empty.
  requestAnimationFrame(() => {
    announcer.textContent = text;
  });
}

/** Links of merchants: pages of ours, or web addresses that learn nothing of us. */
export function merchantLink(url, text) {
  const own = /^\/(products|collections)\/[a-z0-9-]+$/.exec(url);
  if (own) return h("a", { href: `#${url}` }, text);
  if (url === "/") return h("a", { href: "#/" }, text);
  if (/^(mailto|tel):/.test(url)) return h("a", { href: url }, text);
  if (!/^https?:\/\//.test(url)) return h("span", {}, text);
  return h("a", { href: url, rel: "noopener noreferrer" }, text);
}
