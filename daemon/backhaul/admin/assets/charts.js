// Draws the charts from their data, and again when the theme or the data changes.
"use strict";
(() => {
  const REFRESH_MILLISECONDS = 60_000;
  const HEIGHT = 240;
  const LONG_SECONDS = 2 * 86_400;
  const root = document.querySelector(".charts[data-source]");
  if (!root) return;
  const exact = new Intl.DateTimeFormat(undefined, {
    weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit",
  });
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
  const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
  const number = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
  const drawn = new Map();
  let found = null;

  function measure(value, unit) {
    if (value === null || value === undefined) return "–";
    if (unit === "%") return `${number.format(value)} %`;
    if (unit !== "s") return number.format(value);
    if (value < 1) return `${number.format(value * 1000)} ms`;
    if (value < 120) return `${number.format(value)} s`;
    if (value < 7200) return `${number.format(value / 60)} min`;
    return `${number.format(value / 3600)} h`;
  }

  // A canvas knows no variables of CSS: an element with the class has the colour.
  function colour(name) {
    const probe = document.createElement("span");
    probe.className = name;
    root.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  function moments(_, values) {
    const isLong = found.times.at(-1) - found.times[0] > LONG_SECONDS;
    return values.map((value) => (isLong ? day : clock).format(value * 1000));
  }

  function axis(more) {
    const stroke = colour("quiet");
    const grid = { stroke: colour("gridline"), width: 1 };
    return { stroke, grid, ticks: grid, font: "12px system-ui, sans-serif", ...more };
  }

  function options(chart, width, hidden) {
    const value = (_, each) => measure(each, chart.unit);
    const lines = chart.lines.map((line, index) => ({
      label: line.name, stroke: colour(`s${index}`), width: 2, value,
      show: !hidden.has(line.name), points: { size: 5 },
    }));
    const time = { label: "Time", value: (_, at) => (at ? exact.format(at * 1000) : "–") };
    return {
      width, height: HEIGHT, series: [time, ...lines],
      cursor: { drag: { x: false, y: false } },
      legend: { markers: { width: 3 } },
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [
        axis({ values: moments, space: 60 }),
        axis({ values: (_, values) => values.map((each) => measure(each, chart.unit)), size: 64 }),
      ],
    };
  }

  // The legend switches lines with the mouse; here with the keyboard, too.
  function openToKeyboard(plot) {
    plot.root.querySelectorAll(".u-series").forEach((row, index) => {
      const label = row.querySelector("th");
      if (!index || !label) return;
      label.tabIndex = 0;
      label.setAttribute("role", "button");
      const say = () => label.setAttribute("aria-pressed", String(plot.series[index].show));
      label.addEventListener("click", () => queueMicrotask(say));
      label.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        label.click();
      });
      say();
    });
  }

  function draw(figure, chart) {
    const old = drawn.get(figure);
    const shown = old ? old.series.slice(1) : [];
    const hidden = new Set(shown.filter((each) => !each.show).map((each) => each.label));
    old?.destroy();
    const place = figure.querySelector(".plot") ?? document.createElement("div");
    if (!place.isConnected) {
      place.className = "plot";
      figure.querySelector("figcaption").after(place);
      figure.querySelector("details").open = false;
    }
    const data = [found.times, ...chart.lines.map((line) => line.values)];
    const plot = new uPlot(options(chart, place.clientWidth, hidden), data, place);
    const picture = plot.root.querySelector("canvas");
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", `${chart.title}: the values are in the table below`);
    openToKeyboard(plot);
    drawn.set(figure, plot);
  }

  function drawAll() {
    if (!found) return;
    for (const chart of found.charts) {
      const figure = root.querySelector(`[data-chart="${chart.key}"]`);
      if (figure) draw(figure, chart);
    }
  }

  async function load() {
    if (document.hidden) return;
    const answer = await fetch(root.dataset.source, { headers: { "HX-Request": "true" } });
    if (answer.ok) {
      found = await answer.json();
      drawAll();
    } else if (answer.status === 401) {
      location.assign("/login");
    }
  }

  const tryToLoad = () => load().catch(() => {}); // the daemon restarts: the next one works
  new ResizeObserver(() => {
    for (const [figure, plot] of drawn) {
      const width = figure.querySelector(".plot").clientWidth;
      if (width && width !== plot.width) plot.setSize({ width, height: HEIGHT });
    }
  }).observe(root);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  document.addEventListener("visibilitychange", tryToLoad);
  setInterval(tryToLoad, REFRESH_MILLISECONDS);
  tryToLoad();
})();
