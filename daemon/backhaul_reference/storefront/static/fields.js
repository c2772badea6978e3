// Form fields named by the JSON pointer of the member that they fill.

import { h } from "./elements.js";
import { flawSentence } from "./problems.js";

export function idOf(pointer) {
  return `field${pointer.replaceAll("/", "-")}`;
}

export function field(pointer, label, attributes = {}) {
  const id = idOf(pointer);
  const shared = { id, name: pointer, "aria-describedby": `${id}-flaw` };
  const control = attributes.rows
    ? h("textarea", { ...shared, ...attributes })
    : h("input", { type: "text", ...shared, ...attributes });
  return wrapped(id, label, control, attributes);
}

export function choice(pointer, label, options, chosen, attributes = {}) {
  const id = idOf(pointer);
  const listed = options.map(([value, text]) => (
    h("option", { value, selected: value === chosen }, text)
  ));
  const shared = { id, name: pointer, "aria-describedby": `${id}-flaw` };
  return wrapped(id, label, h("select", { ...shared, ...attributes }, listed), attributes);
}

function wrapped(id, label, control, { required }) {
  const optional = !required && h("span", { class: "muted" }, " optional");
  const flaw = h("p", { class: "flaw", id: `${id}-flaw` });
  return h("div", { class: "field" }, h("label", { for: id }, label, optional), control, flaw);
}

/** What the form holds, as the document that its pointers describe. */
export function documentOf(form) {
  const made = {};
  for (const [pointer, value] of new FormData(form)) {
    if (pointer.startsWith("/") && value.trim()) put(made, pointer, value.trim());
  }
  return made;
}

function put(document, pointer, value) {
  const parts = pointer.slice(1).split("/");
  const last = parts.pop();
  const inner = parts.reduce((within, part) => (within[part] ??= {}), document);
  inner[last] = value;
}

export function clearFlaws(form) {
  for (const flaw of form.querySelectorAll(".flaw")) flaw.textContent = "";
  for (const one of form.querySelectorAll("[aria-invalid]")) {
    one.removeAttribute("aria-invalid");
  }
}

/** What is being mended is no longer told off. */
export function watchFlaws(form) {
  form.addEventListener("input", ({ target }) => {
    if (!target.hasAttribute("aria-invalid")) return;
    target.removeAttribute("aria-invalid");
    document.getElementById(`${target.id}-flaw`).textContent = "";
  });
}

/** Show each flaw at its field and go to the first; answers those without one. */
export function showFlaws(form, flaws) {
  const homeless = flaws.filter((flaw) => !showFlaw(form, flaw));
  form.querySelector("[aria-invalid]")?.focus();
  return homeless;
}

function showFlaw(form, flaw) {
  // A missing object is told as one flaw: it is shown at the object's fields.
  const at = [...form.querySelectorAll("[name^='/']")].filter((one) => (
    one.name === flaw.pointer || (one.name.startsWith(`${flaw.pointer}/`) && one.required)
  ));
  for (const control of at) {
    control.setAttribute("aria-invalid", "true");
    const words = flawSentence({ ...flaw, pointer: control.name });
    document.getElementById(`${control.id}-flaw`).textContent = words;
  }
  return at.length > 0;
}
