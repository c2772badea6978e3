// Pictures drawn from a title: shops without photographs still look like shops.

import { h, svg } from "./elements.js";

const TONES = 6;

function hash(text) {
  let value = 2166136261;
  for (const letter of text) {
    value = Math.imul(value ^ letter.codePointAt(0), 16777619) >>> 0;
  }
  return value;
}

function arch(seed) {
  const left = 14 + (seed % 4) * 8;
  const path = `M${left} 100V52a20 20 0 0 1 40 0v48z`;
  return svg("path", { class: "ink-2", d: path });
}

function sun(seed) {
  const across = 30 + (seed % 5) * 10;
  return svg("circle", { class: "ink-1", cx: across, cy: 38, r: 22 });
}

function hills(seed) {
  const top = 62 + (seed % 4) * 4;
  const path = `M0 ${top + 12}Q26 ${top - 12} 52 ${top + 8}T100 ${top}V100H0z`;
  return svg("path", { class: "ink-3", d: path });
}

function stripes(seed) {
  const from = 48 + (seed % 3) * 6;
  return [0, 1, 2, 3].map((step) => {
    const y = from + step * 11;
    return svg("rect", { class: "ink-2", x: 0, y, width: 100, height: 4 });
  });
}

const SCENES = [[sun, hills], [sun, arch], [stripes, sun], [arch, hills]];

/** A generated still; it says nothing that the title does not, so it is silent. */
export function drawing(title) {
  const seed = hash(title);
  const parts = SCENES[seed % SCENES.length].map((draw) => draw(seed >>> 4));
  const cut = { viewBox: "0 0 100 100", preserveAspectRatio: "xMidYMid slice" };
  const frame = { ...cut, "aria-hidden": "true" };
  const tone = `picture tone-${(seed >>> 8) % TONES}`;
  return svg("svg", { ...frame, class: tone }, parts);
}

/** Whether showing an address asks nobody but this shop. */
export function isOurs(url) {
  if (!url) return false;
  if (/^data:image\//.test(url)) return true;
  try {
    return new URL(url, location.origin).origin === location.origin;
  } catch {
    return false;
  }
}

export function picture(title, image) {
  if (!image || !isOurs(image.url)) return drawing(title);
  const alt = image.alt ?? "";
  return h("img", { class: "picture", src: image.url, alt, loading: "lazy" });
}
